# SPDX-License-Identifier: BSL-1.0
# The goals for users and developers. Each does its own set-up, and is fast when there is nothing to do.
.DEFAULT_GOAL := help
.PHONY: help bench real soak fuzz test lint format single-header package docs clean

# Toolchains and sanitizers that `make test` runs: names of CMakePresets.json; empty for all of them. A name may be
# followed by kinds of tests, as in gcc:unit,behaviour; test/CMakeLists.txt lists them.
PRESETS ?=
# More arguments for the program behind a goal: the benchmark driver, e.g. ARGS="--samples 9", or lint's ARGS=--link.
ARGS ?=

bench: ## Measure pooled against every malloc and pool on this machine: 10 minutes and the first build (it says how long both take), and draw the report
	@tools/setup bench
	@.venv/bin/poolbench run --profile quick --report $(ARGS)

real: ## Measure programs that others wrote, as they are and with a few lines edited, on every malloc (the first build takes 5 to 10 minutes)
	@tools/setup real
	@.venv/bin/poolbench real $(ARGS)

soak: ## Ten minutes of mixed use on eight threads: resident memory for what is alive; then a thousand million frees by other threads, as many correct operations in the checked build, and forks beside 1,000 pools
	@tools/setup bench
	@cmake -S . -B build/soak -G Ninja -DCMAKE_BUILD_TYPE=Release -DPOOLED_BUILD_BENCH=ON -DPOOLED_BUILD_TESTS=OFF \
		-DPOOLED_BUILD_EXAMPLES=OFF >build/soak.log && cmake --build build/soak --target pooled-soak pooled-soak-frees pooled-soak-correct pooled-soak-forks >>build/soak.log || \
		{ cat build/soak.log >&2; exit 1; }
	@build/soak/bench/pooled-soak --seconds $(or $(SECONDS),600)
	@build/soak/bench/pooled-soak-frees --frees $(or $(FREES),1000000000)
	@build/soak/bench/pooled-soak-correct --operations $(or $(OPERATIONS),1000000000)
	@build/soak/bench/pooled-soak-forks

test: ## Build and run all tests: three toolchains, ASan+UBSan of both compilers, TSan, checked, consumers, benchmarks at tiny scale
	@tools/setup test $(PRESETS)
	@.venv/bin/python tools/run_tests.py $(PRESETS)

fuzz: ## Random programs against a model, for SECONDS=300 of processor time each: libFuzzer and random inputs under ASan, threads under TSan
	@tools/setup test asan:fuzz tsan:fuzz
	@tools/fuzz $(or $(SECONDS),300)

lint: ## Check layers, formatting, clang-tidy, other systems and the Python code; ARGS=--link links for these systems, too
	@tools/setup lint
	@.venv/bin/python tools/run_lint.py $(ARGS)

format: ## Rewrite the C++ and Python files in the project's format
	@tools/setup lint
	@.venv/bin/python tools/run_lint.py --fix

single-header: ## Write the library as a single header, build/single_header/pooled.hpp
	@tools/setup single-header
	@.venv/bin/python tools/single_header.py

package: ## Write what a release consists of into build/package: source archive, Meson wrap, single header, wheel of the benchmark
	@tools/setup package
	@.venv/bin/python tools/package.py

docs: ## Build the documentation site, build/site/index.html: offline, searchable, light and dark
	@tools/setup docs
	@.venv/bin/python tools/make_docs.py

clean: ## Remove everything that was built; results under bench/results stay
	rm -rf build .venv

help: ## Show this list
	@echo "pooled: memory pools for objects owned by smart pointers"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24
	@echo
	@echo "  make test PRESETS=\"gcc tsan\"    only those of CMakePresets.json; all when empty"
	@echo "  make test PRESETS=gcc:unit      only one kind of test"
	@echo "  make bench ARGS=\"--help\"        options of the benchmark driver"
