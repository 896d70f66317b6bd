# Each target makes or refreshes .venv by itself; PYTHON chooses the interpreter.
PYTHON ?= python3
PORT ?= 8000
BIN := .venv/bin

export OMP_WAIT_POLICY := passive
export NO_MKDOCS_2_WARNING := 1

.PHONY: site build test check redraw clean

site: .venv/made
	@echo "Inside a Transformer: http://127.0.0.1:$(PORT)/"
	$(BIN)/mkdocs serve --dev-addr 127.0.0.1:$(PORT)

build: .venv/made
	$(BIN)/mkdocs build --strict

test: .venv/made
	$(BIN)/pytest

check: .venv/made
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/pytest

redraw: .venv/made
	PYTHONPATH=tests $(BIN)/python -m checker

clean:
	rm -rf .venv site

.venv/made: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[site,test,dev]'
	@touch $@
