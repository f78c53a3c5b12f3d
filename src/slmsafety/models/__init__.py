"""The SLMs under study: their cards, and how their weights, tokenizers and sentence encoders are loaded."""
