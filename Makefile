# Each target makes or refreshes .venv by itself; PYTHON chooses the interpreter.
PYTHON ?= python3
PORT ?= 8000
BIN := .venv/bin

export OMP_WAIT_POLICY := passive
export NO_MKDOCS_2_WARNING := 1

.PHONY: site build test check redraw mutants test-slow test-peers bench clean

site: .venv/made
	@echo "Inside a Transformer: http://127.0.0.1:$(PORT)/"
	$(BIN)/mkdocs serve --dev-addr 127.0.0.1:$(PORT)

build: .venv/made
	$(BIN)/mkdocs build --strict

test: .venv/made
	$(BIN)/pytest -n 2 --no-loadscope-reorder

check: .venv/made
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --no-loadscope-reorder

redraw: .venv/made
	PYTHONPATH=tests $(BIN)/python -m checker

# Break the package in one place at a time, and see that tests and pages notice.
mutants: .venv/made
	$(BIN)/python tests/mutants.py

# Train the small models again, from other seeds.
test-slow: .venv/made
	$(BIN)/pytest tests/slow

# The same numbers as other libraries, which have an environment of their own.
test-peers: .venv-peers/made
	.venv-peers/bin/pytest --noconftest -c /dev/null --rootdir . tests/peers/*.py

# Side by side with them, timed.
bench: .venv-peers/made
	.venv-peers/bin/python benchmarks/composition.py
	.venv-peers/bin/python benchmarks/forward.py

clean:
	rm -rf .venv .venv-peers .cache site

.venv/made: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[site,test,dev]'
	@touch $@

.venv-peers/made: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/pip install --quiet --disable-pip-version-check \
		"$$(grep '^torch==' constraints.txt)" pytest -e '.[peers]'
	@touch $@
