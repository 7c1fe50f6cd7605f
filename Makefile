# Everything goes into .venv; PYTHON chooses the interpreter that makes it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help setup system-packages demo test test-slow lint types bench results-core results-paper results-halving results-gradients format clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(STAMP) ## Make .venv with the program and its tools

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("hindsight needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

system-packages: ## Debian's chromium for the tests of reports, and EGL for films without a display
	@sh scripts/install_system_packages.sh

demo: setup ## Watch HPG learn bit flipping while GCPG falls behind
	$(BIN)/python scripts/demo.py

test: setup system-packages lint types ## All tests, linters and type checks
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: setup ## Real learning runs, some minutes
	$(BIN)/python -m pytest -m slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: setup
	$(BIN)/mypy

bench: setup ## Speed, as ratios to the published code
	$(BIN)/python benchmarks/speed.py

results-core: setup ## The core learning results beside the paper's (hours; goes on where it stopped)
	$(BIN)/python scripts/results_core.py

results-paper: setup ## The paper's small environments as a study (many hours; goes on where it stopped)
	$(BIN)/hindsight study run results/paper/study.toml
	$(BIN)/hindsight study report studies/paper-small --output results/paper
	$(BIN)/hindsight study export studies/paper-small --output results/paper/evaluations.parquet

results-halving: setup ## Successive halving beside the full grid (half an hour; goes on where it stopped)
	$(BIN)/python scripts/results_halving.py

results-gradients: setup ## The measurements of docs/gradients.md (half an hour; goes on where it stopped)
	$(BIN)/python scripts/results_gradients.py

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
