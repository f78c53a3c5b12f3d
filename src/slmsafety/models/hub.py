"""What to do where the hub does not give a model, in one line: who to ask, which variable to set, which name is wrong.

huggingface_hub and transformers spread such advice over several lines, and over errors that caused each other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from huggingface_hub import constants, get_token
from huggingface_hub.errors import (
    DisabledRepoError,
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from slmsafety.errors import InputError

# The most characters of a library's own words.
_SAID = 400
_TOKEN = re.compile(r"\bhf_[A-Za-z0-9]{8,}")
_REPOSITORY = re.compile(r"(?:/api/models)?/([^/]+/[^/]+|[^/]+)(?:/(?:resolve|revision|tree|xet-read-token)/|$)")
_LOGIN = re.compile(r"(?<=://)[^/\s@]+@")
_FORBIDDEN, _WRONG_TOKEN, _TOO_MANY = 403, 401, 429
_SERVER_FAULT = 500


def unavailable(what: str, error: BaseException, advice: str = "") -> InputError:
    """Return the one-line error for a model that could not be loaded: what, why, and what to do.

    Parameters
    ----------
    what : str
        The model, such as 'hub id someone/model, revision main'.
    error : BaseException
        What was raised; the errors that it came from are read too.
    advice : str, default ""
        What to do where the error itself does not say it.

    Returns
    -------
    InputError
        Without any access token, and without user and password of an address.
    """
    told = _advice(error) or " ".join(str(error).split())[:_SAID] or "no reason given"
    line = f"{what}: cannot be loaded ({type(error).__name__}): {told}{_more(told, advice)}"
    return InputError(_without_secrets(line))


def _advice(error: BaseException) -> str:
    """Return what a hub's or a loader's error means for the user; "" for an error that is of something else."""
    chain = list(_chain(error))
    for kind in (GatedRepoError, DisabledRepoError, RepositoryNotFoundError, RevisionNotFoundError):
        for one in chain:
            if isinstance(one, kind):
                return _of_repository(one)
    for one in chain:
        if isinstance(one, HfHubHTTPError) and not isinstance(one, EntryNotFoundError):
            return _of_status(one)
    if any(isinstance(one, OfflineModeIsEnabled | LocalEntryNotFoundError) for one in chain):
        return _of_no_answer(chain)
    if any("trust_remote_code" in str(one) for one in chain):
        return (
            "the model has code of its own, which runs only with `trust_remote_code: true` in its entry; read that "
            "code first"
        )
    return ""


def _of_repository(error: HfHubHTTPError) -> str:
    """Return what to do where a repository, or a revision of it, is closed or not there."""
    page = _page(error)
    if isinstance(error, GatedRepoError):
        given = "the account of your token (HF_TOKEN) has no access yet" if get_token() else "no access token is set"
        return (
            f"access to it must be granted, and {given}; ask for it on {page}, then set HF_TOKEN to a token of that "
            f"account ({constants.ENDPOINT}/settings/tokens) or run `hf auth login`"
        )
    if isinstance(error, DisabledRepoError):
        return f"the hub has closed this model; see {page}"
    if isinstance(error, RevisionNotFoundError):
        return f"it has no such revision (branch, tag or commit); see {page}/tree/main"
    private = "your token (HF_TOKEN) may not see it" if get_token() else "HF_TOKEN is not set"
    return f"the hub has no such model, or it is private and {private}; check the name on {page}"


def _of_status(error: HfHubHTTPError) -> str:
    """Return what to do after an answer of the hub that is no file."""
    status = error.response.status_code
    said = f"the hub {constants.ENDPOINT} answered {status}"
    if status == _WRONG_TOKEN:
        return f"{said}: it does not know the token in HF_TOKEN; make one on {constants.ENDPOINT}/settings/tokens"
    if status == _FORBIDDEN:
        return f"{said}: the token in HF_TOKEN may not read this model; give one with read access to it"
    if status == _TOO_MANY:
        return f"{said}: too many requests; wait, or set HF_TOKEN, which raises the limit"
    return f"{said}; try again later" if status >= _SERVER_FAULT else f"{said}: {' '.join(str(error).split())[:_SAID]}"


def _of_no_answer(chain: list[BaseException]) -> str:
    """Return what to do where the hub was not asked, or did not answer, and the cache does not hold the file."""
    cache = f"not in the cache ({constants.HF_HUB_CACHE}; HF_HUB_CACHE moves it)"
    if constants.is_offline_mode() or any(isinstance(one, OfflineModeIsEnabled) for one in chain):
        return f"HF_HUB_OFFLINE is set, and it is {cache}; run once without HF_HUB_OFFLINE, or `hf download` it"
    return (
        f"the hub {constants.ENDPOINT} cannot be reached, and it is {cache}; check the network (HF_ENDPOINT names "
        "another hub), or give the model as a folder"
    )


def _page(error: HfHubHTTPError) -> str:
    """Return the address of a model's page, as the request that failed names it."""
    found = _REPOSITORY.match(str(error.response.request.url.path))
    return f"{constants.ENDPOINT}/{found[1]}" if found else constants.ENDPOINT


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that it came from, the latest first."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _more(told: str, advice: str) -> str:
    return f"; {advice}" if advice and advice not in told else ""


def _without_secrets(text: str) -> str:
    """Return the text without access tokens and without what stands before the @ of an address."""
    for secret in {get_token(), os.environ.get("HF_TOKEN"), os.environ.get("HUGGING_FACE_HUB_TOKEN")} - {None, ""}:
        text = text.replace(str(secret), "(token)")
    return _LOGIN.sub("", _TOKEN.sub("(token)", text))
