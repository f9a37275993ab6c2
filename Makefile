# The front door. `demo` and `test` install what is missing, configure, build and run.
.DEFAULT_GOAL := help
.PHONY: help build demo test bench format lint check-format check-layering asan tsan cuda test-cuda check-cuda interop clean
SHELL := /bin/bash

CORES := $(shell nproc)
# Sources under version control or about to be, in the languages clang-format knows.
SOURCES = $(shell git ls-files --cached --others --exclude-standard '*.h' '*.cpp' '*.cu' '*.cuh')

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build the program: build/sigma1
	@scripts/install_dependencies build
	@scripts/build release

demo: build ## Train one small model in FP32, FP16 and FP8, regular and unit-scaled (TEXT=file for your own text)
	@scripts/demo

test: build ## Build and run all tests
	@ctest --preset release --parallel $(CORES)

bench: build ## Measure a training step against its matrix products, and the casts against a copy
	@build/sigma1 bench cpu
	@build/bench/bench_convert --benchmark_counters_tabular=true

asan: ## Run the tests under the address and undefined-behaviour sanitizers
	@scripts/install_dependencies build
	@scripts/build asan
	@ctest --preset asan --parallel $(CORES)

tsan: ## Run the tests under the thread sanitizer
	@scripts/install_dependencies build
	@scripts/build tsan
	@ctest --preset tsan --parallel $(CORES)

cuda: ## Build the program for NVIDIA GPUs (nvcc required): build-cuda/sigma1
	@scripts/install_dependencies build
	@scripts/build cuda sigma1_program

test-cuda: cuda ## Build and run the tests that need a GPU; without a device they skip
	@scripts/build cuda test_gpu
	@ctest --preset cuda --label-regex gpu

check-cuda: ## On a machine with a GPU: its tests, compute-sanitizer, and training steps beside PyTorch's
	@scripts/check_cuda

format: ## Format all sources
	@scripts/install_dependencies lint
	@clang-format -i $(SOURCES)

check-format: ## Fail if a source is not formatted
	@scripts/install_dependencies lint
	@clang-format --dry-run -Werror $(SOURCES)

check-layering: ## Fail if a folder includes one that stands below it
	@scripts/check_layering

# What clang-tidy 14 cannot read: vectors of g++, a header that is not installed, _Float16, and what
# is built with CUDA alone.
UNREADABLE = %kernels.cpp %gemm_openblas.cpp %/convert_test.cpp tests/gpu/%
lint: check-format check-layering ## Format, layering and clang-tidy
	@scripts/install_dependencies build
	@scripts/lint $(filter-out $(UNREADABLE),$(filter %.cpp,$(SOURCES)))

interop: build ## Let others' tools judge our numbers and files (needs PyPI)
	@scripts/interop

clean: ## Remove everything built
	@rm -rf build build-*
