"""Files of a data set on the Hugging Face hub at one revision, through huggingface_hub's own cache."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from slmsafety.errors import InputError


@dataclass(frozen=True)
class HubFiles:
    """A data set of the Hugging Face hub: its id, the revision to take, and its files in their order."""

    repository: str
    revision: str
    files: tuple[str, ...]

    def fetch(self) -> Path:
        """Return the one file, or the folder of several, fetched once into the hub's cache.

        Offline (HF_HUB_OFFLINE, or no way to the hub) a cached copy is used. Raises InputError when a file is neither
        cached nor to be had. Source: huggingface_hub.snapshot_download.
        """
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import (  # type: ignore[attr-defined] # HTTPError is its client's own
            HTTPError,
            XetDownloadError,
        )

        where = f"data set {self.repository} at revision {self.revision}"
        files = list(self.files)
        try:
            folder = Path(
                snapshot_download(self.repository, repo_type="dataset", revision=self.revision, allow_patterns=files)
            )
        except (OSError, HTTPError, XetDownloadError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise InputError(f"cannot get {where} ({reason}); give a copy of its files with 'path:'") from error
        # Offline, the hub vouches for a cached snapshot only where it also cached the list of its files.
        missing = [name for name in files if not (folder / name).is_file()]
        if missing:
            raise InputError(
                f"{where}: the cache lacks {missing[0]} ({len(missing)} missing); connect once, or use 'path:'"
            )
        return folder if len(files) > 1 else folder / files[0]

    def present(self) -> tuple[int, int]:
        """Return how many of the files the hub's cache holds, and how many there are; the hub is not asked."""
        from huggingface_hub import try_to_load_from_cache

        found = [
            try_to_load_from_cache(self.repository, name, revision=self.revision, repo_type="dataset")
            for name in self.files
        ]
        return sum(isinstance(path, str) for path in found), len(self.files)
