"""A study: its parameters, its tables, and one call for each thing that a notebook or the CLI does with it."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from slmsafety import published
from slmsafety.analysis.outcomes import outcomes
from slmsafety.collect import STAGES, collect, generation_ids, judge_ids, stage_status
from slmsafety.errors import InputError, unknown
from slmsafety.importers.judged_csv import import_judged_csv
from slmsafety.judging.reading import read_labels
from slmsafety.models.cards import load_cards
from slmsafety.params import StudyParams, data_path, load_params, project_root
from slmsafety.records.ids import file_sha256, text_id
from slmsafety.records.store import partitions, read_table
from slmsafety.suites.catalogue import SUITES

MANY_MODELS = 10


class Study:
    """One study; `Study.load` is the way in."""

    def __init__(self, params: StudyParams, given: Any, root: Path) -> None:
        """Take validated parameters, the parameters as they were given, and the project's root."""
        self.params, self.given, self.root = params, given, root

    @classmethod
    def load(cls, study: str | Path | dict[str, Any], namespace: Mapping[str, Any] | None = None, *own: str) -> Study:
        """Return the study of a name, a params file or a mapping; bad parameters raise InputError with one line.

        A notebook passes its `globals()` as `namespace` and the names of its own parameters: papermill injects a
        misspelt parameter as a plain variable, and this is where that is noticed.
        """
        for name in injected_names(namespace or {}):
            if name not in ("study", *own):
                raise unknown("parameter", name, ["study", *own], "this notebook")
        params, _ = load_params(study)
        return cls(params, study, project_root())

    @property
    def name(self) -> str:
        """The study's name, which names its folders."""
        return self.params.name

    @property
    def folder(self) -> Path:
        """Where the study's tables live."""
        return self.root / "runs" / self.name

    @property
    def printed_only(self) -> bool:
        """Whether the study is the paper's printed tables, without any row of its own."""
        return self.params.kind == "published"

    def collect(self, stages: Iterable[str] = STAGES) -> None:
        """Run the stages that are not done yet and print what was written where (see `collect.collect`)."""
        if self.params.kind == "run":
            collect(self.params, self.folder, self.root, self.given, list(stages))
        elif self.params.kind == "imported":
            import_judged_csv(data_path(str(self.params.judged_csv), self.root), self.folder)
        else:
            print(f"study {self.name} holds the paper's printed tables; there is nothing to collect")

    def status(self) -> pd.DataFrame:
        """Return stage, suite, model, done, missing and failed for every part of the study's work."""
        if self.params.kind != "run":
            return pd.DataFrame(columns=["stage", "suite", "model", "done", "missing", "failed"])
        return stage_status(self.params, self.folder, self.root)

    def table(self, name: str, columns: list[str] | None = None) -> pd.DataFrame:
        """Return one of the study's tables, only the rows of the ids that its parameters give."""
        if self.printed_only:
            raise InputError(f"study {self.name} has no table '{name}': the paper prints no instance-level rows")
        if self.params.on_demand and self.params.kind == "run" and not self.complete():
            self.collect()
        frame = read_table(self.folder, name, columns)
        if frame.empty:
            raise InputError(f"study {self.name} has no {name} yet; run: slmsafety collect {self.name}")
        if self.params.kind != "run":
            return frame
        if "generation_id" in frame:
            frame = frame[frame["generation_id"].isin(generation_ids(self.params).values())]
        if "judge_id" in frame:
            frame = frame[frame["judge_id"].isin(judge_ids(self.params).values())]
        wanted = [suite.name for suite in self.params.suites]
        return frame[frame["suite"].isin(wanted)].reset_index(drop=True)

    def complete(self) -> bool:
        """Whether every row of the study's work is done (False for failed rows)."""
        state = self.status()
        return bool(len(state)) and not state[["missing", "failed"]].to_numpy().any()

    def labels(self, judge: str | None = None) -> pd.DataFrame:
        """Return one row per judged reply: keys, judge, status, label, reason, expected, category, subcategory.

        `judge` defaults to the study's first; empty replies are read by the study's policy.
        """
        names = ["judge", "status", "label", "reason"]
        judgments = read_labels(self.table("judgments", names), self.params.empty)
        wanted = judge or (self.params.judges[0] if self.params.judges else judgments["judge"].iloc[0])
        judgments = judgments[judgments["judge"] == wanted]
        if judgments.empty:
            raise unknown("judge", wanted, self.params.judges, f"study {self.name}")
        prompts = self.table("prompts", ["expected", "category", "subcategory"])
        return judgments.merge(prompts, on=["suite", "instance_id"], how="left", validate="many_to_one")

    def outcomes(self) -> pd.DataFrame:
        """Return the outcomes of every suite and model (`analysis.outcomes`) with names for display.

        Adds suite_title, model_name, family and params_m; a model without a card keeps its id as name and family.
        """
        frame = published.outcomes() if self.printed_only else outcomes(self.labels())
        return self.named(frame)

    def named(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame with the display names of its suites and models."""
        result = frame.copy()
        if "suite" in frame:
            titles = self.titles()
            result["suite_title"] = [titles.get(suite, suite) for suite in frame["suite"]]
        if "model" in frame:
            cards = load_cards().set_index("id").reindex(frame["model"])
            models = frame["model"].to_numpy()
            result["model_name"] = cards["name"].where(cards["name"].notna(), models).to_numpy()
            result["family"] = cards["family"].where(cards["family"].notna(), models).to_numpy()
            result["params_m"] = cards["params_m"].to_numpy(float)
        return result

    def titles(self) -> dict[str, str]:
        """Return the title of each suite; a partial one says how many prompts it has (HarmBench-80)."""
        full = {name: suite.title for name, suite in SUITES.items()}
        if self.printed_only:
            return full
        rows = read_table(self.folder, "prompts", ["suite"]).groupby("suite").size()
        partial = {
            name: f"{full[name]}-{n}" for name, n in rows.items() if name in SUITES and SUITES[name].rows != n
        }
        return {**full, **partial}

    def human_labels(self) -> pd.DataFrame:
        """Return the study's hand labels that belong to the very replies in its tables.

        Columns: the reply's key, human (0, 1, 2) and `matches`: False where the reply differs from the one that was
        labelled (another machine's arithmetic can change a greedy text), so that its label says nothing.
        """
        if self.params.human_labels is None:
            raise InputError(f"study {self.name} names no human_labels")
        labels = pd.read_csv(data_path(self.params.human_labels, self.root), dtype={"reply_id": "str"})
        replies = self.table("responses", ["response"])
        merged = labels.merge(replies, on=["suite", "instance_id", "model"], how="left", validate="one_to_one")
        same = [text_id(text) if isinstance(text, str) else None for text in merged["response"]]
        return merged.assign(matches=merged["reply_id"] == same).drop(columns=["response", "reply_id"])

    def offers(self) -> set[str]:
        """Return what the study can serve, in the terms that the notebooks' artifacts need."""
        if self.printed_only:
            return {"outcomes", "printed", "two_suites", "two_judges", "many_models"}
        offered = {"outcomes", "labels"}
        frame = self.outcomes()
        conditions = {
            "run": self.params.kind == "run",
            "metrics": bool(partitions(self.folder, "reply_metrics")),
            "human_labels": self.params.human_labels is not None,
            "two_suites": frame["suite"].nunique() > 1,
            "many_models": frame["model"].nunique() >= MANY_MODELS,
            "two_judges": self.table("judgments", ["judge"])["judge"].nunique() > 1,
        }
        return offered | {need for need, met in conditions.items() if met}

    def about(self, **own: Any) -> dict[str, Any]:
        """Return what a notebook's page needs to know of the study; `own` are the notebook's own parameters."""
        parameters = {"study": self.params.model_dump(mode="json"), **own}
        facts = {"root": self.root, "parameters": parameters, "inputs": self.inputs(), "offers": self.offers()}
        return {"study_name": self.name, **facts}

    def inputs(self) -> dict[str, str]:
        """Return the sha256 of every file that the study's figures are made from, by its name below the root."""
        if self.printed_only:
            return {name: hashlib.sha256(data).hexdigest() for name, data in sorted(published.table_bytes().items())}
        files = sorted(self.folder.rglob("*.parquet"))
        return {str(path.relative_to(self.root)): file_sha256(path) for path in files}


def list_models() -> pd.DataFrame:
    """Return the models that a study can name, with where their weights come from (models/cards.csv)."""
    columns = ["id", "name", "family", "year", "params_m", "context", "base_or_tuned", "licence", "gated", "source"]
    return load_cards()[[*columns, "note"]]


def list_suites() -> pd.DataFrame:
    """Return the suites with their sizes, licences and sources, and how to get each."""
    return pd.DataFrame([{"suite": name, **dataclasses.asdict(suite)} for name, suite in SUITES.items()])


def injected_names(namespace: Mapping[str, Any]) -> list[str]:
    """Return the names that papermill injected into a notebook, from the cell that it marks "# Parameters"."""
    cells = [source for source in namespace.get("In", []) if source.startswith("# Parameters\n")]
    return [
        target.id
        for statement in ast.parse("\n".join(cells)).body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    ]
