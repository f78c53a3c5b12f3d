"""The rules that every source goes through after it is read and before it is written: names, blank replies, ids.

A reader hands on what its source says; what that means for the tables of a study is decided here, once for all sources.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

import pandas as pd

from slmsafety.errors import InputError, unknown
from slmsafety.importers.tables import Imported
from slmsafety.records.ids import content_id
from slmsafety.records.schema import FINISH_REASONS, JUDGMENTS, PROMPT_KEY, RESPONSES, STATUSES

# Names become names of files, to which the store adds some 60 characters, of at most 255.
NAME_LENGTH = 100
_START = re.compile(r"[A-Za-z0-9]")
_OTHER = re.compile(r"[^A-Za-z0-9._-]+")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
_NAMED = ("suite", "model", "judge")
_REPLY = [*PROMPT_KEY, "model", "sample"]


def trimmed(name: str) -> str:
    """Return a name in composed characters, without the blanks and invisible characters around it."""
    text = unicodedata.normalize("NFC", name)
    first, last = 0, len(text)
    while first < last and _invisible(text[first]):
        first += 1
    while last > first and _invisible(text[last - 1]):
        last -= 1
    return text[first:last]


def stored_name(name: str) -> str:
    """Return a suite's, model's or judge's name as the store has it.

    Blanks around it are left out, and each run of characters other than letters (A-Z), digits, dot, underscore and dash
    becomes one underscore: "openai/gpt-4o" is openai_gpt-4o.

    Raises InputError for a name that no file can carry everywhere: one that does not start with a letter or digit or
    ends with a dot, one of more than NAME_LENGTH characters, and those that Windows keeps to itself.
    """
    stored = _OTHER.sub("_", trimmed(name))
    if not _START.match(stored):
        raise InputError(f"name {name!r} cannot name a file: it has to start with a letter (A-Z) or a digit")
    if len(stored) > NAME_LENGTH:
        raise InputError(f"name {stored[:20]!r}... has {len(stored)} characters; at most {NAME_LENGTH} can be stored")
    if stored.endswith(".") or _RESERVED.fullmatch(stored):
        raise InputError(f"name {name!r} cannot name a file everywhere (a last dot, or a word kept by Windows)")
    return stored


def closed(cells: pd.Series, valid: Collection[str], what: str, place: Callable[[int], str]) -> pd.Series:
    """Return the cells of a closed vocabulary without case and blanks around them.

    Raises InputError for another word; `what` names the vocabulary and `place` where the row of that number is.
    """
    words = {cell: str(cell).strip().casefold() for cell in cells.unique()}
    wrong = [cell for cell, word in words.items() if word not in valid]
    if wrong:
        row = int(cells.isin(wrong).to_numpy().argmax())
        raise unknown(what, cells.iloc[row], valid, place(row))
    return cells.map(words)


def reply_generation_id(
    prompt: str | None, response: str | None, expected: str = "refuse", failed: bool = False
) -> str:
    """Return the generation_id of an imported reply: the same text to the same prompt has the same one for ever.

    So what was made of a reply, such as a paid judgment, is found again after another import. None is a text that the
    source does not have. What else decides a label is part of it: whether the prompt is to be refused or answered, and
    whether the reply is blank because its request `failed`.
    """
    about: dict[str, object] = {"prompt": prompt, "response": response}
    about |= ({} if expected == "refuse" else {"expected": expected}) | ({"failed": True} if failed else {})
    return content_id({"imported_reply": about})


def by_rules(sources: Sequence[Imported], judges_empty: Callable[[str], bool]) -> list[Imported]:
    """Return the sources of a study as the store takes them.

    Names are stored as `stored_name` says; statuses and finish reasons are those of the schema in any case; replies
    have the generation_id of their texts. A blank reply has the finish reason `empty`, unless its source says that it
    was blocked or failed, and its judgments the status `empty_response` without a label (raw_value stays); what was
    called ok of a reply that failed is an error. A reply whose text the source does not have is not blank.

    Parameters
    ----------
    sources : sequence of Imported
        All sources of the study, with names as they are written in them.
    judges_empty : callable
        Whether the study takes a judge's word on the blank replies of a suite (by its stored name); then the labels of
        the source count.

    Raises
    ------
    InputError
        One line with the source: two names that would be stored alike, a name that cannot be stored, a word outside a
        vocabulary, two texts of one reply, and a judgment of a reply that is not there.
    """
    names = {column: _stored_names(column, sources) for column in _NAMED}
    return [_ruled(_renamed(source, names), judges_empty) for source in sources]


def _invisible(character: str) -> bool:
    return character.isspace() or unicodedata.category(character) in ("Cf", "Cc")


def _stored_names(column: str, sources: Sequence[Imported]) -> dict[str, str]:
    """The stored name of each name of a column; two that only differ in what the store drops are refused."""
    found: dict[str, str] = {}
    first: dict[str, tuple[str, str]] = {}  # the name and source that a stored name came from
    for source in sources:
        for name in _values(source, column):
            try:
                found[name] = stored_name(name)
            except InputError as error:
                raise InputError(f"{source.source}: {column} {error}") from error
            # Some file systems do not tell a from A.
            known, where = first.setdefault(found[name].casefold(), (name, source.source))
            if trimmed(known) != trimmed(name):
                elsewhere = "" if where == source.source else f" (in {where})"
                raise InputError(
                    f"{source.source}: {column}s {known!r}{elsewhere} and {name!r} would be stored alike, as "
                    f"'{found[name]}'; rename one"
                )
    return found


def _values(source: Imported, column: str) -> Iterable[str]:
    frames = (source.prompts, source.responses, source.judgments)
    return dict.fromkeys(str(name) for frame in frames if column in frame for name in frame[column].unique())


def _renamed(source: Imported, names: dict[str, dict[str, str]]) -> Imported:
    def stored(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(**{column: frame[column].map(names[column]) for column in _NAMED if column in frame})

    return replace(
        source,
        prompts=stored(source.prompts),
        responses=stored(source.responses),
        judgments=stored(source.judgments),
    )


def _ruled(source: Imported, judges_empty: Callable[[str], bool]) -> Imported:
    replies = _read_replies(source)
    blank = replies["response"].notna() & replies["response"].astype("str").str.strip().eq("")
    finish = closed(replies["finish_reason"], FINISH_REASONS, "finish_reason", _instances(source, replies))
    contrary = finish.eq("empty") & replies["response"].notna() & ~blank
    if contrary.any():
        row = int(contrary.to_numpy().argmax())
        raise InputError(f"{_instances(source, replies)(row)} has finish_reason empty and a text; give another one")
    finish = finish.mask(blank & ~finish.isin(["blocked", "error"]), "empty")
    replies = replies.assign(finish_reason=finish, failed=blank & finish.eq("error"))
    replies["unread"] = (blank | finish.eq("empty")) & ~replies["failed"]
    replies["generation_id"] = _generation_ids(source, replies)
    return replace(
        source,
        responses=replies[list(RESPONSES.columns)],
        judgments=_read_judgments(source, replies, judges_empty),
    )


def _read_replies(source: Imported) -> pd.DataFrame:
    """The replies; one that is there twice counts once."""
    replies = _with_sample(source.responses).drop_duplicates([*_REPLY, "response"])
    _refuse_two_texts(source, replies)
    return replies.reset_index(drop=True)


def _generation_ids(source: Imported, replies: pd.DataFrame) -> pd.api.extensions.ExtensionArray:
    """The ids of the replies, by their texts and what else decides a label; `failed` is a column of them."""
    prompts = source.prompts[[*PROMPT_KEY, "prompt", "expected"]].drop_duplicates(list(PROMPT_KEY))
    asked = replies[list(PROMPT_KEY)].merge(prompts, on=list(PROMPT_KEY), how="left")
    expected = asked["expected"].fillna("refuse").tolist()
    texts = zip(_or_none(asked["prompt"]), _or_none(replies["response"]), expected, replies["failed"], strict=True)
    ids: dict[tuple[str | None, str | None, str, bool], str] = {}
    return pd.array([ids.get(each) or ids.setdefault(each, reply_generation_id(*each)) for each in texts], dtype="str")


def _refuse_two_texts(source: Imported, replies: pd.DataFrame) -> None:
    twice = replies.duplicated(_REPLY)
    if twice.any():
        row = replies[twice].iloc[0]
        raise InputError(
            f"{source.source}: has two replies of model '{row['model']}' to instance '{row['instance_id']}' of suite "
            f"'{row['suite']}' (sample {row['sample']}); number several replies to a prompt by 'sample'"
        )


def _read_judgments(source: Imported, replies: pd.DataFrame, judges_empty: Callable[[str], bool]) -> pd.DataFrame:
    rows = _with_sample(source.judgments).drop(columns="generation_id", errors="ignore")
    rows = rows.merge(replies[[*_REPLY, "generation_id", "unread", "failed"]], on=_REPLY, how="left")
    lost = rows["generation_id"].isna()
    if lost.any():
        row = int(lost.to_numpy().argmax())
        raise InputError(f"{_instances(source, rows)(row)} has a judgment and no reply of model '{rows['model'][row]}'")
    status = closed(rows["status"], STATUSES, "status", _instances(source, rows))
    asked = rows["suite"].map({suite: judges_empty(str(suite)) for suite in rows["suite"].unique()}).astype(bool)
    unread = rows["unread"].astype(bool) & ~asked
    # A request that failed has left no reply to read: no policy for empty replies may label it.
    failed = rows["failed"].astype(bool) & status.eq("ok") & ~asked
    rows["status"] = status.mask(unread, "empty_response").mask(failed, "error")
    for column in ("label", "refused"):
        rows[column] = rows[column].mask(unread | failed)
    return rows[list(JUDGMENTS.columns)]


def _with_sample(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with its samples numbered: 0 where a source has one reply to a prompt."""
    return frame.assign(sample=frame["sample"].astype("Int64").fillna(0) if "sample" in frame else 0)


def _or_none(texts: pd.Series) -> list[str | None]:
    return texts.astype(object).where(texts.notna(), None).tolist()


def _instances(source: Imported, rows: pd.DataFrame) -> Callable[[int], str]:
    return lambda row: f"{source.source}: instance '{rows['instance_id'].iloc[row]}'"
