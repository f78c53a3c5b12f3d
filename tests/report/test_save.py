"""Artifacts on disk: stable bytes, escaped text, embedded fonts, and nothing half written."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from slmsafety.errors import InputError
from slmsafety.records.files import write_atomic
from slmsafety.report.figures import fig2_proportions
from slmsafety.report.save import Target, save_figure, save_table

HOSTILE = "100% & <script>alert('x')</script> \\input{x} $a_b$ #1 ~^{} \x1b[31mred\x1b[0m\nnext\u202eline"
SIDECAR = {"notebook": "02_decision_usefulness", "parameters": {"study": "s"}, "inputs": {"table_a1.csv": "ab" * 32}}


def target(root: Path, study: str = "demo") -> Target:
    return Target(study_name=study, root=root, **SIDECAR)


def save(frame: pd.DataFrame, root: Path, **kwargs) -> dict[str, bytes]:
    paths = save_table(frame, "table_x", target(root), **kwargs)
    assert [path.parent for path in paths] == [root / "paper" / "tables" / "demo"] * 3
    return {path.suffix: path.read_bytes() for path in paths}


def test_a_table_becomes_csv_booktabs_and_sidecar(tmp_path):
    frame = pd.DataFrame(
        {"suite": ["A", "B"], "n": [400, 21318], "ar": [0.5, 1 / 3], "r": [-0.49, np.nan], "held": [True, False]}
    )
    files = save(frame, tmp_path, formats={"ar": ".2f"})
    assert files[".csv"] == b"suite,n,ar,r,held\nA,400,0.5,-0.49,True\nB,21318,0.333333,,False\n"
    assert files[".tex"].decode().splitlines() == [
        r"\begin{tabular}{lrrrl}",
        r"\toprule",
        r"Suite & $n$ & AR & $r$ & Held \\",
        r"\midrule",
        r"A & 400 & 0.50 & $-$0.490 & yes \\",
        r"B & 21,318 & 0.33 & -- & no \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    assert json.loads(files[".json"]) == {"name": "table_x", "study": "demo", **SIDECAR}


def test_the_same_inputs_give_the_same_bytes(tmp_path):
    frame = pd.DataFrame({"x": [0.1 + 0.2, -0.0, 1e-9], "text": ["a\r\nb", "c,d", 'e"f']})
    noisy = frame.assign(x=[0.3, 0.0, 1e-9 * (1 + 1e-12)])
    one, two = save(frame, tmp_path / "a"), save(noisy, tmp_path / "b")
    assert one == two
    assert b"\r" not in one[".csv"]
    assert b"-0" not in one[".csv"].replace(b"e-09", b"")


def test_hostile_text_is_escaped_in_latex(tmp_path):
    tex = save(pd.DataFrame({HOSTILE: [HOSTILE]}), tmp_path)[".tex"].decode()
    lines = tex.splitlines()[tex.splitlines().index(r"\toprule") :]
    header, row = lines[1], lines[3]
    assert lines[4] == r"\bottomrule", "a line break in a cell does not break the row"
    header = header.replace(r"\\", " ").replace("  ", " ")
    for line in (header, row):
        assert "\x1b" not in line and "\u202e" not in line
        assert r"100\% \& \textless{}script\textgreater{}" in line
        line = line.replace(r"\$a b\$", r"\$a\_b\$")  # a heading has blanks for underscores
        assert r"\textbackslash{}input\{x\} \$a\_b\$ \#1 \textasciitilde{}\textasciicircum{}\{\}" in line
        assert r"\textbackslash{}x1b{[}31mred" in line


def test_a_cell_that_starts_with_a_bracket_is_no_argument_of_the_row_before(tmp_path):
    tex = save(pd.DataFrame({"interval": ["[0.1, 0.2]", "[0.3, 0.4]"], "other": ["*", "你"]}), tmp_path)[
        ".tex"
    ].decode()
    assert "{[}0.1, 0.2]" in tex and "{*}" in tex and "{[}U+4F60]" in tex


def test_hostile_text_in_csv_is_visible_and_reads_back(tmp_path):
    content = save(pd.DataFrame({"reply": [HOSTILE]}), tmp_path)[".csv"].decode()
    assert "\x1b" not in content and "\\x1b[31m" in content
    assert len(list(csv.reader(content.splitlines()))) == 2


def test_titles_stand_after_their_ids(tmp_path):
    frame = pd.DataFrame({"suite": ["s"], "n": [1], "model": ["m"], "model_name": ["M"], "suite_title": ["S"]})
    files = save(frame, tmp_path)
    assert files[".csv"] == b"suite,suite_title,n,model,model_name\ns,S,1,m,M\n"
    assert rb"Suite & $n$ & Model \\" in files[".tex"] and rb"S & 1 & M \\" in files[".tex"]


def test_named_index_levels_become_columns(tmp_path):
    frame = pd.DataFrame({"count": [1, 2]}, index=pd.Index(["harmful", "safe"], name="gpt"))
    assert save(frame, tmp_path)[".csv"].startswith(b"gpt,count\nharmful,1\n")


def test_wrong_names_and_formats_are_refused(tmp_path):
    frame = pd.DataFrame({"ar": [0.5]})
    for name, study in (("../up", "demo"), ("x", "a/b"), ("", "demo"), ("x", ".."), ("a b", "demo")):
        with pytest.raises(InputError, match="cannot name a file"):
            save_table(frame, name, target(tmp_path, study))
    with pytest.raises(InputError, match="did you mean 'ar'"):
        save(frame, tmp_path, formats={"arr": ".2f"})
    with pytest.raises(InputError, match="twice"):
        save(pd.DataFrame([[1, 2]], columns=["a", "a"]), tmp_path)
    assert not list(tmp_path.rglob("*.*")), "nothing is written before everything is checked"


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = write_atomic(tmp_path / "x.csv", b"old")

    def fail(source: object, target: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="disk full"):
            write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_figure_becomes_pdf_png_and_two_sidecars(tmp_path, tiny):
    paths = save_figure(fig2_proportions(tiny), "fig2", target(tmp_path))
    assert [str(path.relative_to(tmp_path)) for path in paths] == [
        "paper/figures/demo/fig2.pdf",
        "paper/figures/demo/fig2.json",
        "figures/demo/fig2.png",
        "figures/demo/fig2.json",
    ]
    pdf, png = paths[0].read_bytes(), paths[2].read_bytes()
    assert int.from_bytes(png[16:20]) == 960, "122 mm at 200 dpi"
    assert b"/Type3" not in pdf and b"/FontFile2" in pdf, "fonts are embedded as TrueType"
    assert b"CreationDate" not in pdf and b"Matplotlib" not in pdf and b"Software" not in png


def test_figures_have_stable_bytes_whatever_the_clock_and_the_users_style(tmp_path, tiny, monkeypatch):
    import matplotlib

    one = save_figure(fig2_proportions(tiny), "f", target(tmp_path / "a"))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    with matplotlib.rc_context({"pdf.fonttype": 3, "savefig.bbox": "tight", "font.size": 20}):
        two = save_figure(fig2_proportions(tiny), "f", target(tmp_path / "b"))
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in two]
