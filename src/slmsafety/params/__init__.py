"""What is asked: a study's parameters and their entries."""
