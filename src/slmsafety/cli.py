"""The command line of slmsafety: studies are collected, judged and shown by verbs."""

from __future__ import annotations

import argparse
import io
import os
import sys
import textwrap
import traceback
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from slmsafety.cli_import import add_import
from slmsafety.errors import InputError, PartFailed, one_line, refused_by_system, visible

if TYPE_CHECKING:
    import pandas as pd


class _OneLine(argparse.ArgumentParser):
    """A parser that reports a wrong command line in one line."""

    def error(self, message: str) -> NoReturn:
        """Print the line and exit with 2."""
        self.exit(2, f"slmsafety: {one_line(message)}; see: {self.prog} --help\n")


class _Version(argparse.Action):
    """Print the installed version, which is looked up when it is asked for."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object, option: str | None = None
    ) -> NoReturn:
        print(f"slmsafety {metadata.version('slmsafety')}")
        parser.exit()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words of the command line; those of the process where left out.

    Returns
    -------
    int
        The exit code: 0 done, 1 a part failed, 2 bad input (one line on stderr), 130 stopped by the user.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name that the terminal's encoding cannot show
    options = make_parser().parse_args(arguments)
    try:
        code = int(options.run(options) or 0)
        sys.stdout.flush()
        return code
    except PartFailed as error:
        _ended(str(error))
        return 1
    except InputError as error:
        return _ended(str(error))
    except KeyboardInterrupt:
        print("slmsafety: stopped; finished rows are kept, the same command goes on from there", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of a pipe (head, less) has gone; nothing is wrong and there is no one left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _ended(refused_by_system(error))
    except (MemoryError, RecursionError, OverflowError, UnicodeError) as error:
        return _ended(f"{_place(error)}: {type(error).__name__}: {error}; a file holds more than can be worked with")


def _ended(message: str) -> int:
    """Print why a verb ended, and return the exit code of bad input."""
    print(f"slmsafety: {one_line(message)}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:  # it is what could not be written; Python would try once more at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 2


def _place(error: BaseException) -> str:
    """The last line of the package that an error has passed."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "slmsafety" in frame.filename]
    return f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else "somewhere"


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line, with a verb for each thing that can be done."""
    parser = _OneLine(prog="slmsafety", description=__doc__)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and stop")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    collect = verbs.add_parser("collect", help="run a study's stages, or import its sources")
    collect.add_argument("study", metavar="STUDY", help="a name in params/ or the path of a params file")
    collect.add_argument(
        "--stage",
        action="append",
        help="only this stage (may be repeated): prompts, generate, judge, metrics; import, judge, metrics if imported",
    )
    collect.add_argument(
        "--retry", default="", metavar="STATUS,...", help="judge rows of these statuses again (errors always)"
    )
    collect.set_defaults(run=_collect)
    add_import(verbs)
    status = verbs.add_parser("status", help="what is done, missing or failed in a study")
    status.add_argument("study", metavar="STUDY")
    status.set_defaults(run=_status)
    estimate = verbs.add_parser(
        "estimate", help="what replies will take (tokens, downloads, hours) and their judging over endpoints (dollars)"
    )
    estimate.add_argument("study", metavar="STUDY")
    estimate.add_argument(
        "--tokens-per-second", type=float, metavar="RATE", help="new tokens a second of one process, for the hours"
    )
    estimate.set_defaults(run=_estimate)
    noise = verbs.add_parser("noise", help="how many replies and labels change under other batch sizes and dtypes")
    noise.add_argument("study", metavar="STUDY")
    noise.add_argument("--sample", type=int, default=50, metavar="N", help="replies of each suite and model (50)")
    noise.add_argument("--suite", action="append", default=[], help="only this suite (may be repeated)")
    noise.set_defaults(run=_noise)
    card = verbs.add_parser(
        "judge-card", help="how good the judges are, a row each: agreement, errors, coverage, speed"
    )
    card.add_argument(
        "study",
        metavar="STUDY",
        nargs="?",
        help="the judges of this study; without it, the named judges on public replies (SLMSAFETY_DATA)",
    )
    card.set_defaults(run=_judge_card)
    figures = verbs.add_parser("figures", help="execute the notebooks on studies; they write figures and tables")
    figures.add_argument("studies", metavar="STUDY", nargs="+")
    figures.set_defaults(run=_figures)
    verbs.add_parser("models", help="the models and where their weights come from").set_defaults(run=_models)
    suites = verbs.add_parser(
        "suites", help="the suites, their sources and what is present; with a study, what it loads"
    )
    suites.add_argument(
        "study", metavar="STUDY", nargs="?", help="show what this study's suites load; exit code 1 if one fails"
    )
    suites.set_defaults(run=_suites)
    return parser


def _collect(options: argparse.Namespace) -> None:
    from slmsafety.study import Study

    study = Study.load(options.study)
    retry = [status for status in options.retry.split(",") if status]
    study.collect(options.stage, retry)


def _estimate(options: argparse.Namespace) -> None:
    from slmsafety.pipeline.generation_estimate import estimate_generation, generation_totals
    from slmsafety.study import Study

    study, rate = Study.load(options.study), options.tokens_per_second
    if rate is not None and not 0 < rate < float("inf"):
        raise InputError(f"--tokens-per-second {rate:g}: give a number above 0")
    if study.params.kind == "run":
        replies = estimate_generation(study.run, rate)
        formats = {"download_gb": "{:.2f}".format, "hours": "{:.2f}".format}
        print(replies.to_string(index=False, formatters=formats, na_rep="not known"))
        print(generation_totals(replies))
        if not any(judge.costs_money(study.root) for judge in study.run.judges):
            print(f"study {study.name} has no judge behind an endpoint; its judges cost nothing")
            return
    table = study.estimate()
    total = table[["calls", "dollars", "most_dollars"]].sum()
    formats = {"dollars": "{:.2f}".format, "most_dollars": "{:.2f}".format, "minutes": "{:.0f}".format}
    print(table.to_string(index=False, formatters=formats, na_rep="no price"))
    print(f"in all: {total['calls']:.0f} calls, ${total['dollars']:.2f}, at most ${total['most_dollars']:.2f}")


def _status(options: argparse.Namespace) -> None:
    from slmsafety.pipeline.status import with_total
    from slmsafety.study import Study

    study = Study.load(options.study)
    state = study.status()
    if len(state):
        print(with_total(state).to_string(index=False))
    elif study.printed_only:
        print(f"study {study.name} is of kind '{study.params.kind}': it has no stages to run")
    else:
        print(f"study {study.name}: nothing is imported yet; run: slmsafety collect {study.name}")


def _noise(options: argparse.Namespace) -> None:
    from slmsafety.study import Study

    table = Study.load(options.study).noise(options.sample, options.suite)
    for name in ("changed", "verdicts_changed", "flips"):
        limits = zip(table[name], table[f"{name}_low"], table[f"{name}_high"], strict=True)
        table[name] = [f"{count} ({low:.2f}-{high:.2f})" for count, low, high in limits]
    columns = ["suite", "model", "judge", "dtype", "batch_size", "n", "changed", "same_start", "verdicts_changed"]
    print(table[[*columns, "flips", "ar", "ar_again"]].to_string(index=False, float_format="{:.3f}".format))


def _judge_card(options: argparse.Namespace) -> None:
    from slmsafety.report.figures import judge_coverage
    from slmsafety.study import Study
    from slmsafety.study.judge_cards import public_cards, shown, study_cards, write_cards

    cards = study_cards(Study.load(options.study)) if options.study else public_cards()
    print(shown(cards), end="\n\n")
    print(*write_cards(cards, judge_coverage), sep="\n")


def _figures(options: argparse.Namespace) -> int:
    from slmsafety.study.notebooks import execute

    return execute(options.studies)


def _models(options: argparse.Namespace) -> None:
    from slmsafety.study.listing import list_models

    print(list_models().drop(columns="note").to_string(index=False))


def _suites(options: argparse.Namespace) -> int:
    from slmsafety.study import Study
    from slmsafety.study.listing import list_suites

    if options.study is None:
        print(blocks(list_suites()))
        return 0
    study = Study.load(options.study)
    files = study.suite_files()
    print(blocks(files) or f"study {study.name} is of kind '{study.params.kind}': it loads no suite")
    return int(files["problem"].ne("").any())


def blocks(frame: pd.DataFrame) -> str:
    """Return a block of lines for each row: its first cell, then every other that is not empty beside its column."""
    wide = max(map(len, frame.columns)) + 4
    # A path or an address that is cut could not be copied.
    lines = textwrap.TextWrapper(100, subsequent_indent=" " * wide, break_long_words=False, break_on_hyphens=False)
    shown = []
    for row in frame.to_dict("records"):
        (_, name), *cells = row.items()
        block = [visible(name)]
        for column, value in cells:
            lines.initial_indent = f"  {column}".ljust(wide)
            block += lines.wrap(visible(value))
        shown.append("\n".join(block))
    return "\n\n".join(shown)


if __name__ == "__main__":
    raise SystemExit(main())
