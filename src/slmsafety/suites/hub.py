"""Files of a data set on the Hugging Face hub at one revision, through huggingface_hub's own cache."""

from __future__ import annotations

from pathlib import Path

from slmsafety.errors import InputError
from slmsafety.suites.upstream import HubFiles


def download(source: HubFiles) -> Path:
    """Return the folder that holds all of a source's files, fetched once into the hub's cache.

    Offline (HF_HUB_OFFLINE, or no way to the hub) a cached copy is used. Raises InputError when a file is neither
    cached nor to be had. Source: huggingface_hub.snapshot_download.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HTTPError, XetDownloadError  # type: ignore[attr-defined] # its client's own error

    where = f"data set {source.repository} at revision {source.revision}"
    try:
        folder = Path(
            snapshot_download(
                source.repository,
                repo_type="dataset",
                revision=source.revision,
                allow_patterns=list(source.files),
            )
        )
    except (OSError, HTTPError, XetDownloadError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"cannot get {where} ({reason}); give a copy of its files with 'path:'") from error
    # Offline, the hub vouches for a cached snapshot only where it also cached the list of its files.
    missing = [name for name in source.files if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{where}: the cache lacks {missing[0]} ({len(missing)} missing); connect once, or use 'path:'"
        )
    return folder


def cached(source: HubFiles) -> int:
    """Return how many of a source's files the hub's cache holds; the hub is not asked."""
    from huggingface_hub import try_to_load_from_cache

    places = [
        try_to_load_from_cache(source.repository, name, revision=source.revision, repo_type="dataset")
        for name in source.files
    ]
    return sum(isinstance(place, str) for place in places)
