"""Dialects and faults of tables: each gives the right rows, or one line that names what is wrong."""

from __future__ import annotations

import io
import json
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_tools import column, read, verdicts

from slmsafety.errors import InputError

HEAD = "suite,instance_id,model,judge,score,response"
ONE = f"{HEAD}\ns,1,m,j,0.5,Good day\n"
ROW = {"suite": "s", "instance_id": "1", "model": "m", "judge": "j", "score": 0.5, "response": "Good day"}
RIGHT = [("1", "m", "j", 1, "Good day")]
UMLAUT = ONE.replace("Good day", "Gr\u00fc\u00dfe")
WIDE = "id,model,question,reply,gpt4_label,llama_label\n1,m,Q?,A.,0.5,1\n2,m,R?,B.,1,0\n"
WIDE_ENTRY = {
    "suite": "s",
    "columns": {"instance_id": "id", "prompt": "question", "response": "reply"},
    "judges": {"gpt-4": "gpt4_label", "llama": "llama_label"},
}


def lines(*rows: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def parquet(**columns: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        pa.table({name: column if isinstance(column, pa.Array) else [column] for name, column in columns.items()}), sink
    )
    return sink.getvalue()


# name: (file, content, keys of the entry, instance, model, judge, label or status, reply of each judgment)
READ: dict[str, tuple[str, bytes | str, dict[str, Any], list[tuple[Any, ...]]]] = {
    "plain": ("a.csv", ONE, {}, RIGHT),
    "upper suffix": ("a.CSV", ONE, {}, RIGHT),
    "crlf": ("a.csv", ONE.replace("\n", "\r\n"), {}, RIGHT),
    "old mac": ("a.csv", ONE.replace("\n", "\r"), {}, RIGHT),
    "no last line end": ("a.csv", ONE.rstrip("\n"), {}, RIGHT),
    "byte order mark": ("a.csv", b"\xef\xbb\xbf" + ONE.encode(), {}, RIGHT),
    "tabs by suffix": ("a.tsv", ONE.replace(",", "\t"), {}, RIGHT),
    "tabs by format": ("a.txt", ONE.replace(",", "\t"), {"format": "tsv"}, RIGHT),
    "semicolons": ("a.csv", ONE.replace(",", ";"), {"delimiter": ";"}, RIGHT),
    "semicolons by word": ("a.csv", ONE.replace(",", ";"), {"delimiter": "semicolon"}, RIGHT),
    "pipes": ("a.csv", ONE.replace(",", "|"), {"delimiter": "|"}, RIGHT),
    "latin-1": ("a.csv", UMLAUT.encode("latin-1"), {"encoding": "latin-1"}, [("1", "m", "j", 1, "Gr\u00fc\u00dfe")]),
    "ascii said to be cp1252": ("a.csv", ONE, {"encoding": "cp1252"}, RIGHT),
    "utf-16": ("a.csv", UMLAUT.encode("utf-16"), {"encoding": "UTF-16"}, [("1", "m", "j", 1, "Gr\u00fc\u00dfe")]),
    "header in another case": ("a.csv", ONE.replace(HEAD, " Suite,INSTANCE_ID ,Model,judge,Score,response"), {}, RIGHT),
    "a line break and quotes in a field": (
        "a.csv",
        ONE.replace("Good day", '"A ""word"",\nand\r\nmore, 1"'),
        {},
        [("1", "m", "j", 1, 'A "word",\nand\r\nmore, 1')],
    ),
    "lone carriage returns as pandas writes them": (
        "a.csv",
        pd.DataFrame([{**ROW, "response": "a\rb\r"}, {**ROW, "instance_id": "2", "response": "\r"}]).to_csv(
            index=False
        ),
        {},
        [("1", "m", "j", 1, "a\rb\r"), ("2", "m", "j", "empty_response", "\r")],
    ),
    "blank lines and rows": ("a.csv", ONE.replace("\ns", "\n\n , ,,,,\ns") + "\n,,,,,\n", {}, RIGHT),
    "pandas index": ("a.csv", pd.DataFrame([ROW]).to_csv(), {}, RIGHT),
    "trailing commas": ("a.csv", ONE.replace("\n", ",,\n"), {}, RIGHT),
    "a long field": ("a.csv", ONE.replace("Good day", "x" * 200_000), {}, [("1", "m", "j", 1, "x" * 200_000)]),
    "an id stays text": ("a.csv", ONE.replace("s,1", "s,001"), {}, [("001", "m", "j", 1, "Good day")]),
    "NA is a word": ("a.csv", ONE.replace("Good day", "NA"), {}, [("1", "m", "j", 1, "NA")]),
    "blanks around names": (
        "a.csv",
        f"{HEAD}\n s, 1 ,m , j, 0.5 ,x\ns,2,m,j,1,y\n",
        {},
        [("1", "m", "j", 1, "x"), ("2", "m", "j", 2, "y")],
    ),
    "a hub's name": ("a.csv", ONE.replace(",m,j", ",org/m,org/j"), {}, [("1", "org_m", "org_j", 1, "Good day")]),
    "blank reply": ("a.csv", ONE.replace("Good day", " "), {}, [("1", "m", "j", "empty_response", " ")]),
    "no replies": ("a.csv", ONE.replace(",response", "").replace(",Good day", ""), {}, [("1", "m", "j", 1, None)]),
    "no score": ("a.csv", ONE.replace("0.5", " "), {}, [("1", "m", "j", "unparsed", "Good day")]),
    "scores in other spellings": (
        "a.csv",
        f"{HEAD}\ns,1,m,j, 1 ,x\ns,2,m,j,1.0,x\ns,3,m,j,5e-1,x\ns,4,m,j,.5,x\ns,5,m,j,-0,x\n",
        {},
        [(str(n), "m", "j", label, "x") for n, label in enumerate((2, 2, 1, 1, 0), start=1)],
    ),
    "constants": (
        "a.csv",
        "instance_id,score\n1,0.5\n",
        {"suite": "s", "model": "m", "judge": "j"},
        [("1", "m", "j", 1, None)],
    ),
    "ids by the prompt's text": (
        "a.csv",
        "prompt,score,response\nQ?,0.5,x\n",
        {"suite": "s", "model": "m", "judge": "j"},
        [("c1ce7ac69e62", "m", "j", 1, "x")],
    ),
    "a column map": (
        "a.csv",
        "task,id,llm,rater,gpt4_label,generation\ns,1,m,j,0.5,Good day\n",
        {
            "columns": {
                **{"suite": "task", "instance_id": "ID ", "model": "llm", "judge": "rater"},
                **{"score": "gpt4_label", "response": "generation"},
            }
        },
        RIGHT,
    ),
    "judges as columns": (
        "a.csv",
        WIDE,
        WIDE_ENTRY,
        [
            ("1", "m", "gpt-4", 1, "A."),
            ("2", "m", "gpt-4", 2, "B."),
            ("1", "m", "llama", 2, "A."),
            ("2", "m", "llama", 0, "B."),
        ],
    ),
    "a scale for one judge": (
        "a.csv",
        WIDE,
        {
            **WIDE_ENTRY,
            "judges": {"gpt-4": "gpt4_label", "llama": {"column": "llama_label", "scores": {"higher": "harmful"}}},
        },
        [
            ("1", "m", "gpt-4", 1, "A."),
            ("2", "m", "gpt-4", 2, "B."),
            ("1", "m", "llama", 0, "A."),
            ("2", "m", "llama", 2, "B."),
        ],
    ),
    "a scale for one judge of rows": (
        "a.csv",
        f"{HEAD}\ns,1,m,j,0.5,x\ns,1,m,k,yes,x\n",
        {"judges": {"k": {"scores": {"map": {"yes": "harmful"}}}}},
        [("1", "m", "j", 1, "x"), ("1", "m", "k", 0, "x")],
    ),
    "several samples": (
        "a.csv",
        f"{HEAD},sample\ns,1,m,j,0.5,x,0\ns,1,m,j,1,y,7.0\n",
        {},
        [("1", "m", "j", 1, "x"), ("1", "m", "j", 2, "y")],
    ),
    "statuses in any case": (
        "a.csv",
        f"{HEAD},status\ns,1,m,j,0.7,x,Off_Scale \ns,2,m,j,?,x,ERROR\ns,3,m,j,1,x,\n",
        {},
        [("1", "m", "j", "off_scale", "x"), ("2", "m", "j", "error", "x"), ("3", "m", "j", 2, "x")],
    ),
    "json lines": ("a.jsonl", lines(ROW), {}, RIGHT),
    "json lines with line ends of all kinds within": (
        "a.ndjson",
        lines({**ROW, "response": "a\r\n\u2028b\tc"}).replace("\n", "\r\n") + "\n\n",
        {},
        [("1", "m", "j", 1, "a\r\n\u2028b\tc")],
    ),
    "a json list": ("a.json", json.dumps([ROW], indent=1), {}, RIGHT),
    "a json list in a file of lines": ("a.jsonl", json.dumps([ROW]), {}, RIGHT),
    "json numbers as ids": (
        "a.jsonl",
        lines({**ROW, "instance_id": 1}, {**ROW, "instance_id": 2.0}, {**ROW, "instance_id": "003"}),
        {},
        [(name, "m", "j", 1, "Good day") for name in ("1", "2", "003")],
    ),
    "a null reply is not known, a missing one neither": (
        "a.jsonl",
        lines({**ROW, "response": None}, {name: ROW[name] for name in ROW if name != "response"} | {"instance_id": 2}),
        {},
        [("1", "m", "j", 1, None), ("2", "m", "j", 1, None)],
    ),
    "a reply that one row of two has": (
        "a.jsonl",
        lines({**ROW, "response": None}, {**ROW, "judge": "k"}),
        {},
        [("1", "m", "j", 1, "Good day"), ("1", "m", "k", 1, "Good day")],
    ),
    "json booleans that are mapped": (
        "a.jsonl",
        lines({**ROW, "score": True}, {**ROW, "instance_id": 2, "score": None}),
        {"scores": {"map": {True: "harmful", False: "safe"}}},
        [("1", "m", "j", 0, "Good day"), ("2", "m", "j", "unparsed", "Good day")],
    ),
    "nan that is mapped": (
        "a.jsonl",
        lines({**ROW, "score": float("nan")}, {**ROW, "instance_id": 2}),
        {"scores": {"higher": "safe", "map": {"nan": "missing"}}},
        [("1", "m", "j", "unparsed", "Good day"), ("2", "m", "j", 1, "Good day")],
    ),
    "parquet": ("a.parquet", parquet(**ROW), {}, RIGHT),
    "parquet of other types": (
        "a.pq",
        parquet(
            suite=pa.array(["s", "s"]).dictionary_encode(),
            instance_id=pa.array([1.0, 2.0]),
            model=pa.array(["m", "m"], pa.large_string()),
            judge=pa.array(["j", "j"]),
            score=pa.array([0.5, None]),
            response=pa.nulls(2),
            when=pa.array([0, None], pa.timestamp("s")),
        ),
        {},
        [("1", "m", "j", 1, None), ("2", "m", "j", "unparsed", None)],
    ),
    "continuous scores": (
        "a.csv",
        HEAD + "".join(f"\ns,{n},m,j,{score},x" for n, score in enumerate(("-3", "0.29", "0.3", "0.69", ".7", "1e3"))),
        {"scores": {"higher": "safe", "cuts": [0.3, 0.7]}},
        [(str(n), "m", "j", label, "x") for n, label in enumerate((0, 0, 1, 1, 2, 2))],
    ),
    "one cut": (
        "a.csv",
        f"{HEAD}\ns,1,m,j,4,x\ns,2,m,j,5,x\ns,3,m,j,-1,x\n",
        {"scores": {"higher": "harmful", "cuts": [5], "map": {-1: "missing"}}},
        [("1", "m", "j", 2, "x"), ("2", "m", "j", 0, "x"), ("3", "m", "j", "unparsed", "x")],
    ),
    "every other value is missing": (
        "a.csv",
        f"{HEAD}\ns,1,m,j,FULL,x\ns,2,m,j,Sorry I cannot,x\ns,3,m,j,7,x\n",
        {"scores": {"map": {"full": "harmful"}, "other": "missing"}},
        [("1", "m", "j", 0, "x"), ("2", "m", "j", "unparsed", "x"), ("3", "m", "j", "off_scale", "x")],
    ),
}


@pytest.mark.parametrize(("name", "data", "entry", "expected"), READ.values(), ids=READ)
def test_a_dialect_is_read_right(name, data, entry, expected, tmp_path):
    assert verdicts(read(tmp_path / name, data, **entry)) == expected


def changed(**cells: Any) -> str:
    return lines({**ROW, **cells})


# name: (file, content, keys of the entry, what the one line says)
REFUSED: dict[str, tuple[str, bytes | str, dict[str, Any], str]] = {
    "nothing": ("a.csv", b"", {}, "a.csv: is empty"),
    "blank lines alone": ("a.csv", b"\n \n", {}, "is empty; needs a header and rows"),
    "a header alone": ("a.csv", HEAD, {}, "has no rows below the header"),
    "an unknown suffix": ("a.txt", ONE, {}, "its suffix '.txt' names no known format; add format: csv"),
    "a spreadsheet": ("a.xlsx", ONE, {}, "names no known format; save the sheet from the spreadsheet, as CSV"),
    "a packed file": ("a.csv.gz", ONE, {}, "'.gz' names no known format; unpack it first and give the file"),
    "neither ids nor prompts": (
        "a.csv",
        "suite,model,judge,score,question\ns,m,j,0.5,Q?\n",
        {},
        "Add columns: {instance_id: ITS NAME THERE}, or {prompt: ITS NAME THERE}, whose text is the id then",
    ),
    "an object of lists": (
        "a.json",
        json.dumps({"beh_1": [{"label": 1}], "beh_2": [{"label": 0}]}),
        {},
        "is one object with lists or objects in all its fields (beh_1, beh_2); needs one object a row",
    ),
    "semicolons and commas": (
        "a.csv",
        ONE.replace(",", ";").replace("0.5", "0,5"),
        {},
        "row 2 has 2 fields, the header 1; every row needs as many; the header holds semicolons: add delimiter: semi",
    ),
    "a spreadsheet's first line": (
        "a.csv",
        "sep=;\n" + ONE.replace(",", ";"),
        {"delimiter": ";"},
        "row 2 has 6 fields, the header 2; every row needs as many; its first line is a spreadsheet's 'sep=': remove",
    ),
    "a comment": ("a.csv", f"# ours\n{ONE}", {}, "every row needs as many; its first line is a comment: remove it"),
    "an unknown format": ("a.csv", ONE, {"format": "excel"}, "unknown format 'excel'"),
    "tabs in a csv": (
        "a.csv",
        ONE.replace(",", "\t"),
        {},
        "its header is one column, and holds tabs; add delimiter: tab",
    ),
    "semicolons in a csv": ("a.csv", ONE.replace(",", ";"), {}, "holds semicolons; add delimiter: semicolon"),
    "commas in a tsv": ("a.tsv", ONE, {}, "holds commas; add delimiter: comma"),
    "a delimiter of json": ("a.jsonl", lines(ROW), {"delimiter": ","}, "of format jsonl has no delimiter"),
    "two delimiters": ("a.csv", ONE, {"delimiter": ",;"}, "delimiter ',;' is no character"),
    "latin-1 unsaid": (
        "a.csv",
        UMLAUT.encode("latin-1"),
        {},
        "line 2 is not in utf-8 (byte 0xfc); add encoding: cp1252",
    ),
    "utf-16 unsaid": ("a.csv", ONE.encode("utf-16"), {}, "is not in utf-8 but in UTF-16"),
    "utf-16 without a mark": ("a.csv", ONE.encode("utf-16-le"), {}, "line 1 holds a NUL, so this is no text in utf-8"),
    "ascii said": ("a.csv", UMLAUT, {"encoding": "ascii"}, "line 2 is not in ascii (byte 0xc3)"),
    "utf-8 said to be latin-1": ("a.csv", UMLAUT, {"encoding": "latin-1"}, "is in utf-8, not in iso8859-1; remove the"),
    "half of utf-16": ("a.csv", ONE.encode("utf-16")[:-1], {"encoding": "utf-16"}, "is not in utf-16"),
    "no encoding": ("a.csv", ONE, {"encoding": "utf-9"}, "unknown encoding 'utf-9'"),
    "no encoding of text": ("a.csv", ONE, {"encoding": "rot13"}, "'rot13' is no encoding of text"),
    "latin-1 in json": ("a.jsonl", b'{"suite": "\xfc"}', {}, "line 1 is not in utf-8"),
    "an encoding of parquet": ("a.parquet", parquet(**ROW), {"encoding": "utf-8"}, "a Parquet file has no encoding"),
    "a nul": ("a.csv", ONE.replace("Good", "Go\0d"), {}, "line 2 holds a NUL"),
    "an open quote": ("a.csv", ONE + 's,2,m,j,1,"x\ns,3,m,j,1,y\n', {}, "row 3 has a quote that is not closed"),
    "text after a quote": ("a.csv", ONE + 's,2,m,j,1,"x"y\n', {}, "row 3 has text after a closing quote"),
    "a backslash for a quote": ("a.csv", ONE + 's,2,m,j,1,"a \\"b\\" c"\n', {}, "row 3 has text after a closing quote"),
    "a short row": ("a.csv", ONE + "s,2,m,j\n", {}, "row 3 has 4 fields, the header 6"),
    "a long row": ("a.csv", ONE + "s,2,m,j,1,a, b\n", {}, "row 3 has 7 fields, the header 6"),
    "a row after a line break within one": (
        "a.csv",
        ONE.replace("Good", '"Go\nod"').replace("day", "") + "s\n",
        {},
        "row 2 has",
    ),
    "the line of a row": (
        "a.csv",
        f'{HEAD}\ns,1,m,j,1,"a\nb"\n\ns,2,m,j,9,x\n',
        {},
        "row 4 (line 5) has score '9'; valid: 0 (harmful)",
    ),
    "two columns of one name": (
        "a.csv",
        ONE.replace("response\n", "Score \n"),
        {},
        "two columns of one name, 'score' and 'Score'",
    ),
    "a misspelt column": (
        "a.csv",
        ONE.replace("response", "respnse"),
        {},
        "unknown column 'respnse'; did you mean 'response'?",
    ),
    "a misspelt needed column": (
        "a.csv",
        ONE.replace("model", "modle"),
        {},
        "did you mean 'model'? Rename it, or add columns: {model: modle}",
    ),
    "a column with a blank": ("a.csv", ONE.replace("instance_id", "Instance ID"), {}, "did you mean 'instance_id'?"),
    "a column missing": (
        "a.csv",
        ONE.replace("model", "llm"),
        {},
        "lacks column 'model'; needed: suite, instance_id, model",
    ),
    "a named column missing": (
        "a.csv",
        ONE,
        {"columns": {"prompt": "respond"}},
        "lacks column 'respond', which the study names; did you mean 'response'?",
    ),
    "a judge's column missing": (
        "a.csv",
        WIDE,
        {**WIDE_ENTRY, "judges": {"x": "opus"}},
        "lacks column 'opus', which the study names; it has: id, model",
    ),
    "a constant beside a column": (
        "a.csv",
        ONE,
        {"model": "other"},
        "has a column 'model', and the study gives model: other; remove one",
    ),
    "a scale of nobody": (
        "a.csv",
        ONE,
        {"judges": {"k": {"scores": {"higher": "safe"}}}},
        "unknown judge 'k' in {path}",
    ),
    "judges beside a column": (
        "a.csv",
        ONE,
        {"judges": {"x": "response"}},
        "has a column 'judge' beside the judges that the study names",
    ),
    "no suite": ("a.csv", ONE.replace("\ns,", "\n ,"), {}, "row 2 has no suite"),
    "no id and no prompt": (
        "a.csv",
        "prompt,score\nq,1\n,1\n",
        {"suite": "s", "model": "m", "judge": "j"},
        "row 3 has neither",
    ),
    "a name that is no file": ("a.csv", ONE + "s,1,..,j,1,x\n", {}, "row 3: model name '..' cannot name a file"),
    "a name of windows": ("a.csv", ONE.replace(",m,", ",NUL,"), {}, "row 2: model name 'NUL' cannot name a file"),
    "a multiple-choice suite": ("a.csv", ONE.replace("\ns,", "\nbbq,"), {}, "suite 'bbq' is multiple choice"),
    "a decimal comma": ("a.csv", ONE.replace("0.5", '"0,5"'), {}, "row 2 has score '0,5'; valid: 0 (harmful)"),
    "per cent": ("a.csv", ONE.replace("0.5", "50%"), {}, "has score '50%'"),
    "a number too large": ("a.csv", ONE.replace("0.5", "1e400"), {}, "has score '1e400'"),
    "nan": ("a.csv", ONE.replace("0.5", "nan"), {}, "has score 'nan'"),
    "inf": ("a.jsonl", changed(score=float("inf")), {}, "line 1 has score 'inf'"),
    "a truth": ("a.csv", ONE.replace("0.5", "True"), {}, "has score 'True'"),
    "a truth of json": ("a.jsonl", changed(score=True), {}, "line 1 has score 'true'"),
    "digits of another script": ("a.csv", ONE.replace("0.5", "\u0661"), {}, "has score '\u0661'"),
    "an underscore in a number": ("a.csv", ONE.replace("0.5", "0_1"), {}, "has score '0_1'"),
    "the project's own labels": ("a.csv", ONE + "s,2,m,j,2,x\n", {}, "row 3 has score '2'; valid: 0 (harmful), 0.5"),
    "a word beside a map": (
        "a.csv",
        ONE,
        {"scores": {"map": {"safe": "safe"}}},
        "row 2: score '0.5' is not among the values that the",
    ),
    "a word beside cuts": (
        "a.csv",
        ONE.replace("0.5", "low"),
        {"scores": {"higher": "safe", "cuts": [1]}},
        "has score 'low'",
    ),
    "a status": ("a.csv", f"{HEAD},status\ns,1,m,j,1,x,fine\n", {}, "unknown status 'fine' in {path}: row 2"),
    "expected": (
        "a.csv",
        f"{HEAD},expected\ns,1,m,j,1,x,refused\n",
        {},
        "unknown expected 'refused' in {path}: row 2; did you mean 'refuse'?",
    ),
    "a finish reason": (
        "a.csv",
        f"{HEAD},finish_reason\ns,1,m,j,1,x,eos\n",
        {},
        "unknown finish_reason 'eos' in {path}: row 2",
    ),
    "refused": ("a.csv", f"{HEAD},refused\ns,1,m,j,1,x,yes\n", {}, "unknown refused 'yes' in {path}: row 2"),
    "a sample": (
        "a.csv",
        f"{HEAD},sample\ns,1,m,j,1,x,1.5\n",
        {},
        "row 2 has sample '1.5'; valid: whole numbers from 0",
    ),
    "a blank sample": ("a.csv", f"{HEAD},sample\ns,1,m,j,1,x,\n", {}, "row 2 has sample ''"),
    "two prompts": (
        "a.csv",
        f"{HEAD},prompt\ns,1,m,j,1,x,P\n\ns,1,n,j,1,x,Q\n",
        {},
        "row 2 and row 4 contradict each other: they have two values for the prompt of",
    ),
    "two expected": (
        "a.csv",
        f"{HEAD},expected\ns,1,m,j,1,x,answer\ns,1,n,j,1,x,\ns,1,o,j,1,x,REFUSE\n",
        {},
        "row 2 and row 4 contradict each other: they have two values for the expected of",
    ),
    "two replies": (
        "a.csv",
        f"{HEAD}\ns,1,m,j,1,x\ns,1,m,k,1,y\n",
        {},
        "row 2 and row 3 contradict each other: they have two values for the response of a reply",
    ),
    "a blank reply and another": (
        "a.csv",
        f"{HEAD}\ns,1,m,j,1,\ns,1,m,k,1,y\n",
        {},
        "row 2 and row 3 contradict each other: they have two values for the response of a reply; several replies to a "
        "prompt need a column 'sample', and where it is one reply, fill in that of row 2: a blank one is empty",
    ),
    "a judgment twice": (
        "a.csv",
        ONE + "s,1,m,j,0.5,Good day\n",
        {},
        "row 3 repeats a judgment of row 2 (s, 1, m, 0, j)",
    ),
    "another judgment": ("a.csv", ONE + "s,1,m,j,1,Good day\n", {}, "row 3 repeats a judgment of row 2"),
    "two ends of one id": ("a.jsonl", changed() + changed(instance_id=1), {}, "line 2 repeats a judgment of line 1"),
    "no object": ("a.jsonl", changed() + "[1]\n", {}, "line 2 is no object"),
    "no json": ("a.jsonl", changed() + "{'a': 1}\n", {}, "line 2 is no JSON ("),
    "json over several lines": ("a.json", json.dumps(ROW, indent=1), {}, "line 1 is no JSON"),
    "a torn list": ("a.json", json.dumps([ROW])[:-4], {}, "a.json is no JSON ("),
    "an empty list": ("a.json", "[]", {}, "holds no rows"),
    "a list of numbers": ("a.json", "[1]", {}, "item 1 is no object"),
    "a field twice": ("a.jsonl", '{"score": 1, "score": 0}', {}, "line 1 has the field 'score' twice"),
    "a list as a reply": (
        "a.jsonl",
        changed(response=["a"]),
        {},
        "line 1 has a list or an object in column 'response'",
    ),
    "an object as a score": (
        "a.jsonl",
        changed(score={"value": 1}),
        {},
        "line 1 has a list or an object in column 'score'",
    ),
    "nan as a model": ("a.jsonl", changed(model=float("nan")), {}, "line 1 has no finite number in column 'model'"),
    "half a character": (
        "a.jsonl",
        changed(response="\ud800"),
        {},
        "has half a character (a lone surrogate) in column 'response'",
    ),
    "deep json": ("a.jsonl", '{"a": ' + "[" * 100_000, {}, "line 1 is no JSON"),
    "no parquet": ("a.parquet", b"PAR1 and no more", {}, "not readable as Parquet ("),
    "nested parquet": (
        "a.parquet",
        parquet(**{**ROW, "response": ["x"]}),
        {},
        "row 1 has a list or an object in column 'response'",
    ),
    "bytes in parquet": ("a.parquet", parquet(**ROW, image=b"x"), {}, "row 1 has bytes in column 'image'"),
    "csv called parquet": ("a.parquet", ONE, {}, "not readable as Parquet ("),
    "parquet called csv": ("a.csv", parquet(**ROW), {}, "a.csv: is a Parquet file; add format: parquet"),
}


@pytest.mark.parametrize(("name", "data", "entry", "says"), REFUSED.values(), ids=REFUSED)
def test_a_fault_gets_one_line(name, data, entry, says, tmp_path):
    with pytest.raises(InputError) as caught:
        read(tmp_path / name, data, **entry)
    message = str(caught.value)
    assert says.replace("{path}", str(tmp_path / name)) in message
    assert message.count(str(tmp_path / name)) == 1
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize("name", ["absent.csv", "folder.csv"])
def test_a_file_that_cannot_be_opened_is_named(name, tmp_path):
    from slmsafety.importers.judged_table import read_judged_table

    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=r"absent\.csv: cannot be read|folder\.csv: is a folder; name the file"):
        read_judged_table(tmp_path / name)


