"""Files of a public repository at a pinned commit, downloaded once and checked by their hashes."""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from slmsafety.errors import InputError
from slmsafety.paths import cache_folder
from slmsafety.records.files import write_atomic
from slmsafety.records.ids import file_sha256

_TIMEOUT = 60.0  # seconds without a byte before a download counts as failed


@dataclass(frozen=True)
class GithubFiles:
    """A suite's files in a GitHub repository.

    Attributes
    ----------
    name : str
        What their place in the cache starts with.
    repository, revision : str
        The repository (owner/name) and the commit, 40 hex digits.
    files : dict of str to str
        Each file's path, as the address has it, and its published sha256; "" where none is known.
    site : str
        Where raw files are served.
    """

    name: str
    repository: str
    revision: str
    files: dict[str, str]
    site: str = "https://raw.githubusercontent.com"

    def url(self, file: str) -> str:
        """Return the address of a file."""
        return f"{self.site}/{self.repository}/{self.revision}/{file}"

    def targets(self) -> dict[str, Path]:
        """Return where each file is kept: a single file by its hash, several in a folder by their commit."""
        folder = cache_folder() / "suites"
        if len(self.files) == 1:
            ((file, sha256),) = self.files.items()
            return {file: folder / f"{self.name}-{sha256[:12]}{Path(file).suffix}"}
        return {file: folder / f"{self.name}-{self.revision[:12]}" / Path(file).name for file in self.files}

    def fetch(self) -> Path:
        """Return the one file, or the folder of several, downloaded where it is not there undamaged.

        Raises InputError when a file cannot be had or is not the pinned one.
        """
        targets = self.targets()
        for file, target in targets.items():
            if not (target.is_file() and self.files[file] in ("", file_sha256(target))):
                fetch(self.url(file), self.files[file], target)
        first = next(iter(targets.values()))
        return first if len(targets) == 1 else first.parent

    def present(self) -> tuple[int, int]:
        """Return how many of the files are in the cache, and how many there are; no hash is checked."""
        targets = self.targets()
        return sum(target.is_file() for target in targets.values()), len(targets)


def fetch(url: str, sha256: str, target: Path) -> None:
    """Download `url` to `target`, whole and with the right hash, or leave nothing behind and raise InputError.

    An empty `sha256` stands for an unknown one, which nothing is checked against.
    """
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as response:
            content: bytes = response.read()
    except (OSError, http.client.HTTPException) as error:  # URLError and timeouts are OSErrors
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it holds the connection open
        raise InputError(f"cannot download {url} ({_cause(error)}); give a copy of the file with 'path:'") from error
    found = hashlib.sha256(content).hexdigest()
    if sha256 not in ("", found):
        raise InputError(f"{url} has sha256 {found}, not the published {sha256}; give the right file with 'path:'")
    try:
        write_atomic(target, content)
    except OSError as error:
        raise InputError(f"cannot write '{target}' ({_cause(error)}); set SLMSAFETY_CACHE to another folder") from error


def _cause(error: Exception) -> str:
    """Return an exception's own words on one line, or its kind when it has none."""
    return " ".join(str(error).split()) or type(error).__name__
