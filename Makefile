# SPDX-License-Identifier: MIT
# The two commands: `make demo` and `make test`. Everything they need they set up.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup build release smpi test test-all test-rest test-training test-sanitizers test-smpi demo demo-chart bench evidence evidence-quick format lint coverage clean

# Where ccache is installed, presets and checkouts share what they compiled. Looked up for each recipe: `setup` installs it.
export CMAKE_CXX_COMPILER_LAUNCHER = $(shell command -v ccache)
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
export CCACHE_SLOPPINESS := pch_defines,time_macros

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## install what is missing (Debian packages, .venv); quick when nothing is
	@scripts/setup

define configure_preset
	@echo "configuring build/$(1)"
	@mkdir -p build
	@cmake --preset $(1) > build/configure-$(1).log 2>&1 || { cat build/configure-$(1).log; exit 1; }
endef

define build_preset
	$(call configure_preset,$(1))
	@cmake --build --preset $(1) $(2)
endef

build: setup  ## build the library, tools and tests into build/dev
	$(call build_preset,dev)

# Tests say how much of a core they take, as PROCESSORS: 4 is one core, 1 is a test that mostly waits.
JOBS := $(shell expr 4 \* $$(nproc))

test: setup  ## the most telling tests of every part: minutes once it is built
	$(call build_preset,dev,--target quick_tests)
	ctest --preset dev -j $(JOBS) -L quick

test-all: test test-rest test-smpi test-sanitizers  ## all tests but long trainings, in simulated time and under sanitizers too

test-rest: build
	ctest --preset dev -j $(JOBS) -LE 'quick|training'

test-training: build  ## training on real data until it converges, and the evidence in small
	ctest --preset dev -L training

test-sanitizers: setup  ## unit and multirank tests under ASan + UBSan, then TSan
	$(call build_preset,asan)
	ctest --preset asan -j $(JOBS)
	$(call build_preset,tsan)
	ctest --preset tsan -j $(JOBS)

test-smpi: smpi  ## in simulated time: does every schedule take what price() says
	ctest --preset smpi

release smpi: setup
	$(call build_preset,$@)

demo: release  ## train a CNN on 4 emulated hosts while the network changes: plain DDP, then Pliant
	@PYTHONPATH=build/release/python .venv/bin/python -m pliant demo --out build/demo

demo-chart: demo  ## the same, and its chart becomes the one in the documentation
	cp build/demo/chart.svg docs/images/demo.svg

# A benchmark is bench/NAME.py: it prints its table and writes build/bench/NAME.json.
BENCHMARKS := $(patsubst bench/%.py,bench-%,$(filter-out bench/figures.py bench/pace.py bench/pliant_bench.py bench/training.py,$(wildcard bench/*.py)))

bench: $(BENCHMARKS)  ## run every benchmark; `make bench-NAME` runs one

bench-%: release smpi
	@.venv/bin/python bench/$*.py

HOURS ?= 8
ONLY ?= all
evidence: release  ## time to accuracy against what people use: HOURS=8 at most, goes on where it stopped; ONLY=unseen or fitted; writes docs/results.md
	@PYTHONPATH=bench:build/release/python:python .venv/bin/python -m evidence --hours $(HOURS) --only $(ONLY)

evidence-quick: release  ## its short form, under ten minutes
	@PYTHONPATH=bench:build/release/python:python .venv/bin/python -m evidence --quick

RUFF := .venv/bin/ruff
CXX_FILES := git ls-files '*.h' '*.cc'
PYTHON_FILES := git ls-files '*.py' '*.pyi'

format: setup  ## clang-format and ruff format everything in place
	@$(CXX_FILES) | xargs clang-format -i
	@$(PYTHON_FILES) | xargs $(RUFF) format --quiet

# A preset of its own, which is configured only: clang-tidy cannot read the compiler's precompiled headers.
lint: setup  ## formats as checks, layers, clang-tidy on all C++ that changed since it was clean
	@$(CXX_FILES) | xargs clang-format --dry-run --Werror
	@$(PYTHON_FILES) | xargs $(RUFF) format --quiet --check
	@scripts/check_layers
	$(call configure_preset,lint)
	@scripts/tidy build/lint

coverage: setup  ## gcov's line coverage of pliant/ by unit, multirank and MPI tests; fails below 90 %
	$(call build_preset,coverage)
	@find build/coverage -name '*.gcda' -delete
	ctest --preset coverage -j $(JOBS)
	@scripts/coverage build/coverage 90

clean:  ## remove what was built (not .venv)
	rm -rf build
