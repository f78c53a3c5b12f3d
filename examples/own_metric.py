"""A metric of replies: the mean number of words in a sentence."""

import re

import pandas as pd

NAME = "sentence_words"
OF = "replies"


def measure(rows: pd.DataFrame) -> list[float]:
    """Return a number for each reply, in the order of `rows`; nan for a reply without words."""
    return [words_in_a_sentence(text) for text in rows["response"]]


def words_in_a_sentence(text: str) -> float:
    """Return words / sentences of one text."""
    sentences = [part for part in re.split(r"[.!?]+", text) if part.split()]
    return len(text.split()) / len(sentences) if sentences else float("nan")
