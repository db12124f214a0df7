# Two commands do everything: `make demo` and `make test`. Both install what they need into this folder.
PYTHON ?= python3
SPARK  ?= 3.5 4.1
ONLY   ?=

export UV_PYTHON := $(PYTHON)
export UV_PYTHON_DOWNLOADS := never
export UV_COMPILE_BYTECODE := 1
export SPARK_LOCAL_IP := 127.0.0.1

UV      := .tools/bin/uv
FIRST   := $(firstword $(SPARK))
extra    = spark$(subst .,,$(1))
bin      = .venv-$(1)/bin

.PHONY: help demo test test-full lint types docs bench clean
.DEFAULT_GOAL := help

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

demo: .venv-3.5/.synced  ## Run the demo on Spark 3.5
	$(call bin,3.5)/lakeshift demo

test: lint types $(SPARK:%=test-%) docs  ## Lint, types, docs and the default tests on both Spark lines (SPARK=3.5 for one)

test-full: lint types $(SPARK:%=test-full-%) docs  ## The long forms of everything

# One process holds one Spark context, and the cluster's tests have their own: hence two runs.
test-%: .venv-%/.synced
	$(call bin,$*)/python -m pytest -m "not full" --ignore tests/cluster
	$(call bin,$*)/python -m pytest -m "not full" tests/cluster

test-full-%: .venv-%/.synced
	LAKESHIFT_FULL=1 $(call bin,$*)/python -m pytest --ignore tests/cluster
	LAKESHIFT_FULL=1 $(call bin,$*)/python -m pytest tests/cluster

lint: .venv-$(FIRST)/.synced
	$(call bin,$(FIRST))/ruff check .
	$(call bin,$(FIRST))/ruff format --check .

types: $(SPARK:%=.venv-%/.synced)
	$(foreach line,$(SPARK),$(call bin,$(line))/mypy --cache-dir .mypy_cache/$(line) &&) true

docs: .venv-$(FIRST)/.synced  ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(call bin,$(FIRST))/mkdocs build --strict --quiet

bench: .venv-3.5/.synced  ## Measure beside the peers (ONLY=write for one)
	$(call bin,3.5)/python -m benchmarks $(ONLY)

clean:  ## Remove what the other commands installed and built
	rm -rf .tools .venv-* site build dist .mypy_cache .ruff_cache .pytest_cache

.tools/bin/uv:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "lakeshift needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv .tools
	.tools/bin/python -m pip install --quiet uv

.venv-%/.synced: uv.lock pyproject.toml | .tools/bin/uv
	UV_PROJECT_ENVIRONMENT=.venv-$* $(UV) sync --frozen --quiet --group dev --extra $(call extra,$*)
	touch $@
