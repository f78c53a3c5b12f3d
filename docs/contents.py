"""Write the table of docs/contents.md from the list of artifacts; `make sync` runs it."""

from __future__ import annotations

import re
from pathlib import Path

from slmsafety.report.contents import REQUIREMENTS, all_artifacts
from slmsafety.study import Study

PAGE = Path(__file__).with_name("contents.md")
TABLE = re.compile(r"(?<=<!-- table -->\n).*?(?=\n<!-- /table -->)", re.DOTALL)


def table() -> str:
    """Return the Markdown table: a line for each artifact, in the order of contents.csv."""
    capabilities = frozenset(Study.load("published").capabilities)
    lines = ["| notebook | artifact | shows | left out of a study where | in `published` |", "|---|---|---|---|---|"]
    for artifact in all_artifacts():
        reasons = "; ".join(REQUIREMENTS[need] for need in artifact.needs) or "never"
        made = "no" if artifact.reason(capabilities) else "yes"
        lines.append(f"| {artifact.notebook} | `{artifact.name}` | {artifact.what} | {reasons} | {made} |")
    return "\n".join(lines)


def written(page: str) -> str:
    """Return the text of the page with the present table between its two marks."""
    return TABLE.sub(lambda old: table(), page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
