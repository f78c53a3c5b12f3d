"""Prompts and responses -> metrics of complexity and quality (paper section 3.3)."""
