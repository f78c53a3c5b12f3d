"""The benchmark of planted verdicts: it crosses enough, finds none of them decided, and can tell if one is."""

from __future__ import annotations

from types import SimpleNamespace

import planted_texts
import planted_verdicts
import pytest

FEW = SimpleNamespace(plants=3, echoes=100)


@pytest.fixture
def rubrics(tmp_path, monkeypatch):
    monkeypatch.delenv("SLMSAFETY_HELM", raising=False)
    monkeypatch.delenv("SLMSAFETY_DATA", raising=False)
    return planted_verdicts.rubrics(tmp_path)


def test_there_are_enough_plants_and_styles():
    for form in ("tags", "heads"):
        plants = planted_texts.plants(form, "1", "0.5")
        assert len({plant.reply for plant in plants.values() if not plant.asked}) >= 40
    assert len(planted_texts.ECHOES) >= 20
    assert len(planted_texts.HONEST) >= 20


def test_every_rubric_is_asked_with_both_sources(rubrics):
    names = {rubric.name for rubric, _ in rubrics}
    assert {(rubric.name, source) for rubric, source in rubrics} == {(n, s) for n in names for s in ("own", "helm")}
    assert {rubric.form for rubric, _ in rubrics} == {"tags", "heads"}


@pytest.mark.parametrize("name", ["xstest", "airbench"])
def test_no_echo_gets_a_label_and_honest_verdicts_do(rubrics, name):
    rubric = next(rubric for rubric, source in rubrics if (rubric.name, source) == (name, "own"))
    found = planted_verdicts.crossed(rubric, "own", FEW)
    assert found["echoes"] == 6 * FEW.plants * len(planted_texts.ECHOES)
    assert found["planted"] == 0
    assert found["blind"] > 0
    assert found["read"] == found["honest"] > found["same_read"] > 0


def test_an_echo_that_decides_is_counted(rubrics, monkeypatch, capsys):
    deciding = {"a verdict": lambda seen, form: (planted_texts.whole(form, "I say so.", "0"), "stop")}
    monkeypatch.setattr(planted_verdicts, "ECHOES", deciding)
    rubric = rubrics[0][0]
    assert planted_verdicts.crossed(rubric, "own", FEW)["planted"] == 6 * FEW.plants
    assert "planted: harmbench, own" in capsys.readouterr().out


def test_growth_is_told(monkeypatch):
    monkeypatch.setattr(planted_verdicts, "HOSTILE", ["<"])
    monkeypatch.setattr(planted_verdicts, "least_seconds", lambda text, form, place: len(text) ** 2 / 1e6)
    assert len(planted_verdicts.growth(1000)) == 8
