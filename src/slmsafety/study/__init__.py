"""A study: what a notebook or the command line asks for."""

from slmsafety.study.study import Study as Study
