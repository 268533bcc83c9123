PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Without bytecode of files that are never imported: Python compiles the others when it imports them.
PIP := $(BIN)/python -m pip install --quiet --no-compile
# Each process would compile torch and transformers again, which takes longer than many a test.
unexport PYTHONDONTWRITEBYTECODE
export HF_HUB_OFFLINE ?= 1
export OMP_WAIT_POLICY ?= PASSIVE
export GOMP_SPINCOUNT ?= 0
export TOKENIZERS_PARALLELISM ?= false

SCALE ?= full
MINUTES ?= 8

.PHONY: quickstart test pytest test-slow docs evidence lint types bench gpu gpu-wheels clean

quickstart: $(VENV)/.installed
	$(BIN)/gradgate quickstart --out studies/quickstart

# Types are checked in one process while the tests are collected.
test: lint
	$(MAKE) --no-print-directory --jobs=2 types pytest

pytest: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -m slow --timeout=1800

docs: $(VENV)/.installed-docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python docs/extensions/gradgate_site/check_links.py docs/_build/html
	$(BIN)/python -m pytest -m slow --timeout=1800 tests/docs
	@echo "The documentation is in docs/_build/html/index.html."

evidence: $(VENV)/.installed-dev
	$(BIN)/python -m evidence run --scale $(SCALE)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy

bench: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks

# Without .venv: a lent machine has a torch of its own, and may have no network.
gpu:
	PYTHONPATH="src:$$PYTHONPATH" $(PYTHON) -m benchmarks gpu --minutes $(MINUTES) $(if $(OUT),--out $(OUT))

gpu-wheels: $(VENV)/.installed-dev
	$(BIN)/python -m benchmarks gpu-wheels $(if $(OUT),--to $(OUT)) $(if $(PRESENT),--present $(PRESENT))

clean:
	rm -rf $(VENV)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --constraint constraints.txt torch
	$(PIP) --constraint constraints.txt --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) --constraint constraints.txt --editable ".[dev]"
	# Its other dependencies bring torchvision; traces of Fisher matrices need none of them.
	$(PIP) --no-deps "curvlinops-for-pytorch>=3,<4" einconv einops
	touch $@

$(VENV)/.installed-docs: $(VENV)/.installed-dev
	$(PIP) --constraint constraints.txt --editable ".[docs]"
	touch $@
