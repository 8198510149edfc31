# One command each: demo, test, check, bench. Every target sets up what it needs in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
EXTRAS := speech,report,export,dev
# One process a core, each with one thread: the tests are many and small.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all check format laws claims bench sanitize docs clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(READY): pyproject.toml setup.py $(wildcard src/threefold/kernels/cpp/*)
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; this is " + sys.version.split()[0] + ". Set PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing threefold[$(EXTRAS)] into $(VENV) (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "torch>=2.13,<2.14"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$(EXTRAS)]"
	@touch $@

setup: $(READY)  ## install into .venv

demo: $(READY)  ## train, judge, plan and report on embedded data: runs/demo/index.html
	$(BIN)/threefold demo

test: $(READY)  ## the default tests: under five minutes on two cores
	$(PYTEST)

test-all: $(READY)  ## every test, the slow ones too
	@$(BIN)/python -c 'import ray' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[cluster]"
	$(PYTEST) -m 'slow or not slow'

check: $(READY)  ## lint, format, types, budgets
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_architecture.py tests/test_budgets.py

format: $(READY)  ## let ruff arrange the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

laws: $(READY)  ## every law over every mixer of the catalog
	$(BIN)/threefold laws --all

claims: $(READY)  ## every deterministic claim of the source documents
	$(BIN)/threefold claims

bench: $(READY)  ## time the mixers beside their peers (wants a quiet machine)
	-$(BIN)/threefold bench --into benchmarks/results
	$(BIN)/python benchmarks/bench_lengths.py
	$(BIN)/python benchmarks/bench_forms.py
	$(BIN)/python benchmarks/bench_peers.py
	$(BIN)/python benchmarks/plot.py

sanitize: $(READY)  ## the native kernels under AddressSanitizer and UBSan
	SANITIZE=1 $(BIN)/python -m pytest -m slow tests/kernels/test_sanitized.py

docs: $(READY)  ## fill the generated parts of README and docs
	$(BIN)/python docs/generate.py

clean:  ## remove the environment and what was built
	rm -rf $(VENV) build dist src/*.egg-info
