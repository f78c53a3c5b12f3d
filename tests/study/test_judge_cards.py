"""The judge card: printed and written for public replies and for a study, and one line where something is absent."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from reference_files import stability_files, stability_labels, xstest_files

from slmsafety.analysis.judges.judge_card import judge_card
from slmsafety.cli import main
from slmsafety.importers.judge_references import read_xstest
from slmsafety.judging.base import MeasuringJudge
from slmsafety.study.judge_cards import judged_rows, timed

JUDGED = """suite,instance_id,model,judge,prompt,response,score,expected,status,reason
a,1,m1,j1,p1,r1,0,refuse,ok,
a,2,m1,j1,p2,r2,0.5,refuse,ok,
a,3,m1,j1,p3,r3,1,refuse,ok,
a,4,m1,j1,p4,r4,1,refuse,ok,
a,5,m1,j1,p5,r5,1,answer,ok,refusal
a,1,m1,j2,p1,r1,0.5,refuse,ok,
a,2,m1,j2,p2,r2,0.5,refuse,ok,
a,3,m1,j2,p3,r3,0,refuse,ok,
a,4,m1,j2,p4,r4,,refuse,unparsed,
a,5,m1,j2,p5,r5,0,answer,ok,
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project root with an import of two judges' labels."""
    (tmp_path / "params").mkdir()
    (tmp_path / "judged.csv").write_text(JUDGED)
    (tmp_path / "params/mine.yaml").write_text("study: {name: mine, kind: imported, judged_csv: judged.csv}\n")
    monkeypatch.setenv("SLMSAFETY_ROOT", str(tmp_path))
    return tmp_path


def test_a_study_s_judges_are_held_against_its_first(root, capsys):
    assert main(["collect", "mine"]) == 0
    capsys.readouterr()
    assert main(["judge-card", "mine"]) == 0
    out = capsys.readouterr().out
    assert "mine, a: 4 replies; reference: judge j1\n" in out
    assert "without a label, j2: 1 unparsed" in out
    assert "note: the reference is judge j1: agreement with it says how alike the judges are, not who is right" in out
    assert out.endswith("runs/mine/judge_card.csv\nruns/mine/judge_card.json\n")
    assert max(map(len, out.splitlines())) <= 120
    card = pd.read_csv(root / "runs/mine/judge_card.csv").set_index("judge")
    assert list(card.index) == ["j2", "always safe"]
    # Of three labels one agrees, one is at the boundary, one is a flip from safe to harmful; the control is left out.
    row = card.loc["j2"]
    assert row[["rows", "n", "n_unparsed", "coverage"]].tolist() == [4, 3, 1, 0.75]
    assert row[["exact", "boundary", "flips"]].tolist() == pytest.approx([1 / 3] * 3, abs=1e-6)
    assert (row["safe_as_harmful"], row["harmful_as_safe"]) == (1, 0)
    assert card.loc["always safe", "exact"] == 0.5
    stored = json.loads((root / "runs/mine/judge_card.json").read_text())
    assert [card["judge"] for card in stored["cards"]] == ["j2", "always safe"]
    assert stored["cards"][0]["price_per_1000"] is None and stored["resamples"] == 2000 and len(stored["notes"]) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["judge-card", "mine"], "study mine has no judgments yet; run: slmsafety collect mine"),
        (["judge-card", "mien"], "unknown study 'mien' in params/; did you mean 'mine'?"),
        (["judge-card"], "path '$SLMSAFETY_DATA/responses/xstest' names an environment variable that is not set"),
    ],
)
def test_what_is_absent_is_one_line(root, monkeypatch, capsys, arguments, says):
    monkeypatch.delenv("SLMSAFETY_DATA", raising=False)
    assert main(arguments) == 2
    assert capsys.readouterr() == ("", f"slmsafety: {says}\n")
    assert sorted(path.name for path in root.iterdir()) == ["judged.csv", "params"]


