"""Which column of a table is which: by its name, by the study's word, or a constant for all rows."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from slmsafety.errors import InputError
from slmsafety.importers.cells import BYTES, NOT_FINITE, Cells
from slmsafety.importers.delimited import DELIMITERS
from slmsafety.importers.scores import PLAIN, Scale

REQUIRED = ("suite", "instance_id", "model", "judge", "score")
OPTIONAL = (
    *("prompt", "response", "expected", "category", "subcategory", "group", "status", "reason"),
    *("sample", "refused", "finish_reason"),
)
KNOWN = (*REQUIRED, *OPTIONAL)
CONSTANTS = ("suite", "model", "judge")
NAMED_BY_TEXT = "by the prompt's text"
_NEAR = 0.75


@dataclass(frozen=True)
class TableOptions:
    """What a study says of a table, beside its path.

    Attributes
    ----------
    form, encoding, delimiter : str or None
        How the file is read (`table_files.read_cells`).
    constants : dict
        The suite, model or judge of all rows.
    columns : dict
        The file's name of a column of KNOWN.
    judges : dict
        Judges whose scores are columns, with those columns' names.
    scale : Scale
        How scores are read, unless `scales` has a scale for the judge.
    scales : dict
        Scales by judge.
    """

    form: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    constants: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    judges: Mapping[str, str] = field(default_factory=dict)
    scale: Scale = PLAIN
    scales: Mapping[str, Scale] = field(default_factory=dict)


NOTHING_SAID = TableOptions()


@dataclass(frozen=True)
class Layout:
    """Places of columns: of those known (by KNOWN), of judges' scores (by judge), and of those kept in `meta`."""

    known: dict[str, int]
    judges: dict[str, int]
    meta: list[int]


def layout(cells: Cells, options: TableOptions) -> Layout:
    """Return which column is which.

    Names are compared without case and blanks around them. What nobody knows is kept, unless it is a near miss of a
    known column that the file lacks.

    Raises InputError with one line that names the file: two columns of one name, a needed column that is not there, a
    column that the study names and the file lacks, a constant beside a column, a near miss, and a known column that
    holds lists, objects or bytes.
    """
    source = cells.source
    names = [str(name) for name in cells.frame.columns]
    at = _places(names, source)
    known, taken = {}, set()
    for ours, theirs in options.columns.items():
        known[ours] = _place(theirs, at, names, source)
    judges = {judge: _place(column, at, names, source) for judge, column in options.judges.items()}
    taken = {*known.values(), *judges.values()}
    for name in KNOWN:
        place = at.get(name)
        if place is None or place in taken:
            continue
        if options.judges and name in ("judge", "score"):
            raise InputError(f"{source}: has a column '{name}' beside the judges that the study names; rename it")
        if name not in known:
            known[name] = place
    for name in options.constants:
        if name in known:
            raise InputError(
                f"{source}: has a column '{names[known[name]]}', and the study gives {name}: "
                f"{options.constants[name]}; remove one"
            )
    rest = [place for place in range(len(names)) if place not in {*known.values(), *judges.values()}]
    filled = {*known, *options.constants, *(("judge", "score") if judges else ())}
    _refuse_near_misses([names[place] for place in rest], filled, source)
    lacking = [name for name in REQUIRED if name not in filled]
    if lacking == ["instance_id"] and "prompt" in known:
        lacking = []
    if lacking:
        raise _lacks(lacking[0], names, source)
    _refuse_unfit(cells, {known.get("score"), *judges.values()}, rest)
    return Layout(known, judges, rest)


def _folded(name: str) -> str:
    return name.strip().casefold()


def _places(names: list[str], source: str) -> dict[str, int]:
    at: dict[str, int] = {}
    for place, name in enumerate(names):
        if _folded(name) in at:
            first = names[at[_folded(name)]]
            raise InputError(f"{source}: has two columns of one name, '{first}' and '{name}'; rename or remove one")
        at[_folded(name)] = place
    return at


def _place(given: str, at: dict[str, int], names: list[str], source: str) -> int:
    """The place of a column that the study names."""
    if _folded(given) not in at:
        near = difflib.get_close_matches(_folded(given), list(at), n=1, cutoff=_NEAR)
        hint = f"did you mean '{names[at[near[0]]]}'?" if near else _listed(names)
        raise InputError(f"{source}: lacks column '{given}', which the study names; {hint}")
    return at[_folded(given)]


def _listed(names: list[str]) -> str:
    shown = ", ".join(name[:40] for name in names[:20])
    return f"it has: {shown}" + (", ..." if len(names) > 20 else "")


def _lacks(name: str, names: list[str], source: str) -> InputError:
    if len(names) == 1:
        for word, character in DELIMITERS.items():
            if character in names[0]:
                return InputError(
                    f"{source}: its header is one column, and holds {word}s; add delimiter: {word} where they are "
                    "between its columns"
                )
    constant = f", or {name}: NAME where all rows have the same" if name in CONSTANTS else ""
    by_text = ", or {prompt: ITS NAME THERE}, whose text is the id then" if name == "instance_id" else ""
    wide = ", or judges: {NAME: COLUMN} for scores in columns of their own" if name in ("judge", "score") else ""
    return InputError(
        f"{source}: lacks column '{name}'; needed: {', '.join(REQUIRED)}; {_listed(names)}. Add columns: "
        f"{{{name}: ITS NAME THERE}}{by_text}{constant}{wide}"
    )


def _refuse_near_misses(unknown: list[str], filled: set[str], source: str) -> None:
    """A misspelt column would be kept in `meta`, and not read: one that nearly is a missing known one stops."""
    free = [name for name in KNOWN if name not in filled]
    for name in unknown:
        for ours in free:
            if _near_miss(_folded(name), ours):
                raise InputError(
                    f"{source}: unknown column '{name}'; did you mean '{ours}'? Rename it, or add columns: "
                    f"{{{ours}: {name}}}"
                )


def _near_miss(name: str, ours: str) -> bool:
    if re.sub(r"[^a-z0-9]", "", name) == re.sub(r"[^a-z0-9]", "", ours):
        return True
    if re.match(rf"{ours}[^a-z]", name) or re.search(rf"[^a-z]{ours}$", name):  # prompt_id, response 2, gpt4 score
        return False
    return difflib.SequenceMatcher(None, name, ours).ratio() >= _NEAR


def _refuse_unfit(cells: Cells, scores: set[int | None], rest: list[int]) -> None:
    """Refuse what is no text in a column that is read; a score may be nan, which the scale then has to name."""
    for place, name in enumerate(cells.frame.columns):
        found = cells.unfit.get(str(name))
        if found is None or (place in rest and found.what != BYTES) or (place in scores and found.what == NOT_FINITE):
            continue
        raise InputError(f"{cells.place(found.row)} has {found.what} in column '{name}'; give a text or a number")
