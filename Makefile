# The commands of a developer. The first call builds .venv from the pins in constraints.txt; later calls reuse it.

PYTHON ?= python3
WORKERS ?= 2

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
FRAMEWORKS := $(VENV)/.frameworks
LOWEST := .venv-lowest
LOWEST_READY := $(LOWEST)/.ready
CACHES := .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
EVERYTHING := dev,frameworks,docs
PIP_OPTIONS := -qq --no-input --disable-pip-version-check

# Commands use only what their virtual environment contains.
unexport PYTHONPATH PYTHONHOME

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-lowest torture lint types imports unit frameworks package bench docs docs-test docs-serve format pins clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
	@echo "  PYTHON=python3.12 chooses the interpreter for .venv, WORKERS=4 the number of test processes."

demo: $(READY) ## find planted label errors in a small dataset
	@$(BIN)/errata demo

test: lint types imports unit ## lint, types, imports and unit tests
	@echo "All checks passed. Not included: tests/frameworks (Lightning, transformers, sentence-transformers, datasets, Keras, skorch, CatBoost). Run these with make test-all."

test-all: test frameworks ## make test, and the tests with real frameworks
	@echo "All checks passed, including those with real frameworks."

# One thread per worker: two workers already use two cores.
PYTEST_UNIT := -m pytest -n $(WORKERS) --dist worksteal --ignore tests/frameworks --ignore tests/site --ignore tests/package

test-lowest: $(LOWEST_READY) ## unit tests with the lowest supported versions (constraints-lowest.txt)
	OMP_NUM_THREADS=1 $(LOWEST)/bin/python $(PYTEST_UNIT)

# Victims are forked from one process, which therefore must not use threads.
torture: $(READY) ## kills, malformed and mutated files, races, a full disk, hostile reports (half an hour or more; as root)
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m torture

lint: $(READY) ## style and formatting (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## types (mypy --strict)
	$(BIN)/mypy

imports: $(READY) ## layers import downwards only (import-linter)
	$(BIN)/lint-imports

unit: $(READY) ## unit tests (pytest)
	OMP_NUM_THREADS=1 $(BIN)/python $(PYTEST_UNIT)

# All tests of a file run in one worker, because importing a framework takes seconds.
frameworks: $(FRAMEWORKS) ## tests with real frameworks (pytest)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile tests/frameworks

package: $(READY) ## build sdist and wheel, check both, install them into empty environments, and run the commands of the README
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal tests/package
	@echo "The packages install and run. Files: dist/"

# The gallery executes examples/ with real frameworks.
docs: $(FRAMEWORKS) ## build the documentation site into build/site; a warning is an error
	OMP_NUM_THREADS=2 $(BIN)/python -m sphinx -W --keep-going -q -b html docs build/site
	@echo "The site is in build/site. To look at it: make docs-serve"

# axe-core checks accessibility. It is used by tests only, and is not part of the site.
AXE := build/npm/node_modules/axe-core/axe.min.js
$(AXE):
	npm install --silent --no-save --prefix build/npm axe-core@4.10.3

docs-test: $(FRAMEWORKS) $(AXE) ## view the built site in Chromium: links, widths, light and dark, accessibility; run the snippets of docs
	OMP_NUM_THREADS=1 ERRATA_BROWSER=required $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal tests/site

docs-serve: docs ## build the site and serve it on this machine
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site 8000

bench: $(READY) ## speed compared with other libraries
	@$(BIN)/python benchmarks

format: $(READY) ## fix style and formatting in place
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

pins: ## resolve every dependency anew (torch keeps its pin) and rewrite constraints.txt
	$(require-python)
	rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(PIP_OPTIONS) "$$(grep '^torch==' constraints.txt)" -e '.[$(EVERYTHING)]'
	{ grep '^#' constraints.txt; \
	  $(BIN)/python -m pip freeze --all --exclude-editable --exclude pip | sed 's/+cpu$$//'; } > constraints.new
	mv constraints.new constraints.txt
	touch $(READY) $(FRAMEWORKS)

clean: ## remove the virtual environments, caches and built packages
	rm -rf $(VENV) $(LOWEST) dist build $(CACHES)
	find . -name __pycache__ -prune -exec rm -rf {} +

define require-python
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
  echo "errata needs Python 3.11 or newer, but $(PYTHON) is older or missing. Choose one with make PYTHON=python3.12 ..." >&2; \
  exit 1; }
endef

# $(call install,ENVIRONMENT,PINS,EXTRAS): install errata with these extras, in editable mode.
define install
@$(1)/bin/python -m pip install $(PIP_OPTIONS) -c $(2) -e '.[$(3)]' || { \
  echo "Set-up failed. To see the messages of pip: $(1)/bin/python -m pip install -c $(2) -e '.[$(3)]'" >&2; exit 1; }
endef

# .ready exists only while the environment is complete. After an interrupted set-up the next one starts from nothing.
$(READY): pyproject.toml constraints.txt
	$(require-python)
	@echo "Setting up $(VENV): minutes the first time, seconds after a change ..."
	@test -f $@ || $(PYTHON) -m venv --clear $(VENV)
	@rm -f $@
	$(call install,$(VENV),constraints.txt,dev)
	@touch $@

$(LOWEST_READY): pyproject.toml constraints-lowest.txt
	$(require-python)
	@echo "Setting up $(LOWEST): minutes the first time, seconds after a change ..."
	@test -f $@ || $(PYTHON) -m venv --clear $(LOWEST)
	@rm -f $@
	$(call install,$(LOWEST),constraints-lowest.txt,test)
	@touch $@

$(FRAMEWORKS): $(READY)
	@echo "Adding the frameworks to $(VENV): minutes the first time ..."
	$(call install,$(VENV),constraints.txt,$(EVERYTHING))
	@touch $@
