"""Replies in another language than their prompt: counted beside rates, and no label of a judge that reads English."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import pytest

from slmsafety.report import score_findings as told
from slmsafety.study import Study
from slmsafety.study.reply_languages import other_languages

with (Path(__file__).parents[1] / "data" / "languages.csv").open(encoding="utf-8") as file:
    rows = list(csv.DictReader(file))
TEXTS = {code: [row["text"] for row in rows if row["language"] == code] for code in ("en", "fr", "de")}
ASK = {
    "en": "How do I bake a loaf of bread in my kitchen?",
    "fr": "Comment puis-je cuire du pain dans ma cuisine à la maison?",
    "short": "Bread?",
}


def counts(prompts: list[tuple[str, str]], replies: list[tuple[str, str]]) -> list[object]:
    """The two counts of one model: prompts are expected and language, replies the number of the prompt and language."""
    asked = pd.DataFrame(prompts, columns=["expected", "language"]).assign(suite="s")
    asked["instance_id"] = [str(number) for number in range(len(asked))]
    answered = pd.DataFrame(replies, columns=["instance_id", "language"]).assign(suite="s", model="m")
    found = other_languages(answered, asked)
    return found[["n_other_language", "n_unknown_language"]].astype(object).to_numpy().tolist()[0]


ENGLISH, GERMAN, NONE = ("refuse", "en"), ("refuse", "de"), ("refuse", "und")


@pytest.mark.parametrize(
    ("prompts", "replies", "wanted"),
    [
        ([ENGLISH], [("0", "en")], [0, 0]),
        ([ENGLISH], [("0", "fr"), ("0", "en"), ("0", "und")], [1, 1]),
        ([GERMAN], [("0", "de")], [0, 0]),
        ([GERMAN], [("0", "en")], [1, 0]),
        ([GERMAN, ENGLISH], [("0", "en"), ("1", "en"), ("1", "de")], [2, 0]),
        # A prompt that tells none is taken to be in the language of its suite's others, where they agree.
        ([ENGLISH, NONE], [("1", "fr"), ("1", "en")], [1, 0]),
        ([ENGLISH, GERMAN, NONE], [("2", "fr"), ("0", "en")], [0, 1]),
        # Croatian and Bosnian are not told apart, nor Indonesian and Malay.
        ([("refuse", "hr")], [("0", "bs"), ("0", "sr"), ("0", "sl")], [1, 0]),
        ([("refuse", "id")], [("0", "ms")], [0, 0]),
        # Benign controls do not count, as in the rates.
        ([ENGLISH, ("answer", "en")], [("0", "en"), ("1", "fr")], [0, 0]),
    ],
)
def test_replies_in_another_language_are_counted(
    prompts: list[tuple[str, str]], replies: list[tuple[str, str]], wanted: list[int]
) -> None:
    assert counts(prompts, replies) == wanted


def test_what_nobody_recorded_is_not_known_and_is_no_zero() -> None:
    for prompts, replies in (([ENGLISH], [("0", "und"), ("0", "und")]), ([NONE], [("0", "fr"), ("0", "en")])):
        other, unknown = counts(prompts, replies)
        assert pd.isna(other)
        assert unknown == 2


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """Imported replies of three models to four prompts, one of them French, read again by `refusal_rules`."""
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    (tmp_path / "params").mkdir()
    replies = {
        "english": [TEXTS["en"][2], TEXTS["en"][0], TEXTS["en"][2], TEXTS["en"][2]],
        "french": [TEXTS["fr"][2], TEXTS["fr"][0], TEXTS["fr"][2], TEXTS["fr"][2]],
        "brief": ["No.", "Nein.", "Non.", "No."],
    }
    with (tmp_path / "rows.csv").open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(["suite", "instance_id", "model", "judge", "score", "prompt", "response"])
        for model, texts in replies.items():
            for place, text in enumerate(texts):
                asked = f"{ASK['fr' if place == 3 else 'en']} {place}"
                writer.writerow(["oven", f"o{place}", model, "rater", place % 3 / 2, asked, text])
    scores = {"scores": {"higher": "safe", "checked": True}}
    given = {"name": "mine", "kind": "imported", "judged_csv": "rows.csv", "judges": ["refusal_rules"], **scores}
    found = Study.load(given)
    found.collect()
    return found


def test_an_import_has_languages_and_its_outcomes_count_them(study: Study) -> None:
    languages = study.table("responses", ["language"]).groupby("model")["language"].unique()
    assert {model: list(codes) for model, codes in languages.items()} == {
        "english": ["en"],
        "french": ["fr"],
        "brief": ["und"],
    }
    assert study.table("prompts", ["language"])["language"].tolist() == ["en", "en", "en", "fr"]
    found = study.outcomes().set_index("model")
    assert found["n_other_language"].astype(object).where(found["n_other_language"].notna(), None).to_dict() == {
        "english": 1,
        "french": 3,
        "brief": None,
    }
    assert found["n_unknown_language"].to_dict() == {"english": 0, "french": 0, "brief": 4}
    assert told.other_languages(study.outcomes()) == [
        "Replies in another language than their prompt: 4 (french 3, english 1).",
        "Language of replies not known: brief; their replies tell none, or were made before it was recorded.",
    ]


def test_abstained_rows_are_no_labels_are_counted_and_are_not_made_again(
    study: Study, capsys: pytest.CaptureFixture[str]
) -> None:
    said = study.table("judgments", ["judge", "status", "label", "cause", "reason"])
    said = said[said["judge"] == "refusal_rules"].set_index(["model", "instance_id"])
    assert said.loc["french", "status"].tolist() == ["abstained"] * 4
    assert said.loc["french", "reason"].tolist() == ["reply in fr"] * 4
    # An English answer to a French prompt is not held against it; an English refusal would be one.
    assert said.loc["english", "status"].tolist() == ["ok", "ok", "ok", "abstained"]
    assert said.loc[("english", "o3"), "reason"] == "prompt in fr"
    assert said.loc["brief", "status"].tolist() == ["ok"] * 4
    abstained = said["status"].eq("abstained")
    assert said["label"].isna().tolist() == abstained.tolist()
    assert said["cause"].eq("other_language").tolist() == abstained.tolist()
    state = study.status()
    rules = state[state["stage"] == "judge refusal_rules"].set_index("model")
    assert rules["abstained"].to_dict() == {"english": 1, "french": 4, "brief": 0}
    assert rules[["missing", "failed"]].to_numpy().sum() == 0
    capsys.readouterr()
    study.collect(["judge"])
    assert " 0 new, 4 kept" in capsys.readouterr().out
