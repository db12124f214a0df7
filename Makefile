# Two commands do everything: `make demo` and `make test`. Both install what they need into this folder.
PYTHON ?= python3
SPARK  ?= 3.5 4.1
ONLY   ?=
# How many runs of tests go on at once: one a Spark line, as each of them keeps about one core busy.
JOBS   ?= 2

export UV_PYTHON := $(PYTHON)
export UV_PYTHON_DOWNLOADS := never
export UV_COMPILE_BYTECODE := 1
# Hundreds of short processes: each would compile our own modules anew where the environment forbids to keep them.
export PYTHONDONTWRITEBYTECODE :=
export SPARK_LOCAL_IP := 127.0.0.1

# A run whose output goes through a pipe must still fail when it fails.
SHELL       := bash
.SHELLFLAGS := -o pipefail -c

UV      := .tools/bin/uv
FIRST   := $(firstword $(SPARK))
LAST    := $(lastword $(SPARK))
extra    = spark$(subst .,,$(1))
bin      = .venv-$(1)/bin

.PHONY: help demo test test-full ready plain lint types docs bench wheel clean
.DEFAULT_GOAL := help

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

demo: .venv-3.5/.synced  ## Run the demo on Spark 3.5 (OPEN=1 opens its report in a browser)
	$(call bin,3.5)/lakeshift demo $(if $(OPEN),--open)

test: ready  ## Lint, types, docs and the default tests on both Spark lines (SPARK=3.5 for one)
	@$(TOGETHER) $(PARTS)

test-full: ready  ## The long forms of everything
	@LAKESHIFT_FULL=1 $(TOGETHER) $(PARTS)

TOGETHER = $(MAKE) --no-print-directory -j$(JOBS)
# The longest first, so that the cores stay busy to the end. One process holds one Spark context, and the cluster's
# tests have their own: hence two runs a line. What needs no Spark runs once, not a line (see tests/conftest.py).
PARTS    = $(SPARK:%=test-%) plain $(SPARK:%=cluster-%) $(SPARK:%=types-%) docs
SIZE     = $(if $(LAKESHIFT_FULL),, and not full)
REPEATED = $(if $(filter $(FIRST),$(1)),, and not once)$(if $(LAKESHIFT_FULL),,$(SPREAD))
SPREAD   = $(if $(filter $(FIRST),$(1)),, and not once_first)$(if $(filter $(LAST),$(1)),, and not once_last)
PYTEST   = $(call bin,$(1))/python -u -m pytest $(if $(MAKE_TERMOUT),--color=yes)
# Every line of output says which run it is of. What writes it outlives an interrupt, to tell how the tests took it.
said_by  = 2>&1 | (trap '' INT; sed -u 's/^/[$(1)] /')

ready: $(SPARK:%=.venv-%/.synced) lint

# Tests that start JVMs of their own, again and again, run on the last line: there the archive saves more than it costs.
archived = $(if $(filter $(LAST),$(1)),$(MAKE) --no-print-directory .venv-$(1)/classes.jsa,true)

test-%: .venv-%/.synced
	@$(call archived,$*)
	$(call PYTEST,$*) -m "not plain$(SIZE)$(call REPEATED,$*)" --ignore tests/cluster $(call said_by,$*)

cluster-%: .venv-%/.synced
	$(call PYTEST,$*) -m "not plain$(SIZE)$(call REPEATED,$*)" tests/cluster $(call said_by,$* cluster)

plain: .venv-$(FIRST)/.synced
	$(call PYTEST,$(FIRST)) -m "plain$(SIZE)" --ignore tests/cluster $(call said_by,plain)

lint: .venv-$(FIRST)/.synced
	$(call bin,$(FIRST))/ruff check .
	$(call bin,$(FIRST))/ruff format --check .

types: $(SPARK:%=types-%)

types-%: .venv-%/.synced
	$(call bin,$*)/mypy --cache-dir .mypy_cache/$* $(call said_by,types $*)

# Not --quiet: that would hide the warnings from --strict too, and nothing would ever fail.
docs: .venv-$(FIRST)/.synced  ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(call bin,$(FIRST))/mkdocs build --strict 2>&1 | sed -u '/^INFO/d' $(call said_by,docs)

bench: .venv-3.5/.synced  ## Measure beside the peers (ONLY=write for one)
	$(call bin,3.5)/python -m benchmarks $(ONLY)

wheel: .venv-3.5/.synced  ## Build the wheel into dist/, with the Hudi connector's jar where Java is
	$(call bin,3.5)/python -m lakeshift.hudi.connector build/wheel
	$(UV) build --quiet --wheel

clean:  ## Remove what the other commands installed and built
	rm -rf .tools .venv-* site build dist .mypy_cache .ruff_cache .pytest_cache

.tools/bin/uv:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "lakeshift needs Python 3.11 or newer; set PYTHON=...")'
	$(PYTHON) -m venv .tools
	.tools/bin/python -m pip install --quiet uv

.venv-%/.synced: uv.lock pyproject.toml | .tools/bin/uv
	UV_PROJECT_ENVIRONMENT=.venv-$* $(UV) sync --frozen --quiet --group dev --extra $(call extra,$*)
	touch $@

# What every JVM of the tests would load anew.
.venv-%/classes.jsa: .venv-%/.synced tests/class_archive.py
	$(call bin,$*)/python -m tests.class_archive 2>$@.log || (cat $@.log; false)
