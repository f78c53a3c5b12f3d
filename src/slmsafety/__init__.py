"""slmsafety: how far automated safety benchmarks can be trusted on small language models."""

__version__ = "0.1.0"
