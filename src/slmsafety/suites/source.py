"""A suite's files: the user's own path, or upstream's pinned ones, downloaded once and checked by their hashes."""

from __future__ import annotations

import csv
import hashlib
import http.client
import os
import urllib.error
import urllib.request
from pathlib import Path

from slmsafety.errors import InputError, unknown
from slmsafety.records.ids import content_id, file_sha256
from slmsafety.suites.hub import cached, download
from slmsafety.suites.upstream import BBQ, HUB, UPSTREAM, Upstream

_TIMEOUT = 60.0  # seconds without a byte before a download counts as failed


# Suites whose `path:` may be a folder of upstream's files, and those where it must be one.
_FOLDERS = ("airbench", "bbq", "bbq_full")
_ONLY_FOLDERS = ("bbq", "bbq_full")


def resolve(suite: str, path: str | Path | None) -> Path:
    """Return a suite's file, or the folder of its files: `path` where one is given, else upstream's, cached or fetched.

    Raises InputError when there is nothing of that kind at `path`, or when upstream's files cannot be had or are not
    the pinned ones.
    """
    if path is not None:
        return _given(suite, Path(path).expanduser())
    if suite in HUB:
        folder = download(HUB[suite])
        return folder if suite in _FOLDERS else folder / HUB[suite].files[0]
    targets = _targets(suite)
    for target, upstream in targets.items():
        # Kept where it is there already, undamaged as far as its hash is known.
        if not (target.is_file() and upstream.sha256 in ("", file_sha256(target))):
            fetch(upstream.url, upstream.sha256, target)
    return next(iter(targets)).parent if suite in _ONLY_FOLDERS else next(iter(targets))


def present(suite: str) -> tuple[int, int]:
    """Return how many of a suite's upstream files are in the cache, and how many files it has.

    Neither the network is asked nor a hash checked. Raises InputError for a suite that has no download.
    """
    if suite in HUB:
        return cached(HUB[suite]), len(HUB[suite].files)
    targets = _targets(suite)
    return sum(target.is_file() for target in targets), len(targets)


def _targets(suite: str) -> dict[Path, Upstream]:
    """Return where the files that a suite downloads are kept."""
    folder = cache_folder() / "suites"
    if suite in _ONLY_FOLDERS:
        return {folder / f"bbq-{file.commit[:12]}" / Path(file.file).name: file for file in BBQ}
    if suite not in UPSTREAM:
        raise unknown("suite with a download", suite, (*UPSTREAM, *HUB, *_ONLY_FOLDERS))
    return {folder / f"{suite}-{UPSTREAM[suite].sha256[:12]}.csv": UPSTREAM[suite]}


def revision_of(files: list[Path]) -> str:
    """Return the 12 hex digits that stand for a suite's files: of one file its sha256, of several their names' too."""
    if len(files) == 1:
        return file_sha256(files[0])[:12]
    return content_id({file.name: file_sha256(file) for file in files})


def _given(suite: str, path: Path) -> Path:
    if (path.is_file() and suite not in _ONLY_FOLDERS) or (path.is_dir() and suite in _FOLDERS):
        return path
    if suite in _ONLY_FOLDERS:
        raise InputError(f"suite {suite}: there is no folder '{path}'; 'path:' must name a folder of upstream's files")
    raise InputError(f"suite {suite}: there is no file '{path}'; 'path:' must name upstream's file or a part of it")


def cache_folder() -> Path:
    """Return the folder of downloaded files: SLMSAFETY_CACHE, or .cache/slmsafety in the home folder."""
    return Path(os.environ.get("SLMSAFETY_CACHE") or "~/.cache/slmsafety").expanduser()


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
