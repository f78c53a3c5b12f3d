"""What drives ambiguity: associations, models of it, metadata."""
