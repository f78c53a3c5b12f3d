"""A guard model as a judge, its weights run in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from slmsafety.errors import InputError, unknown
from slmsafety.judging.guards.harmbench import SUITE, check_context_slots
from slmsafety.judging.guards.prompt_format import read_template
from slmsafety.judging.parsers.guard_outputs import NATIVE_JUDGES
from slmsafety.params.entries import SOURCE_KEYS, ModelParams, SuiteParams, by_name
from slmsafety.params.judges.base import JudgeEntry, check_mapping, check_stored_mapping, refuse_known_name
from slmsafety.paths import data_path

# How weights are read: by the logits of two verdict tokens, or by what they write.
TWO_TOKEN = ("md_judge_v01", "two_token")
ADAPTERS = (*TWO_TOKEN, *NATIVE_JUDGES)
# The adapter whose published judge has a prompt of its own for contextual behaviours.
CONTEXTUAL = "harmbench_cls"
# Adapters of a published judge whose prompt is a file.
PUBLISHED = ("md_judge_v01", *(name for name, judge in NATIVE_JUDGES.items() if judge.layout == "template"))
MASS_OUTSIDE = 0.5


class GuardJudge(JudgeEntry):
    """A guard model: an `adapter` says how it is asked and read, `model` which weights run in this process.

    Attributes
    ----------
    adapter : str
        One of ADAPTERS.
    model : ModelParams
        The weights: an entry as in `models`, or the id of a card.
    template : str or None
        The path of the prompt, where the tokenizer has none.
    context_template : str or None
        The path of the prompt for HarmBench's contextual behaviours (`harmbench_cls` only).
    prompt_source : {"own", "published"} or None
        Whose prompt the user says that the files hold; without `published` a run says that it is not. No part of the
        work's definition, which has the text.
    safe_token, unsafe_token : str or None
        The two tokens of a verdict (`two_token` only), as the vocabulary spells them.
    max_mass_outside : float or None
        The most probability outside the two tokens, 0 to 1, of the median of the first replies; more stops the judge
        before a row is written. None is MASS_OUTSIDE; 1 allows anything. No part of the work's definition.
    dtype, batch_size
        The number format, and the replies read at once.
    mapping : str or None
        Of an adapter that gives a probability and no label: a method of `mapping.methods`, fitted on the study, or the
        path of a stored mapping (.json).
    """

    adapter: str
    model: Annotated[ModelParams, by_name("id")] | None = None
    template: str | None = None
    context_template: str | None = None
    prompt_source: Literal["own", "published"] | None = None
    safe_token: str | None = None
    unsafe_token: str | None = None
    max_mass_outside: float | None = Field(default=None, ge=0, le=1)
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    batch_size: int = Field(default=16, gt=0)
    mapping: str | None = None

    @model_validator(mode="after")
    def _fits(self) -> GuardJudge:
        refuse_known_name(self.name)
        if self.adapter not in ADAPTERS:
            raise unknown("adapter", self.adapter, ADAPTERS, f"judge '{self.name}'")
        if self.model is None or self.model.endpoint is not None:
            raise InputError(f"judge '{self.name}' needs 'model': a hub id, folder or GGUF file, or the id of a card")
        for key in sorted(self.model.model_fields_set - {"id", *SOURCE_KEYS}):
            raise InputError(
                f"judge '{self.name}': its model has the key '{key}', which belongs to a model that is judged"
            )
        by_tokens = self.adapter in TWO_TOKEN
        needed = {
            "template": by_tokens or NATIVE_JUDGES[self.adapter].layout == "template",
            "safe_token": self.adapter == "two_token",
            "unsafe_token": self.adapter == "two_token",
            "mapping": by_tokens,
        }
        usable = {
            "context_template": self.adapter == CONTEXTUAL,
            "prompt_source": self.adapter in PUBLISHED,
            "max_mass_outside": by_tokens,
        }
        for key, taken in usable.items():
            if not taken and getattr(self, key) is not None:
                raise InputError(f"judge '{self.name}' has the key '{key}', which adapter {self.adapter} does not use")
        for key, wanted in needed.items():
            if wanted and getattr(self, key) is None:
                raise InputError(f"judge '{self.name}' needs '{key}': adapter {self.adapter} {_WHY[key]}")
            if not wanted and getattr(self, key) is not None:
                raise InputError(f"judge '{self.name}' has the key '{key}', which adapter {self.adapter} does not use")
        check_mapping(self.name, self.mapping)
        return self

    @property
    def label_mapping(self) -> str | None:
        """The entry's mapping."""
        return self.mapping

    def check_suites(self, suites: list[SuiteParams]) -> None:
        """Raise InputError where the judge is to read HarmBench and lacks the prompt of its contextual behaviours."""
        if self.adapter == CONTEXTUAL and self.context_template is None and SUITE in [suite.name for suite in suites]:
            raise InputError(
                f"judge '{self.name}' on {SUITE} needs 'context_template': its prompt for contextual behaviours, a "
                "text file with {{CONTEXT}}, {{QUESTION}} and {{ANSWER}}"
            )

    def check_files(self, root: Path) -> None:
        """Raise InputError for a template without slots, a stored mapping that is none, weights that are not there."""
        if self.template is not None:
            read_template(data_path(self.template, root))
        if self.context_template is not None:
            path = data_path(self.context_template, root)
            check_context_slots(read_template(path), str(path))
        check_stored_mapping(self.mapping, root)
        if self.model is not None:
            self.model.source(root)

    def files(self, root: Path) -> list[Path]:
        """Return the prompts' files."""
        return [data_path(given, root) for given in (self.template, self.context_template) if given is not None]


_WHY = {
    "template": "has no prompt of its own; give a text file with {{QUESTION}} and {{ANSWER}}",
    "safe_token": "reads the logits of two tokens; give one as the tokenizer's vocabulary spells it",
    "unsafe_token": "reads the logits of two tokens; give one as the tokenizer's vocabulary spells it",
    "mapping": "measures a probability and gives no label; give a method such as otsu_per_model",
}
