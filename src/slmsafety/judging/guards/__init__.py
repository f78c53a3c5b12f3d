"""Guard models as judges, their weights run in this process."""
