"""From a judge's continuous score to labels: thresholds fitted once, stored, and applied anywhere."""
