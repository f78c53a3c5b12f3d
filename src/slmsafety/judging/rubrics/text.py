"""Rubrics whose prompts are texts of this package or of a user's file: what each of them is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from slmsafety.errors import unknown
from slmsafety.judging.parsers.anchored import Class
from slmsafety.judging.parsers.elements import Form
from slmsafety.judging.rubrics.base import HELM_TOKENS, Row, Rubric, RubricChoice
from slmsafety.judging.rubrics.helm_prompts import read_prompts

Values = Mapping[float, Class]
# The keys of `templates`: one prompt for all rows, or one for prompts to refuse and one for prompts to answer.
ANY, REFUSE, ANSWER = "", "refuse", "answer"


@dataclass(frozen=True)
class TextRubric:
    """A rubric with one prompt, or with one for each kind of prompt (to refuse, to answer).

    Parameters
    ----------
    name, version, citation
        The rubric's name, the version of its texts, and who wrote it.
    templates : Mapping
        The prompts by ANY, or by REFUSE and ANSWER, with the slots {{QUESTION}} and {{ANSWER}}.
    classes : Mapping
        What each value means for prompts to refuse and to answer: its name and its label (0, 1, 2).
    helm : Mapping
        The template of HELM (`helm_prompts.read_prompts`) for each key of `templates`; empty where HELM has none.
    helm_classes : Mapping or None
        What the values of HELM's prompts mean, where that differs.
    published_with : tuple of str
        The judges that it was published with; with another one a run prints a warning. Empty: no warning.
    max_tokens : int
        The most tokens of a judge's completion.
    form : {"tags", "heads"}
        How the judge writes its verdict: `<score>1</score>`, or `##the_score: 1`.
    """

    name: str
    version: int
    citation: str
    templates: Mapping[str, str]
    classes: Mapping[str, Values]
    helm: Mapping[str, str] = field(default_factory=dict)
    helm_classes: Mapping[str, Values] | None = None
    published_with: tuple[str, ...] = ()
    max_tokens: int = HELM_TOKENS
    form: Form = "tags"

    def build(self, choice: RubricChoice) -> Rubric:
        """Return the rubric with the prompts of the choice's source, `own` or `helm`.

        Raises InputError for another source, and where HELM's prompts are not to be had.
        """
        sources = ("own", "helm") if self.helm else ("own",)
        if choice.prompt_source not in sources:
            raise unknown("prompt_source", choice.prompt_source, sources, f"rubric {self.name}")
        templates, classes, notes = self.templates, self.classes, dict[str, Any]()
        if choice.prompt_source == "helm":
            prompts = read_prompts(choice.helm)
            templates = {key: prompts.templates[template] for key, template in self.helm.items()}
            classes, notes = self.helm_classes or classes, {"helm_version": prompts.version}
        return Rubric(
            name=self.name,
            version=self.version,
            citation=self.citation,
            published_with=self.published_with,
            max_tokens=self.max_tokens,
            form=self.form,
            prompt_source=choice.prompt_source,
            templates=templates,
            classes=classes,
            key=_any if ANY in templates else _expected,
            parser=choice.parser,
            notes=notes,
        )


def _any(row: Row) -> str:
    return ANY


def _expected(row: Row) -> str:
    return str(row["expected"])
