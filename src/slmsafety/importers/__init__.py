"""Other tools' runs -> the same tables."""
