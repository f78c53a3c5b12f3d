"""Rubrics: what a language model is asked as a judge, and what its verdicts mean."""
