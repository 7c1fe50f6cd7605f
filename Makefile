# Python packages go into .venv; PYTHON chooses the interpreter that makes it. Outside of it only `make system-packages`, which
# `make test` calls, installs anything: Debian's chromium and EGL, where they are missing and it has the rights.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help setup system-packages demo test test-slow test-chaos test-chaos-cluster bench-cluster coverage lint types hooks bench bench-replay bench-packages results-paper results-halving results-her results-hosted results-hppo results-ablations results-gradients results-map results-questions docs format clean

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

demo: setup ## Watch HPPO and HPG learn bit flipping while GCPG falls behind
	$(BIN)/python scripts/demo.py

test: setup system-packages lint types ## All tests, linters and type checks
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

test-slow: setup ## Real learning runs, some minutes
	$(BIN)/python -m pytest -m slow

MINUTES ?= 30
test-chaos: setup ## Random faults, counted by kind (half an hour, or MINUTES=...; SEED=... repeats them)
	$(BIN)/python scripts/chaos.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

ROUNDS ?= 100
test-chaos-cluster: setup ## Kill parts of Ray at random while a study runs on it (hours, or ROUNDS=...; SEED=... repeats them)
	$(BIN)/python scripts/chaos_cluster.py --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED))

bench-cluster: setup ## What a piece of a study costs on Ray, and 1,000 pretended workers against the one writer
	$(BIN)/python benchmarks/cluster.py

coverage: setup system-packages ## The tests again, slower, to see which lines of the program they run
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --cov --cov-report=
	$(BIN)/python scripts/coverage_table.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: setup
	$(BIN)/mypy

hooks: setup ## Check lint and types before each commit, with pre-commit
	$(BIN)/pre-commit install

bench: setup bench-packages ## Speed: beside the published code, stable-baselines3, bare simulators and PyTorch
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/hppo.py
	$(BIN)/python benchmarks/hosted.py
	$(BIN)/python benchmarks/acting.py

bench-replay: setup bench-packages ## DQN+HER and our other methods beside stable-baselines3 (half an hour; goes on)
	$(BIN)/python benchmarks/replay.py

bench-packages: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --requirement benchmarks/requirements.txt

# Of a report, results/ keeps what its texts show or rest on; the whole of it stays in the study folder.
# $(call keep,study folder,folder in results,files)
keep = for file in $(3); do mkdir -p $(2)/$${file%/*} && cp $(1)/report/$$file $(2)/$$file || exit 1; done
KEPT_TABLES := tables/settings.md tables/cell-settings.md tables/origins.md tables/comparisons.md tables/thresholds.md
KEPT_PAPER := $(KEPT_TABLES) tables/paper.md figures/paper.png figures/learning-curves-four-rooms-batch16.png
KEPT_HER := $(KEPT_TABLES) $(patsubst %,figures/learning-curves-%-batch16.png,bit-flipping-8 bit-flipping-16 empty-room four-rooms)
KEPT_BEYOND := $(KEPT_TABLES) tables/performance.md tables/sensitivity.md \
	$(patsubst %,figures/learning-curves-%-batch16.png,bit-flipping-8 empty-room)

results-paper: setup ## The paper's small environments as a study (many hours; goes on where it stopped)
	$(BIN)/hindsight study run results/paper/study.toml
	$(BIN)/hindsight study report studies/paper-small
	$(call keep,studies/paper-small,results/paper,$(KEPT_PAPER))
	$(BIN)/hindsight study export studies/paper-small --output results/paper/evaluations.parquet
	$(BIN)/hindsight study run results/paper/checks.toml
	$(BIN)/hindsight study export studies/paper-checks --output results/paper/checks.parquet
	$(BIN)/hindsight study run results/paper/again.toml
	$(BIN)/hindsight study export studies/paper-again --output results/paper/again.parquet
	$(BIN)/python scripts/paper_cells.py

results-halving: setup ## Successive halving beside the full grid (half an hour; goes on where it stopped)
	$(BIN)/python scripts/results_halving.py

results-her: setup ## DQN and DQN+HER beside GCPG and HPG (hours; goes on where it stopped)
	if [ -d studies/paper-small ]; then $(BIN)/hindsight study merge studies/her-small studies/paper-small --methods gcpg hpg --batch-sizes 16; fi
	$(BIN)/hindsight study run results/her/study.toml
	$(BIN)/hindsight study report studies/her-small
	$(call keep,studies/her-small,results/her,$(KEPT_HER))
	$(BIN)/hindsight study export studies/her-small --output results/her/evaluations.parquet
	$(BIN)/hindsight study run results/her/beyond-horizon.toml
	$(BIN)/hindsight study report studies/her-beyond-horizon
	$(call keep,studies/her-beyond-horizon,results/her/beyond-horizon,$(KEPT_BEYOND))

results-hosted: setup ## FetchReach, FetchPush and Ms. Pac-man: curves and films (many hours; goes on where it stopped)
	$(BIN)/python scripts/results_hosted.py

results-hppo: setup ## Hindsight PPO beside PPO, on bits, rooms and robots (hours; goes on where it stopped)
	$(BIN)/python scripts/results_hppo.py

results-ablations: setup ## What each part of hindsight PPO is worth (an hour of two cores, two more with FetchPush; goes on)
	$(BIN)/python scripts/results_ablations.py

results-gradients: setup ## The measurements of docs/gradients.md (half an hour; goes on where it stopped)
	$(BIN)/python scripts/results_gradients.py

results-map: setup bench-packages ## The map of methods (an hour of one core; goes on where it stopped)
	$(BIN)/python scripts/results_map.py

results-questions: setup ## The paper's open questions (half an hour of one core; goes on where it stopped)
	$(BIN)/python scripts/results_questions.py

docs: setup ## The documents as a site in build/site, every link checked
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	$(BIN)/python scripts/docs_source.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "Open build/site/index.html; to search it too: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site"

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage .coverage.* htmlcov
