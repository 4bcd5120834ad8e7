# `make demo` and `make test` each work alone on a machine with Python >= 3.11 and make: they build their own environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: demo test test-all lint bench clean

demo: $(VENV)/.demo
	$(BIN)/gtransform demo --overwrite

test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-all: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

# pip 25.1 is the first that installs dependency groups (PEP 735).
$(VENV)/.pip:
	@echo "creating the virtual environment in $(VENV) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python >= 3.11 is needed: make PYTHON=/path/to/python3")'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --upgrade "pip>=25.1"
	@touch $@

$(VENV)/.demo: $(VENV)/.pip pyproject.toml
	@echo "installing the package ..."
	@$(PIP) install --editable ".[plot]"
	@touch $@

$(VENV)/.test: $(VENV)/.pip pyproject.toml
	@echo "installing the package and its test tools ..."
	@$(PIP) install --editable ".[plot,parquet]" --group test
	@touch $@

$(VENV)/.lint: $(VENV)/.pip pyproject.toml
	@$(PIP) install --editable ".[plot,parquet]" --group lint
	@touch $@

$(VENV)/.bench: $(VENV)/.pip pyproject.toml
	@$(PIP) install --editable ".[plot,parquet]" --group bench
	@touch $@

clean:
	rm -rf $(VENV) .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
