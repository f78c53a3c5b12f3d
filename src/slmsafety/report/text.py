"""Text that others wrote (a reply, a name) made safe to show in a terminal, HTML, Markdown, LaTeX or a figure."""

from __future__ import annotations

import html as _html

from slmsafety.errors import visible

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    # After the \\ that ends a row, LaTeX would read these two as an argument.
    "[": "{[}",
    "*": "{*}",
    "\u00a0": "~",
    "\u2013": "--",
    "\u2014": "---",
    "\u2018": "`",
    "\u2019": "'",
    "\u201c": "``",
    "\u201d": "''",
    "\u2026": r"\ldots{}",
    "\u2212": "$-$",
    "\u2264": r"$\leq$",
    "\u2265": r"$\geq$",
    "\u2192": r"$\rightarrow$",
    "\u03ba": r"$\kappa$",
    "\u03c4": r"$\tau$",
    "\u03c1": r"$\rho$",
    "\u0394": r"$\Delta$",
}


def html(text: object) -> str:
    """Return the text with HTML's own characters escaped."""
    return _html.escape(visible(text))


def markdown(text: object) -> str:
    """Return a Markdown sentence in which emphasis and code still work, and tags, links and images do not."""
    return _html.escape(visible(text), quote=False).replace("[", "&#91;").replace("]", "&#93;")


def latex(text: object) -> str:
    """Return the text with LaTeX's own characters escaped; what no common font holds becomes its code point."""
    return "".join(_LATEX.get(char) or (char if ord(char) < 0x100 else _code_point(char)) for char in visible(text))


def plain(text: object, longest: int = 26) -> str:
    """Return a label for a figure: no mathematics, at most `longest` characters."""
    shown = visible(text)
    shown = shown if len(shown) <= longest else shown[: longest - 1] + "…"
    return shown.replace("$", r"\$")


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: 1 model, 1,200 models; a plural that takes more than an s is given."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def _code_point(char: str) -> str:
    return f"{{[}}U+{ord(char):04X}]"
