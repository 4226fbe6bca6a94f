# SPDX-License-Identifier: MIT
# The two commands: `make demo` and `make test`. Everything they need they set up.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup build release smpi test test-dev test-slow test-sanitizers test-smpi demo bench evidence evidence-quick format lint clean

# Where ccache is installed, presets and checkouts share what they compiled.
ifneq ($(shell command -v ccache),)
export CMAKE_CXX_COMPILER_LAUNCHER := ccache
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
endif

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## install what is missing (Debian packages, .venv); quick when nothing is
	@scripts/setup

define build_preset
	@cmake --preset $(1) > build/configure-$(1).log 2>&1 || { cat build/configure-$(1).log; exit 1; }
	@cmake --build --preset $(1)
endef

build: setup  ## build the library, tools and tests into build/dev
	@mkdir -p build
	$(call build_preset,dev)

test: test-dev test-smpi test-sanitizers  ## all tests but the slow ones, then the sanitizer runs

test-dev: build
	ctest --preset dev -j 2 -LE slow

test-slow: build  ## training on real data, installing with pip: minutes each
	ctest --preset dev -L slow

test-sanitizers: setup  ## unit and multirank tests under ASan + UBSan, then TSan
	@mkdir -p build
	$(call build_preset,asan)
	ctest --preset asan -j 2
	$(call build_preset,tsan)
	ctest --preset tsan -j 2

test-smpi: smpi  ## in simulated time: does every schedule take what price() says
	ctest --preset smpi

release smpi: setup
	@mkdir -p build
	$(call build_preset,$@)

demo: release  ## train a CNN on 4 emulated hosts while the network changes: plain DDP, then Pliant
	@PYTHONPATH=build/release/python .venv/bin/python -m pliant demo --out build/demo

# A benchmark is bench/NAME.py: it prints its table and writes build/bench/NAME.json.
BENCHMARKS := $(patsubst bench/%.py,bench-%,$(filter-out bench/figures.py bench/pace.py bench/pliant_bench.py bench/training.py,$(wildcard bench/*.py)))

bench: $(BENCHMARKS)  ## run every benchmark; `make bench-NAME` runs one

bench-%: release smpi
	@.venv/bin/python bench/$*.py

HOURS ?= 8
evidence: release  ## time to accuracy against what people use: HOURS=8 at most, goes on where it stopped; writes docs/results.md
	@PYTHONPATH=bench:build/release/python:python .venv/bin/python -m evidence --hours $(HOURS)

evidence-quick: release  ## its short form, under ten minutes
	@PYTHONPATH=bench:build/release/python:python .venv/bin/python -m evidence --quick

format:  ## clang-format everything in place
	@git ls-files '*.h' '*.cc' | xargs clang-format -i

lint: build  ## clang-format as a check, clang-tidy, layers
	@git ls-files '*.h' '*.cc' | xargs clang-format --dry-run --Werror
	@git ls-files 'pliant/*.cc' 'tools/*.cc' | xargs -P 2 -n 4 clang-tidy -p build/dev --quiet
	@scripts/check_layers

clean:  ## remove what was built (not .venv)
	rm -rf build
