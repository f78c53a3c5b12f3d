"""A user's own rubric, as a YAML file: its texts, what its values mean, and in which form a judge answers."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, get_args

from slmsafety.errors import InputError, unknown
from slmsafety.judging.parsers.anchored import Class
from slmsafety.judging.parsers.elements import Form
from slmsafety.judging.rubrics.base import HELM_TOKENS, QUOTING_NOTE, form_instruction, own_template
from slmsafety.judging.rubrics.text import ANSWER, ANY, REFUSE, TextRubric, Values
from slmsafety.judging.slots import check_slots
from slmsafety.records.schema import LABELS
from slmsafety.records.yaml_files import read_yaml

_KEYS = ("name", "version", "citation", "task", "scale", "text", "values", "form", "max_tokens", "published_with")
_LABELS = {word: label for label, word in LABELS.items()}
# What a text holds that already tells the judge in which form to answer.
_MARKS: dict[Form, re.Pattern[str]] = {
    "tags": re.compile(r"<\s*score\s*>", re.IGNORECASE),
    "heads": re.compile(r"##\s*the_score\s*:", re.IGNORECASE),
}


def read_rubric(path: Path) -> TextRubric:
    """Read a user's rubric.

    Parameters
    ----------
    path : Path
        A YAML file with the keys

        - `name`; `version` (a whole number, 1); `citation`;
        - `task` and `scale` (what each value means, in words): the package's own template makes the prompt of them. Or
          `text`: a whole prompt with {{QUESTION}} and {{ANSWER}}, once each. The note that both texts are quoted is put
          before it, and the form of the answer is put after it unless the text shows `<score>` (form heads:
          `##the_score:`) itself;
        - `values`: for each number that the judge may give a `name` (it becomes the reason) and a `label` (harmful,
          ambiguous, safe); or both under `refuse` and under `answer`, where they differ between the two kinds of
          prompts;
        - `form` (tags, heads); `max_tokens` (256);
        - `published_with`: judges that it was published with; a run with another one prints a warning.

    Returns
    -------
    TextRubric
        The rubric, as the built-in ones are made: texts quoted, verdicts read by the same parsers. Its definition
        hashes the prompt, the values, the form and the parser.

    Raises
    ------
    InputError
        One line that names the file and the key, for a file of another form.
    """
    content, where = read_yaml(path), str(path)
    if not isinstance(content, dict):
        raise InputError(f"{where}: a rubric is a mapping with the keys {', '.join(_KEYS)}")
    for key in content:
        if key not in _KEYS:
            raise unknown("key", key, _KEYS, where)
    form = content.get("form", "tags")
    if form not in get_args(Form):
        raise unknown("form", form, get_args(Form), where)
    classes = _classes(content.get("values"), where)
    models = content.get("published_with", [])
    if not isinstance(models, list) or not all(isinstance(model, str) for model in models):
        raise InputError(f"{where}: published_with is a list of model names")
    return TextRubric(
        name=_text(content, "name", where),
        version=_number(content, "version", 1, where),
        citation=_text(content, "citation", where) if "citation" in content else "",
        templates={ANY: _template(content, tuple(classes[REFUSE]), form, where)},
        classes=classes,
        published_with=tuple(models),
        max_tokens=_number(content, "max_tokens", HELM_TOKENS, where),
        form=form,
    )


def _template(content: dict[str, Any], values: tuple[float, ...], form: Form, where: str) -> str:
    """Return the prompt, from `text` or from `task` and `scale`."""
    if ("text" in content) == ("task" in content or "scale" in content):
        raise InputError(f"{where}: needs either 'text' or 'task' and 'scale'")
    if "text" in content:
        text = _text(content, "text", where)
        check_slots(text, f"{where}: text")
        parts = [QUOTING_NOTE, text]
        if not _MARKS[form].search(text):
            parts.append(form_instruction(values, form))
        return "\n\n".join(parts)
    scale = _by_value(content.get("scale"), f"{where}: scale")
    if scale.keys() != set(values):
        raise InputError(f"{where}: scale and values must name the same numbers")
    meanings = {value: _text(scale, value, f"{where}: scale") for value in scale}
    template = own_template(_text(content, "task", where), meanings, form)
    check_slots(template, f"{where}: the prompt of task and scale")
    return template


def _classes(given: Any, where: str) -> dict[str, Values]:
    """Return what the values mean for prompts to refuse and to answer."""
    found: dict[str, dict[float, Class]] = {REFUSE: {}, ANSWER: {}}
    for value, meaning in _by_value(given, f"{where}: values").items():
        here = f"{where}: values: {value:g}"
        both = meaning if isinstance(meaning, dict) and meaning.keys() & found.keys() else dict.fromkeys(found, meaning)
        for kind in both.keys() | found.keys():
            if kind not in found:
                raise unknown("key", kind, found, here)
            found[kind][value] = _class(both.get(kind), f"{here}: {kind}" if both is meaning else here)
    return {REFUSE: found[REFUSE], ANSWER: found[ANSWER]}


def _class(given: Any, where: str) -> Class:
    if not isinstance(given, dict):
        raise InputError(f"{where}: needs a name and a label, such as {{name: refusal, label: safe}}")
    for key in given:
        if key not in ("name", "label"):
            raise unknown("key", key, ("name", "label", REFUSE, ANSWER), where)
    if not isinstance(given.get("label"), str) or given["label"] not in _LABELS:
        raise unknown("label", given.get("label"), _LABELS, where)
    return Class(_text(given, "name", where), _LABELS[given["label"]])


def _by_value(given: Any, where: str) -> dict[float, Any]:
    """Return a mapping whose keys are at least two finite numbers."""
    if not isinstance(given, dict) or len(given) < 2:
        raise InputError(f"{where}: needs a mapping of two numbers or more, such as {{0: ..., 0.5: ..., 1: ...}}")
    for value in given:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise InputError(f"{where}: '{value}' is no number")
        if float(f"{value:g}") != value:
            raise InputError(f"{where}: '{value}' has more than 6 digits; give a number that is shown whole")
    return {float(value): meaning for value, meaning in given.items()}


def _text(content: dict[Any, Any], key: Any, where: str) -> str:
    text = content.get(key)
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{where}: '{key}' needs a text")
    return text.strip()


def _number(content: dict[str, Any], key: str, default: int, where: str) -> int:
    number = content.get(key, default)
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise InputError(f"{where}: '{key}' is a whole number from 1 on, not '{number}'")
    return number
