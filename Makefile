# The front door. `demo` and `test` install what is missing, configure, build and run.
.DEFAULT_GOAL := help
.PHONY: help build demo test bench format lint check-format check-layering asan tsan cuda interop clean
SHELL := /bin/bash

CORES := $(shell nproc)
# Sources under version control or about to be, in the languages clang-format knows.
SOURCES = $(shell git ls-files --cached --others --exclude-standard '*.h' '*.cpp' '*.cu' '*.cuh')

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build the program: build/sigma1
	@scripts/install_dependencies build
	@scripts/build release

demo: build ## Show what sigma1 does: number formats, the paper's Figure 2, a layer unit-scaled
	@build/sigma1 formats
	@echo
	@build/sigma1 snr --sigma 2^-16:2^16 --svg build/figure2.svg
	@echo
	@echo "Signal-to-noise ratio against scale; the paper's Figure 2 is drawn in build/figure2.svg"
	@echo
	@echo "Standard deviation of every tensor of a Transformer's feed-forward layer, plain and unit-scaled:"
	@build/examples/example_01

test: build ## Build and run all tests
	@ctest --preset release --parallel $(CORES)

bench: build ## Measure the kernels against the machine's copy bandwidth
	@build/bench/bench_convert --benchmark_counters_tabular=true

asan: ## Run the tests under the address and undefined-behaviour sanitizers
	@scripts/install_dependencies build
	@scripts/build asan
	@ctest --preset asan --parallel $(CORES)

tsan: ## Run the tests under the thread sanitizer
	@scripts/install_dependencies build
	@scripts/build tsan
	@ctest --preset tsan --parallel $(CORES)

cuda: ## Build the tests that need a GPU (nvcc required) and run them; without a device they skip
	@scripts/install_dependencies build
	@scripts/build cuda test_gpu
	@ctest --preset cuda --label-regex gpu

format: ## Format all sources
	@scripts/install_dependencies lint
	@clang-format -i $(SOURCES)

check-format: ## Fail if a source is not formatted
	@scripts/install_dependencies lint
	@clang-format --dry-run -Werror $(SOURCES)

check-layering: ## Fail if a folder includes one that stands below it
	@scripts/check_layering

lint: check-format check-layering ## Format, layering and clang-tidy
	@scripts/install_dependencies build
	@scripts/lint $(filter-out %kernels.cpp,$(filter %.cpp,$(SOURCES)))

interop: build ## Let others' tools judge our numbers and files (needs PyPI)
	@scripts/interop

clean: ## Remove everything built
	@rm -rf build build-*
