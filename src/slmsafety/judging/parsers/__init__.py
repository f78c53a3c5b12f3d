"""Parsers: a judge's own words -> a verdict."""
