# Needs make and Python 3.10 to 3.13; everything else goes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install
DEMO := build/demo

.PHONY: help demo test lint rules bench clean
.DEFAULT_GOAL := help

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-7s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed ## optimize a discriminator that PyTorch exported, and make the page that shows what became of it
	@rm -rf $(DEMO) && mkdir -p $(DEMO)
	$(BIN)/onnx-fuser optimize models/torch_discriminator.onnx -o $(DEMO)/fused.onnx --report $(DEMO)/report.json
	$(BIN)/onnx-fuser inspect $(DEMO)/report.json --format html -o $(DEMO)/report.html
	@echo Open $(DEMO)/report.html in a browser

test: $(VENV)/.dev ## the tests, with branch coverage
	$(BIN)/python -m pytest --cov --cov-report=term:skip-covered $(ARGS)

lint: $(VENV)/.dev ## style, formatting and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict

rules: $(VENV)/.installed ## prove every rule in patterns/ by running it
	$(BIN)/onnx-fuser patterns check patterns/*.onnxtxt

bench: $(VENV)/.installed ## CPU time and memory against onnxruntime's optimizer; exit status 1 if a target is missed
	$(BIN)/python benchmarks/optimize.py --check $(ARGS)

clean: ## remove everything that was made here
	rm -rf $(VENV) build dist .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 14))' \
	|| { echo '$(PYTHON) is not Python 3.10 to 3.13: make PYTHON=/path/to/python3' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[html]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.installed