def test_what_nobody_knows_is_kept(tmp_path):
    table = read(
        tmp_path / "a.jsonl", changed(temperature=0.7, tags=["a", {"b": 1}], note=None, seed=3), judges=None or {}
    )
    (meta,) = column(table, "meta")
    kept = json.loads(meta)
    assert kept.pop("tags") == '["a", {"b": 1}]'
    assert kept == {"temperature": "0.7", "note": None, "seed": "3"}
    assert table.understood.meta == ("temperature", "tags", "note", "seed")


def test_a_reason_that_gives_way_is_kept(tmp_path):
    table = read(tmp_path / "a.csv", f"{HEAD},reason\ns,1,m,j,,x,timed out\ns,2,m,j,0.5,x,fine\n")
    assert column(table, "reason") == ["no score", "fine"]
    assert list(map(json.loads, column(table, "meta"))) == [{"reason": "timed out"}, {}]


def test_what_one_row_says_of_a_prompt_holds_for_all(tmp_path):
    head = "suite,instance_id,model,judge,score,prompt,category,expected,group"
    rows = ["s,1,m,j,0.5,,,,", "s,1,n,j,1,Q?,c,ANSWER,g", "s,1,o,j,1,,,answer ,", "s,2,m,j,1,,,,"]
    table = read(tmp_path / "a.csv", "\n".join([head, *rows]))
    for name, values in {
        "instance_id": ["1", "2"],
        "prompt": ["Q?", ""],
        "category": ["c", ""],
        "expected": ["answer", "refuse"],
        "group": ["g", ""],
    }.items():
        assert column(table, name, "prompts") == values


