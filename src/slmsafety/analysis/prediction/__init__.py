"""How well labels are predicted from metrics."""
