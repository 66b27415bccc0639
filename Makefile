# Every command a developer needs. The first builds .venv from the pins in constraints.txt; later ones start at once.

PYTHON ?= python3
WORKERS ?= 2

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
FRAMEWORKS := $(VENV)/.frameworks
CACHES := .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
PIP_INSTALL = $(BIN)/python -m pip install -qq --no-input --disable-pip-version-check

# What runs is what .venv holds, whatever the caller's shell points at.
unexport PYTHONPATH PYTHONHOME

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint types imports unit frameworks bench format pins clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile
	@echo "  PYTHON=python3.12 chooses the interpreter that builds .venv, WORKERS=4 the test processes."

demo: $(READY) ## find planted label errors in a small data set
	@$(BIN)/errata demo

test: lint types imports unit ## every check: lint, types, imports, unit
	@echo "All checks passed. Left out: tests/frameworks (Lightning, transformers, sentence-transformers, datasets, Keras, skorch, CatBoost); make test-all runs these too."

test-all: test frameworks ## every check, with the frameworks whose training can be recorded
	@echo "All checks passed, those of the frameworks too."

lint: $(READY) ## style and formatting (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## types (mypy --strict)
	$(BIN)/mypy

imports: $(READY) ## layers import downwards only (import-linter)
	$(BIN)/lint-imports

# One thread in each worker: two workers already fill two cores, and more threads only get in their way.
unit: $(READY) ## tests (pytest)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --ignore tests/frameworks

# A file stays with one worker: every framework takes its time to be imported.
frameworks: $(FRAMEWORKS) ## tests against real frameworks (pytest)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile tests/frameworks

bench: $(READY) ## speed, side by side with peers
	@$(BIN)/python benchmarks

format: $(READY) ## mend style and formatting in place
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

pins: ## resolve every dependency anew (torch keeps its pin) and rewrite constraints.txt
	$(require-python)
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) "$$(grep '^torch==' constraints.txt)" -e '.[dev,frameworks]'
	{ grep '^#' constraints.txt; \
	  $(BIN)/python -m pip freeze --all --exclude-editable --exclude pip | sed 's/+cpu$$//'; } > constraints.new
	mv constraints.new constraints.txt
	touch $(READY) $(FRAMEWORKS)

clean: ## remove .venv, caches and built packages
	rm -rf $(VENV) dist build $(CACHES)
	find . -name __pycache__ -prune -exec rm -rf {} +

define require-python
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
  echo "errata needs Python 3.11 or newer, and $(PYTHON) is not that; choose one with make PYTHON=python3.12 ..." >&2; \
  exit 1; }
endef

# .ready is there only while .venv is whole: an interrupted set-up leaves none, and the next one starts from nothing.
$(READY): pyproject.toml constraints.txt
	$(require-python)
	@echo "Setting up $(VENV): minutes the first time, seconds when it only changes ..."
	@test -f $@ || $(PYTHON) -m venv --clear $(VENV)
	@rm -f $@
	@$(PIP_INSTALL) -c constraints.txt -e '.[dev]' || { \
	  echo "Set-up failed. To see all pip says: $(BIN)/python -m pip install -c constraints.txt -e '.[dev]'" >&2; exit 1; }
	@touch $@

$(FRAMEWORKS): $(READY)
	@echo "Adding the frameworks to $(VENV): minutes the first time ..."
	@$(PIP_INSTALL) -c constraints.txt -e '.[dev,frameworks]' || { \
	  echo "Set-up failed. To see all pip says: $(BIN)/python -m pip install -c constraints.txt -e '.[dev,frameworks]'" >&2; \
	  exit 1; }
	@touch $@
