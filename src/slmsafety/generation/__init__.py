"""Prompts to responses: how a prompt is rendered, what defines a generation, and the engines that run it."""
