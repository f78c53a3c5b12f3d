"""`python -m slmsafety` is the command `slmsafety`."""

from slmsafety.cli import main

raise SystemExit(main())
