"""Language models behind an endpoint as judges."""
