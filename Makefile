# `make reproduce` runs the paper's notebooks, `make test` checks everything. Both set up what they need first.
# PYTHON=python3.12 chooses the interpreter of the environments, PROFILE=smoke small sizes for a quick look.
PROFILE ?= paper
NOTEBOOKS = $(basename $(notdir $(wildcard notebooks/*.ipynb)))
BIN = .venv/bin

.PHONY: reproduce store test environment environments

# Every notebook runs, whatever the one before it said; the exit code is 0 only if all ran and every claim holds.
reproduce: environment
	@status=0; \
	for name in $(NOTEBOOKS); do $(BIN)/rndlib run $$name --profile $(PROFILE) || status=1; done; \
	$(BIN)/rndlib report || status=1; \
	$(BIN)/rndlib verify || status=1; \
	exit $$status

# The outputs of the last `make reproduce` become those stored in notebooks/.
store: environment
	$(BIN)/python ci/store.py $(NOTEBOOKS)

test: environments
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/pytest
	$(BIN)/pytest --nbval --nbval-current-env notebooks
	.venv-newest/bin/pytest -m "not tools and not neural_tangents"

environment:
	@ci/bootstrap .venv

environments:
	@ci/bootstrap .venv .venv-newest
