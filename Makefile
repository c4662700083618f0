# Everything a developer does with the project. `make test` and `make demo` set up all they need.
#
#   PIP_ARGS   further arguments of pip, for instance an index with CPU builds of torch
#   PYTEST_ARGS  further arguments of pytest, for instance "tests/codec -x"
#   FUZZ_ARGS  further arguments of the fuzzer, for instance "--target ans4d --seed 5"

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
PIP_ARGS ?=
PYTEST_ARGS ?=
FUZZ_ARGS ?=
N ?= 2000
DISPLAYED := scripts/with-display.sh

SYSTEM := $(VENV)/.stamp-system
INSTALLED := $(VENV)/.stamp-installed

.PHONY: help setup demo test test-full lint types docs bench bench-quick fuzz screenshots build clean

help:  ## Show this list.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## */\t/' | expand -t 14

$(BIN)/python:
	PYTHON=$(PYTHON) scripts/system-packages.sh
	$(PYTHON) -m venv $(VENV)

$(SYSTEM): scripts/system-packages.sh | $(BIN)/python
	PYTHON=$(BIN)/python scripts/system-packages.sh
	@touch $@

# pip reads dependency groups since 25.1.
$(INSTALLED): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install -qq --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install -qq $(PIP_ARGS) -c constraints.txt -e . --group dev
	@touch $@

setup: $(SYSTEM) $(INSTALLED)  ## Make .venv and install the project and its tools in it.

demo: setup  ## Open the sample acquisition in napari; without a screen, write demo.png.
	@if [ -n "$$DISPLAY$$WAYLAND_DISPLAY" ]; then $(BIN)/python scripts/demo.py; \
	else $(DISPLAYED) $(BIN)/python scripts/demo.py --screenshot demo.png; fi

test: setup  ## Run the tests (under 15 minutes).
	$(DISPLAYED) $(BIN)/python -m pytest -m "not full" $(PYTEST_ARGS)

test-full: setup  ## Run the tests, the large ones too.
	$(DISPLAYED) $(BIN)/python -m pytest $(PYTEST_ARGS)

fuzz: setup  ## Damage files N times a parser and look for crashes and wrong counts.
	$(BIN)/python -m tests.fuzz --n $(N) $(FUZZ_ARGS)

lint: setup  ## Check style and the order of the layers.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: setup  ## Check types.
	$(BIN)/mypy

docs: setup  ## Build the documentation into site/.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: setup  ## Measure speed and size against plain references.
	$(BIN)/python -m benchmarks

bench-quick: setup  ## The same on small data.
	$(BIN)/python -m benchmarks --quick

screenshots: setup  ## Draw the pictures of the documentation anew.
	$(DISPLAYED) $(BIN)/python scripts/demo.py --size 1280x800 --screenshot docs/images/demo.png
	$(DISPLAYED) $(BIN)/python scripts/screenshots.py
	QT_SCALE_FACTOR=2 xvfb-run -a -s "-screen 0 2600x1640x24" \
		$(BIN)/python scripts/demo.py --size 1280x800 --screenshot docs/images/demo@2x.png

build: setup  ## Build wheel and sdist into dist/ and check them.
	rm -rf dist
	@$(BIN)/python -m build --no-isolation --outdir dist . > $(VENV)/build.log 2>&1 \
		|| { cat $(VENV)/build.log; exit 1; }
	@tail -n 1 $(VENV)/build.log
	$(BIN)/npe2 validate src/napari_4dstem/napari.yaml

clean:  ## Remove what the build and the tools left behind.
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache demo.png
