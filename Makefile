# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
#
# The user interface of the repository. Every target sets up what it needs; `make help` lists them.

TOPO   ?= leaf_spine
POLICY ?= dlcp
TARGET ?= softswitch
JOB    ?= live
TEST   ?= tests
BENCH  ?= switch

SHELL  := /bin/bash
PYTHON := .venv/bin/python
# Only what touches network namespaces runs as root.
ROOT   := $(if $(filter 0,$(shell id -u)),,sudo --preserve-env=PATH,CI,GRADLANE_CACHE)
OWN    := $(if $(filter 0,$(shell id -u)),true,sudo chown -R $(shell id -u):$(shell id -g) build .venv)
PYTEST := $(PYTHON) -m pytest
# Files of unit tests run side by side, one more than cores since some wait; fabrics share names and cores and run one by
# one. Neither reads the other's files.
UNIT   := $(TEST) -m "not fabric and not long and not frameworks" --ignore=tests/fabric --ignore=tests/frameworks \
          -n $(shell expr $$(nproc) + 1) --maxprocesses 4 --dist loadfile --no-loadscope-reorder
FABRIC := $(if $(filter tests,$(TEST)),tests/fabric,$(TEST)) -m "fabric and not long"
# What TEST= names may lie in one of the two parts alone; pytest then ends with 5 in the other.
NONE_OF_THESE := [ $$? -eq 5 -a "$(TEST)" != tests ]

.PHONY: help setup run demo stop test test-unit test-long test-frameworks bench p4 lint clean
.DEFAULT_GOAL := help

help: ## list the targets and variables
	@echo "Gradlane: a network fabric that knows what a gradient packet is worth"
	@echo
	@sed -nE 's/^([a-z0-9-]+):[^#]*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24
	@echo
	@echo "  variables: TOPO=$(TOPO) POLICY=$(POLICY) TARGET=$(TARGET) JOB=$(JOB) TEST=$(TEST) BENCH=$(BENCH)"

setup: ## install system packages, the virtual environment and pinned Python packages
	@scripts/setup

run: setup ## start the fabric, install the policy, send training gradients over it, open the Mininet prompt
	@$(PYTHON) -m gradlane.prepare
	@$(ROOT) $(PYTHON) -m gradlane --topology $(TOPO) --policy $(POLICY) --target $(TARGET) --job $(JOB); code=$$?; $(OWN); exit $$code

demo: setup ## train under congestion by baselines and by Gradlane, compare (FULL=1: all of it, PART=heavy/mlp/1: a part of that)
	@mkdir -p build/demo; $(ROOT) $(PYTHON) -m gradlane.demo $(if $(filter 1,$(FULL)),--full) $(if $(PART),--part $(PART)); code=$$?; $(OWN); exit $$code

stop: setup ## end a running fabric and whatever a crashed one left behind
	@$(ROOT) $(PYTHON) -m topologies.stop

test: setup ## run every test (unit, pipeline, fabric), as TEST= says
	@$(PYTEST) $(UNIT) || $(NONE_OF_THESE)
	@mkdir -p build; $(ROOT) $(PYTEST) $(FABRIC); code=$$?; $(OWN); (exit $$code) || $(NONE_OF_THESE)

test-unit: setup ## run the tests that need no root
	@$(PYTEST) $(UNIT)

test-long: setup ## run the long form of the suites (conformance, fuzzing)
	@mkdir -p build; $(ROOT) $(PYTEST) $(TEST) -m long; code=$$?; $(OWN); exit $$code

test-frameworks: ## install PyTorch, TensorFlow and MXNet too, and test gradlane under them
	@scripts/setup frameworks
	@$(PYTEST) tests/frameworks

bench: setup ## measure what BENCH= names (switch, controller, transport, tacos, schedules, abs_sgd) and write build/bench/<name>.json
	@mkdir -p build/bench; $(ROOT) $(PYTHON) -m tests.benchmarks.$(BENCH); code=$$?; $(OWN); exit $$code

p4: setup ## compile the P4 programs where p4c is on PATH, else check that sources and artefacts agree
	@$(PYTHON) -m p4src.build

lint: setup ## check style, types, import directions and C warnings
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m mypy
	@.venv/bin/lint-imports
	@$(PYTHON) scripts/c_warnings.py

clean: ## remove everything that was built or logged; keep the virtual environment
	@$(ROOT) rm -rf build logs pcaps .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