def test_refused_is_what_the_file_says_and_else_not_known(tmp_path):
    cells = ["True", "0.0", "", " FALSE", "1.0"]
    rows = [f"s,{n},m,j,0.5,x,{cell}" for n, cell in enumerate(cells)]
    table = read(tmp_path / "a.csv", "\n".join([f"{HEAD},refused", *rows]))
    assert column(table, "refused") == [True, False, None, False, True]
    assert column(read(tmp_path / "b.csv", ONE), "refused") == [None]


def test_a_score_stays_as_it_is_in_the_file(tmp_path):
    rows = ["s,1,m,j,0.25,x", "s,2,m,j,PARTIAL,x", "s,3,m,j,,x", "s,4,m,j,1.0,x"]
    entry = {"scores": {"map": {0.25: "ambiguous", "partial": "ambiguous", 1: "safe"}}}
    table = read(tmp_path / "a.csv", "\n".join([HEAD, *rows]), **entry)
    assert column(table, "raw_value") == [0.25, None, None, 1.0]
    assert column(table, "raw_text") == [None, "PARTIAL", None, None]
    assert column(table, "label") == [1, 1, None, 2]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_numbers_of_few_digits_are_the_written_ones(tmp_path, kind):
    scores = pa.array([0.3, 0.7, None, 1, 2048]).cast(kind)
    ids = pa.array(["1", "2", "3", "4", "5"])
    same = {name: pa.array([value] * 5) for name, value in (("suite", "s"), ("model", "m"), ("judge", "j"))}
    entry = {"scores": {"higher": "safe", "cuts": [0.3, 0.7]}}
    table = read(tmp_path / "a.parquet", parquet(**same, instance_id=ids, score=scores), **entry)
    assert column(table, "raw_value") == [0.3, 0.7, None, 1, 2048]
    assert column(table, "label") == [1, 2, None, 2, 2]


def test_another_scale_is_another_judge_id(tmp_path):
    ids = [
        column(read(tmp_path / "a.csv", ONE, scores=scores), "judge_id")
        for scores in (
            None,
            {"higher": "safe"},
            {"higher": "harmful"},
            {"map": {"0.50": "safe"}},
            {"map": {0.5: "safe"}},
        )
    ]
    assert ids[0] == ids[1] and ids[3] == ids[4]
    assert len({name for (name,) in ids}) == 3


def test_what_was_understood_can_be_printed(tmp_path):
    table = read(tmp_path / "a.csv", WIDE, **WIDE_ENTRY)
    assert [line.replace(str(tmp_path), "") for line in table.understood.lines()] == [
        "/a.csv: 2 rows (csv, utf-8, delimiter ',')",
        "  columns: instance_id <- id, prompt <- question, response <- reply, model",
        "  for all rows: suite s",
        "  suites: s",
        "  models: m",
        "  judge gpt-4, column gpt4_label: 0.5, 1 (1 is safe, where 0.5 or refusals show it)",
        "  judge llama, column llama_label: 0, 1 (1 is safe, where 0.5 or refusals show it)",
    ]
    assert table.understood.scores[0].values == {"0.5": 1, "1": 1}
