"""The command line: each verb is one function call that a notebook can make as well."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from slmsafety.errors import InputError


class _OneLine(argparse.ArgumentParser):
    """A parser whose complaint is one line, like every other."""

    def error(self, message: str) -> NoReturn:
        """Print the complaint and exit with 2."""
        self.exit(2, f"slmsafety: {message}; see: {self.prog} --help\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a verb and return its exit code: 0 done, 2 bad input (one line on stderr), 130 stopped by the user."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options) or 0)
    except InputError as error:
        print(f"slmsafety: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("slmsafety: stopped; finished rows are kept, the same command goes on from there", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader of a pipe (head, less) has gone; nothing is wrong and there is no one left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = _OneLine(prog="slmsafety", description=__doc__)
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    collect = verbs.add_parser("collect", help="run a study's stages: prompts, generate, judge, metrics")
    collect.add_argument("study", metavar="STUDY", help="a name in params/ or the path of a params file")
    collect.add_argument("--stage", action="append", help="only this stage, of those four (may be repeated)")
    collect.set_defaults(run=_collect)
    status = verbs.add_parser("status", help="what of a study is done, missing or failed")
    status.add_argument("study", metavar="STUDY")
    status.set_defaults(run=_status)
    figures = verbs.add_parser("figures", help="execute the notebooks on studies, write figures and tables")
    figures.add_argument("studies", metavar="STUDY", nargs="+")
    figures.set_defaults(run=_figures)
    verbs.add_parser("models", help="the models and where their weights come from").set_defaults(run=_models)
    verbs.add_parser("suites", help="the suites, their sources, licences and rows").set_defaults(run=_suites)
    return parser


def _collect(options: argparse.Namespace) -> None:
    from slmsafety.study import Study

    study = Study.load(options.study)
    study.collect(options.stage) if options.stage else study.collect()


def _status(options: argparse.Namespace) -> None:
    from slmsafety.study import Study

    study = Study.load(options.study)
    state = study.status()
    if state.empty:
        print(f"study {study.name} is of kind '{study.params.kind}': it has no stages to run")
    else:
        print(state.to_string(index=False))


def _figures(options: argparse.Namespace) -> int:
    from slmsafety.notebooks import execute

    return execute(options.studies)


def _models(options: argparse.Namespace) -> None:
    from slmsafety.study import list_models

    print(list_models().drop(columns="note").to_string(index=False))


def _suites(options: argparse.Namespace) -> None:
    from slmsafety.study import list_suites

    print(list_suites().to_string(index=False))


if __name__ == "__main__":
    raise SystemExit(main())
