"""What a known suite is: one record, which stands in the suite's own file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import pandas as pd

from slmsafety.errors import InputError


class Origin(Protocol):
    """Where a suite's files come from (`download.GithubFiles`, `hub.HubFiles`, `demo.Packaged`)."""

    @property
    def repository(self) -> str:
        """Who publishes them."""

    @property
    def revision(self) -> str:
        """Which version is taken."""

    def fetch(self) -> Path:
        """Return the file, or the folder of several, after a download where it is needed."""

    def present(self) -> tuple[int, int]:
        """Return how many of the files are here, and how many there are."""


class SuiteData(NamedTuple):
    """A loaded suite.

    Attributes
    ----------
    prompts : DataFrame
        The prompts table (records.schema.PROMPTS), one row a prompt.
    title : str
        How figures and tables call it; a part of a known suite says so, as in HarmBench-80.
    complete : bool
        Whether it is the whole suite.
    rows_expected : int
        The number of prompts of the whole suite.
    """

    prompts: pd.DataFrame
    title: str
    complete: bool
    rows_expected: int


@dataclass(frozen=True)
class Suite:
    """A known suite.

    Attributes
    ----------
    name, title : str
        Its name in parameters and tables, and in figures.
    rows : int
        The number of its prompts when complete.
    licence : str
        The licence of the prompts.
    origin : Origin
        Where its files come from.
    load : callable
        Makes the prompts table of a file or folder.
    how : str
        How to get it, in a few words.
    path_may_be : tuple of {"file", "folder"}
        What `path:` may name; () for a suite that reads no file of a user's.
    short_title : str
        What a part of it is called, before its number of prompts; "" for the title.
    multiple_choice : bool
        Whether a letter answers it: its outcome is accuracy, and it has no HCR, AR, SRR and over-refusal.
    part_title : callable or None
        Makes the title of given prompts where their number alone does not tell what they are.
    """

    name: str
    title: str
    rows: int
    licence: str
    origin: Origin
    load: Callable[[Path], pd.DataFrame]
    how: str = "downloaded on first use, or `path:` with upstream's file"
    path_may_be: tuple[str, ...] = ("file",)
    short_title: str = ""
    multiple_choice: bool = False
    part_title: Callable[[Suite, pd.DataFrame], str] | None = None

    @property
    def revision(self) -> str:
        """The pinned version of its files, or the words that there is none."""
        return "not pinned" if self.origin.revision == "main" else self.origin.revision

    def title_of(self, prompts: pd.DataFrame) -> str:
        """Return the title of the suite's prompts, or of a part of them."""
        if self.part_title is not None:
            return self.part_title(self, prompts)
        return self.title if len(prompts) == self.rows else f"{self.short_title or self.title}-{len(prompts)}"

    def locate(self, path: Path | None) -> Path:
        """Return the file or folder to read: `path` where one is given, else upstream's, cached or fetched.

        Raises InputError when `path` names nothing that the suite reads, or upstream's files cannot be had.
        """
        if path is None:
            return self.origin.fetch()
        if not self.path_may_be:
            raise InputError(f"suite {self.name} ships with the package and reads no file; remove 'path: {path}'")
        path = path.expanduser()
        if (path.is_file() and "file" in self.path_may_be) or (path.is_dir() and "folder" in self.path_may_be):
            return path
        kind = self.path_may_be[0]
        valid = "upstream's file or a part of it" if kind == "file" else "a folder of upstream's files"
        raise InputError(f"suite {self.name}: there is no {kind} '{path}'; 'path:' must name {valid}")

    def files_here(self) -> str:
        """Return whether its files are here: yes, no, or how many of them."""
        there, files = self.origin.present()
        return "yes" if there == files else f"{there} of {files} files" if there else "no"