def test_the_paper_s_tables_hold_no_verdicts(capsys):
    assert main(["judge-card", "published"]) == 2
    assert "the paper prints no instance-level rows" in capsys.readouterr().err


def test_public_replies_are_judged_by_every_offline_judge_and_by_those_recorded(root, monkeypatch, capsys):
    folder = root / "data/responses"
    for name in ("xstest", "refusal_stability"):
        (folder / name).mkdir(parents=True)
    xstest_files(folder / "xstest")
    stability_files(folder / "refusal_stability", stability_labels())
    monkeypatch.setenv("SLMSAFETY_DATA", str(root / "data"))
    assert main(["judge-card"]) == 0
    out = capsys.readouterr().out
    assert "XSTest, all: 4 replies; reference: the people's final label\n" in out
    assert "refusal_stability, replies of Llama 3.1 8B: 2 replies; reference: Claude 3.5 Haiku\n" in out
    assert "note: refusal_stability: the reference is a judge, no person" in out
    card = pd.read_csv(root / "build/judge_card/judge_card.csv")
    curves = pd.read_csv(root / "build/judge_card/judge_coverage.csv")
    assert set(curves["suite_title"]) == {"XSTest", "refusal_stability"} and set(curves["judge"]) == {"offline"}
    assert (root / "build/judge_card/judge_coverage.png").read_bytes().startswith(b"\x89PNG")
    assert out.rstrip().endswith("build/judge_card/judge_coverage.pdf")
    whole = card[(card["data"] == "XSTest") & (card["part"] == "all")].set_index("judge")
    assert list(whole.index) == ["refusal_rules", "offline", "GPT-4", "reader 1", "reader 2", "always safe"]
    # Free text where a label should be is no label; the readers' labels are as their columns say.
    assert whole.loc["GPT-4", ["n", "n_unparsed", "coverage"]].tolist() == [2, 2, 0.5]
    assert whole.loc["reader 2", "exact"] == 1.0 and whole.loc["reader 1", "harmful_as_safe"] == 0
    assert whole["seconds_per_1000"].notna().tolist() == [True, True, False, False, False, False]


def test_each_reply_is_judged_once_and_beside_the_others_to_its_prompt(root, monkeypatch):
    """Chunks of two: what is measured, in which order, and each verdict at its reply."""
    seen = []

    def measure(rows):
        seen.append(rows["response"].tolist())
        return pd.DataFrame(
            {"status": "ok", "label": [int(text[-1]) if text[-1].isdigit() else 2 for text in rows["response"]]}
        )

    replies = pd.DataFrame({"prompt": ["p", "q", "p", "q", "o"], "response": ["a 0", "b 1", "c 2", "d 0", "e 1"]})
    verdicts, _ = timed(MeasuringJudge("last digit", SimpleNamespace(measure=measure)), replies, chunk=2)
    assert len(seen[0]) == 1, "one reply to load with, which no time is taken of"
    assert seen[1:] == [["e 1", "a 0"], ["c 2", "b 1"], ["d 0"]]
    assert verdicts["label"].tolist() == [0, 1, 2, 0, 1]


@pytest.mark.skipif("SLMSAFETY_DATA" not in os.environ, reason="SLMSAFETY_DATA is not set")
def test_known_agreement_on_xstest_comes_out():
    """The numbers of docs/offline_judge.md for string rules and GPT-4, n 900."""
    rows = judged_rows(read_xstest(Path(os.environ["SLMSAFETY_DATA"]) / "responses/xstest"), ("refusal_rules",))
    card = judge_card(rows).set_index("judge")
    columns = ["n", "kappa_unweighted", "kappa_unweighted_low", "kappa_unweighted_high"]
    assert card.loc["refusal_rules", columns].tolist() == pytest.approx([900, 0.767, 0.725, 0.808], abs=6e-4)
    assert card.loc["GPT-4", columns].tolist() == pytest.approx([900, 0.737, 0.690, 0.782], abs=6e-4)
    assert card.loc["GPT-4", ["safe_as_harmful", "harmful_as_safe"]].tolist() == [78, 0]
