# make demo    install into .venv and run the main job
# make check   lint, check types, run the tests of ops, functions, graph and planner but the slow ones, side by side:
#              two to four minutes on two cores, and a few more for the test tools on the first run
# make test    install with the test tools, lint, check types, run all tests but the slow ones:
#              about 8 minutes on two cores that are free
# make test-all  run all tests, those of the ops three times: about 25 minutes on two cores
# make bench   install with PyTorch, run the benchmarks beside it and write the report to build/report
# make docs    build the documentation as a site in site/
# make wheel   build a wheel in dist/ from the tree, without what an earlier build left
# make clean   remove what the other targets made
#
# PYTHON       the interpreter that makes .venv (3.11 or newer)
# PYTEST_ARGS  arguments of pytest in make test, in place of those for a process per core, as in:
#              make test PYTEST_ARGS="-x -k softmax"

PYTHON ?= python3
PYTEST_ARGS ?= -n auto --dist worksteal
VENV := .venv
BIN := $(VENV)/bin
# All that compute with ops, but for the tests that are marked as independent of who computes.
AGAIN := -m "not once" tests/ops tests/functions
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

# Many tests start Python anew, which then reads the bytecode of the package.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv demo check types reference compiled test test-all fast suite oracle bench docs wheel clean

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' $(firstword $(MAKEFILE_LIST))

venv: $(VENV)/.made

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "npu_tensor needs Python 3.11 or newer")'
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

# One stamp per set of extras, so that nothing is installed twice until pyproject.toml changes.
$(VENV)/.installed: pyproject.toml $(VENV)/.made
	$(PIP) --editable .
	@touch $@

$(VENV)/.installed-%: pyproject.toml $(VENV)/.made | $(VENV)/.installed
	@echo 'installing the packages of the extra $*, which can take minutes'
	$(PIP) --editable '.[$*]'
	@touch $@

demo: $(VENV)/.installed
	$(BIN)/npu-tensor demo

check: $(VENV)/.installed-test
	@echo 'two to four minutes on two cores'
	$(BIN)/ruff check
	$(BIN)/ruff format --check --quiet
	@$(MAKE) --no-print-directory --jobs --keep-going types reference compiled

types: $(VENV)/.installed-test
	$(BIN)/mypy

# The ops with the NumPy reference, and those that need a compiled kernel per op; each in one process, so that the tests
# are collected once.
reference: $(VENV)/.installed-test
	NPU_TENSOR_CPU_FEATURES=numpy $(BIN)/python -m pytest -q -m "not slow" tests/ops tests/functions

compiled: $(VENV)/.installed-test
	$(BIN)/python -m pytest -q -m "not slow" -k "not derived or edge or row_shapes or any_" \
		tests/graph tests/ops/test_derived.py tests/planner

test: $(VENV)/.installed-test
	@echo 'all tests but the slow ones: about 8 minutes on two free cores; make check runs a part in two to four'
	$(BIN)/ruff check
	$(BIN)/ruff format --check --quiet
	@$(MAKE) --no-print-directory --jobs types fast

test-all: $(VENV)/.installed-test
	@echo 'all tests, those of the ops three times: about 25 minutes on two cores'
	$(BIN)/ruff check
	$(BIN)/ruff format --check --quiet
	@# Type errors are printed once more after the tests.
	@$(MAKE) --no-print-directory --jobs types suite || { status=$$?; $(BIN)/mypy; exit $$status; }

fast: oracle
	$(BIN)/python -m pytest -m "not slow" $(PYTEST_ARGS)

suite: oracle
	$(BIN)/python -m pytest $(PYTEST_ARGS)
	@echo 'the ops again: NumPy reference only, then the oldest instruction set'
	NPU_TENSOR_CPU_FEATURES=numpy $(BIN)/python -m pytest -q $(PYTEST_ARGS) $(AGAIN)
	@# Another instruction set needs other code; its optimisation by LLVM is tested above, and in tests/runtime/cpu.
	NPU_TENSOR_CPU_FEATURES=sse2 $(BIN)/python -m pytest -q -o usefixtures=less_optimised $(PYTEST_ARGS) $(AGAIN)

oracle: $(VENV)/.installed-test
	@$(BIN)/python -c 'import torch' 2>/dev/null || \
		echo 'PyTorch cannot be imported in $(VENV): the tests that use it as the oracle will be skipped'

bench: $(VENV)/.installed-bench $(VENV)/.installed-peers
	mkdir -p build
	$(BIN)/npu-tensor bench --quick --json build/bench.json --report build/report

docs: $(VENV)/.installed-docs
	$(BIN)/python -m mkdocs build --strict

# setuptools packs all of build/lib, with files that have been deleted from the tree since they were copied there.
wheel: $(VENV)/.made
	rm -rf build/lib build/bdist.*
	$(BIN)/python -m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) build dist site *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find npu_tensor kernels examples tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
