"""Who does the work of a study: its stages, imports, estimates and reruns."""
