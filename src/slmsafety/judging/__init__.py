"""Responses -> judgments: one file a judge; measuring stays apart from mapping to labels."""
