"""A suite's file: the user's own path, or upstream's pinned file, downloaded once and checked by its hash."""

from __future__ import annotations

import csv
import hashlib
import http.client
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from slmsafety.errors import InputError, unknown
from slmsafety.records.ids import file_sha256

_TIMEOUT = 60.0  # seconds without a byte before a download counts as failed


@dataclass(frozen=True)
class Upstream:
    """A file at a pinned commit of a public repository, and the sha256 published for it."""

    repository: str
    commit: str
    file: str
    sha256: str

    @property
    def url(self) -> str:
        """The address of the raw file."""
        return f"https://raw.githubusercontent.com/{self.repository}/{self.commit}/{self.file}"


UPSTREAM = {
    "harmbench": Upstream(
        "centerforaisafety/HarmBench",
        "8e1604d1171fe8a48d8febecd22f600e462bdcdd",
        "data/behavior_datasets/harmbench_behaviors_text_all.csv",
        "8d81accedd38eaaf8b760618622bb888417d1fd0c86eba65c427a16f1cbb4afc",
    ),
    "sst": Upstream(
        "bertiev/SimpleSafetyTests",
        "d7aee9a9422a5a5488f478fd79c2479c891c0f3b",
        "SimpleSafetyTests%20-%20test%20cases.csv",
        "6d95a1301e0d0f3a3c4cf5392f4afff11ad6e3066f95d23aaa138d44aedf986c",
    ),
}


def resolve(suite: str, path: str | Path | None) -> Path:
    """Return the file of a suite: `path` where one is given, else upstream's pinned file from the cache or the network.

    Raises InputError when `path` is no file, or when upstream's file cannot be downloaded or is not the pinned one.
    """
    if path is not None:
        given = Path(path).expanduser()
        if not given.is_file():
            raise InputError(
                f"suite {suite}: there is no file '{given}'; 'path:' must name upstream's file or a part of it"
            )
        return given
    if suite not in UPSTREAM:
        raise unknown("suite with a download", suite, UPSTREAM)
    upstream = UPSTREAM[suite]
    target = cache_folder() / "suites" / f"{suite}-{upstream.sha256[:12]}.csv"
    if not (target.is_file() and file_sha256(target) == upstream.sha256):
        fetch(upstream.url, upstream.sha256, target)
    return target


def cache_folder() -> Path:
    """Return the folder of downloaded files: SLMSAFETY_CACHE, or .cache/slmsafety in the home folder."""
    return Path(os.environ.get("SLMSAFETY_CACHE") or "~/.cache/slmsafety").expanduser()


def fetch(url: str, sha256: str, target: Path) -> None:
    """Download `url` to `target`, whole and with the right hash, or leave nothing behind and raise InputError."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as response:
            content: bytes = response.read()
    except (OSError, http.client.HTTPException) as error:  # URLError and timeouts are OSErrors
        if isinstance(error, urllib.error.HTTPError):
            error.close()  # it holds the connection open
        raise InputError(f"cannot download {url} ({_cause(error)}); give a copy of the file with 'path:'") from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise InputError(f"{url} has sha256 {found}, not the published {sha256}; give the right file with 'path:'")
    # One temporary file per process: two runs that start together must not write into each other's.
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(content)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"cannot write '{target}' ({_cause(error)}); set SLMSAFETY_CACHE to another folder") from error


def read_rows(path: Path, columns: tuple[str, ...], filled: tuple[str, ...]) -> list[dict[str, str]]:
    """Return the rows of a CSV file as text, cell for cell as written, so that "nan" or "" stay what they are.

    `columns` must all be in the header, and no row may leave a cell of `filled` blank. Rows are numbered from 1 below
    the header. Raises InputError when the file is missing, empty, not UTF-8, not a CSV, or lacks a column or a cell.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            reader = csv.DictReader(handle, strict=True)
            rows = list(reader)
            header = list(reader.fieldnames or [])
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"'{path}' is not a CSV file in UTF-8 ({_cause(error)})") from error
    except OSError as error:
        raise InputError(f"cannot read '{path}' ({_cause(error)})") from error
    expected = f"expected columns: {', '.join(columns)}"
    for column in columns:
        if column not in header:
            raise InputError(f"'{path}' has no column '{column}'; {expected}")
    if not rows:
        raise InputError(f"'{path}' has a header but no row; {expected}")
    for number, row in enumerate(rows, start=1):
        # DictReader files surplus cells under the key None and gives missing ones the value None.
        if None in row or None in row.values():
            raise InputError(f"'{path}' row {number} does not have the header's {len(header)} cells")
        for column in filled:
            if not row[column].strip():
                raise InputError(f"'{path}' row {number} has nothing in column '{column}'")
    return rows


def _cause(error: Exception) -> str:
    """Return an exception's own words on one line, or its kind when it has none."""
    return " ".join(str(error).split()) or type(error).__name__
