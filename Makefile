# Everything made here stays in this folder: environments in .venvs, wheels and reports in build, caches in .cache.
# Each step leaves a stamp file and is done again only when what it is made from has changed. Each version of Python has
# environments and wheels of its own.

PYTHON ?= python3
ARGS   ?=
# How much of builds, backends and cases the tests run (tests/matrix.py), and on how many processes.
MATRIX  ?= pairs
WORKERS ?= 2
# A free-threaded interpreter: one that is on the path, or the one that `make freethreaded-python` has built.
FREETHREADED ?= $(or $(shell command -v python3.14t),$(wildcard $(BUILT_PYTHON)/bin/python3.14t))
BUILT_PYTHON := $(CURDIR)/.cache/python3.14t

SHELL         := bash
.SHELLFLAGS   := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS     += --no-print-directory

export PIP_CACHE_DIR                 := $(CURDIR)/.cache/pip
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export HYPOTHESIS_STORAGE_DIRECTORY  := $(CURDIR)/.cache/hypothesis
export PYRIGHT_PYTHON_CACHE_DIR      := $(CURDIR)/.cache/pyright
export npm_config_cache              := $(CURDIR)/.cache/npm
# Without a place to keep it, every process that runs tests would compile 360 files of tests anew.
export PYTHONPYCACHEPREFIX           := $(CURDIR)/.cache/bytecode
# The tests must see the installed package, and each build must see its own switches only.
unexport PYTHONPATH PYTHONDONTWRITEBYTECODE PYTHON_GIL GREENROOM_PURE GREENROOM_REQUIRE_COMPILED

# Like 3.11, or 3.14t where there is no GIL.
PYTHON_TAG := $(or $(shell $(PYTHON) -ISc 'import sys; print("%d.%d" % sys.version_info[:2] + sys.abiflags)'),none)
VENVS      := .venvs/$(PYTHON_TAG)
OUT        := build/$(PYTHON_TAG)

# What a wheel is made from; the folders too, so that a removed file counts. Tests and docs travel in the sdist as well,
# but a change to them rebuilds nothing.
SOURCES := pyproject.toml setup.py MANIFEST.in $(shell find src/greenroom -not -name '__pycache__' -not -name '*.pyc')
CHECKED := $(wildcard src tests benchmarks tools examples setup.py conftest.py)

BUILDS          := compiled pure
# GCC 14 takes these for errors, and would leave its users without a compiled build: so shall older ones, here.
switch-compiled := GREENROOM_REQUIRE_COMPILED=1 \
  CFLAGS="$(CFLAGS) -Werror=incompatible-pointer-types -Werror=int-conversion -Werror=implicit-function-declaration"
switch-pure     := GREENROOM_PURE=1

# The dependency group of pyproject.toml that each environment holds.
group-build := build
group-lint  := lint
group-docs  := docs
group-bench := bench
group-demo  := demo

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-20s %s\n", $$1, $$2 }'

.PHONY: demo
demo: ## Build, then watch 3,000 actors at work (ARGS="--seconds 5", ARGS=--plain)
	@echo "== package for the demo (takes a minute or two, unless it is built already)"
	@$(MAKE) -j2 $(VENVS)/demo/.ready $(OUT)/sdist.stamp
	@build=compiled; \
	$(MAKE) -s $(VENVS)/demo/.holds-compiled 2>/dev/null || { \
	  build=pure; \
	  echo "Not compiled (why: $(OUT)/wheels/compiled.log), so this is plain Python; a C compiler makes it faster."; \
	  $(MAKE) -s $(VENVS)/demo/.holds-pure; \
	}; \
	echo "== demo, $$build build"; \
	$(VENVS)/demo/bin/python -m examples.pipeline $(ARGS)

.PHONY: demo-picture
demo-picture: $(VENVS)/demo/.ready $(VENVS)/demo/.holds-compiled ## Draw the demo's live view anew, for the README
	@$(VENVS)/demo/bin/python -m tools.demo_picture docs/images/demo.svg

.PHONY: test test-all test-rest test-both test-compiled test-pure
test: ## Run the tests in both builds, on backends that are dealt out, then try both wheels in empty environments
	@$(MAKE) -j2 prepared
	@$(MAKE) test-both smoke
test-all: ## Run every test on every backend, in both builds
	@$(MAKE) test MATRIX=all
test-rest: ## Run what `make test` leaves: tests/matrix.py says what that is
	@$(MAKE) -j2 prepared
	@$(MAKE) test-both MATRIX=rest
# Two processes for each build: one alone waits a quarter of its time, for threads and processes that the tests start.
test-both:
	@echo "== tests, both builds side by side"
	@$(MAKE) -j2 SIDE_BY_SIDE=1 test-compiled test-pure
test-compiled: ## Run the tests against the compiled build (ARGS="-k name" for some of them, MATRIX=all on every backend)
test-pure: ## Run the tests against the plain-Python build
test-compiled test-pure: test-%: $(VENVS)/%/.installed
	@echo "== tests, $* build"
	@GREENROOM_EXPECT=$* $(VENVS)/$*/bin/python -m pytest -n $(WORKERS) -m "not slow" --matrix=$(MATRIX) \
	  --basetemp=$(OUT)/tmp-$* -o cache_dir=.cache/pytest-$*-$(PYTHON_TAG) $(ARGS) \
	  $(if $(SIDE_BY_SIDE),2>&1 | sed -u 's/^/$*: /')

.PHONY: test-freethreaded freethreaded-python races
test-freethreaded: ## Run the tests and a short race without a GIL, on python3.14t (FREETHREADED=file if that is elsewhere)
	@[ -n "$(FREETHREADED)" ] || { echo "There is no python3.14t on the path. Say where one is with FREETHREADED=file," \
	  "or build one here with \`make freethreaded-python\`, which takes minutes." >&2; exit 1; }
	@$(FREETHREADED) -c 'import sys; gil = getattr(sys, "_is_gil_enabled", lambda: True)(); sys.exit(gil)' \
	  || { echo "$(FREETHREADED) has a GIL." >&2; exit 1; }
	@echo "== without a GIL, on $(FREETHREADED)"
	@$(MAKE) PYTHON=$(FREETHREADED) test-compiled
	@$(MAKE) PYTHON=$(FREETHREADED) races ARGS="--seconds 20"
freethreaded-python: ## Build a free-threaded CPython 3.14 in .cache, from Debian's source (five minutes or more)
	@$(PYTHON) -m tools.build_python $(BUILT_PYTHON)
races: $(VENVS)/compiled/.installed ## Race every operation from eight threads for a minute (ARGS="--seconds 600", ARGS=--help)
	@echo "== races, compiled build"
	@$(VENVS)/compiled/bin/python -m tools.races $(ARGS)

# What the tests need: wheels and environments. Few of these steps wait for one another, so two can be taken at a time.
.PHONY: prepared
prepared: $(BUILDS:%=$(VENVS)/%/.installed)
	@:

.PHONY: smoke smoke-compiled smoke-pure
smoke: smoke-compiled smoke-pure ## Install the wheels into empty environments and play ping-pong there
smoke-compiled smoke-pure: smoke-%: $(OUT)/wheels/%.stamp
	@echo "== smoke, $* wheel in an empty environment"
	@mkdir -p $(OUT)/smoke
	@$(PYTHON) -m venv --clear $(OUT)/smoke/$*
	@$(OUT)/smoke/$*/bin/pip install -qq --no-index --no-deps $(OUT)/wheels/$*/*.whl
	@GREENROOM_EXPECT=$* $(OUT)/smoke/$*/bin/python -I tools/smoke.py

.PHONY: lint ruff pyright mypy
lint: ruff pyright mypy ## Check style and types
ruff: $(VENVS)/lint/.ready
	@echo "== ruff" && $(VENVS)/lint/bin/ruff check $(CHECKED) && $(VENVS)/lint/bin/ruff format --check $(CHECKED)
pyright: $(VENVS)/lint/.ready
	@echo "== pyright" && $(VENVS)/lint/bin/pyright --pythonpath $(VENVS)/lint/bin/python
mypy: $(VENVS)/lint/.ready
	@echo "== mypy" && $(VENVS)/lint/bin/mypy $(CHECKED)

.PHONY: format
format: $(VENVS)/lint/.ready ## Rewrite the sources in the house style
	@$(VENVS)/lint/bin/ruff check --fix $(CHECKED) && $(VENVS)/lint/bin/ruff format $(CHECKED)

.PHONY: coverage
coverage: $(VENVS)/pure/.installed ## Measure test coverage, on the plain-Python build (compiled code cannot be traced)
	@mkdir -p .cache/coverage && $(VENVS)/pure/bin/python -m coverage erase
	@$(VENVS)/pure/bin/python -m coverage run -m pytest -m "not slow" --basetemp=$(OUT)/tmp-coverage $(ARGS)
	@$(VENVS)/pure/bin/python -m coverage combine -q && $(VENVS)/pure/bin/python -m coverage report

.PHONY: bench
bench: $(VENVS)/bench/.installed $(VENVS)/pure/.installed ## Measure against the peers (ARGS=--quick for a minute or two)
	@$(VENVS)/bench/bin/python -m benchmarks --pure-python $(VENVS)/pure/bin/python $(ARGS)

.PHONY: chaos
chaos: $(VENVS)/compiled/.installed ## Attack random systems for a minute (ARGS="--seconds 3600" for an hour, ARGS=--help)
	@echo "== chaos, compiled build"
	@$(VENVS)/compiled/bin/python -m tools.chaos $(ARGS)

.PHONY: stress
stress: $(VENVS)/compiled/.installed ## Run the endurance tests (minutes)
	@echo "== endurance, compiled build"
	@GREENROOM_EXPECT=compiled \
	  $(VENVS)/compiled/bin/python -m pytest -m slow --timeout=0 --basetemp=$(OUT)/tmp-stress $(ARGS)
	@echo "== every conformance case at 10,000 seeds"
	@GREENROOM_EXPECT=compiled \
	  $(VENVS)/compiled/bin/python -m pytest tests/conformance tests/supervision -n 2 -m "not slow" -k simulation \
	  --greenroom-runs=10000 --timeout=0 --basetemp=$(OUT)/tmp-stress

.PHONY: mutants
mutants: $(VENVS)/lint/.ready ## Change the package at random, and see which changes the tests miss (an hour; ARGS=--help)
	@$(VENVS)/lint/bin/python -m tools.mutants $(ARGS)

.PHONY: conformance
conformance: ## Write docs/conformance.md anew, from the ids in the tests
	@$(PYTHON) -m tools.conformance

.PHONY: reference
reference: ## Write docs/reference/settings.md and docs/lifecycle.md anew, from the sources
	@$(PYTHON) -m tools.reference
	@PYTHONPATH=src $(PYTHON) -m tools.lifecycle_page

.PHONY: bug-page
bug-page: $(VENVS)/pure/.installed ## Write docs/bugs.md and its pictures anew, from what simulations say
	@$(VENVS)/pure/bin/python -m tools.bug_page

.PHONY: docs
docs: $(VENVS)/docs/.installed ## Run the code in the docs and render them to build/site
	@echo "== code blocks" && $(VENVS)/docs/bin/python -m pytest README.md docs || [ $$? -eq 5 ]
	@$(VENVS)/docs/bin/python -m doctest tools/reference_docstrings.py
	@echo "== site" && NO_MKDOCS_2_WARNING=1 $(VENVS)/docs/bin/mkdocs build --quiet --strict --site-dir build/site
	@echo "Open build/site/index.html"

.PHONY: wheels
wheels: $(BUILDS:%=$(OUT)/wheels/%.stamp) ## Build the sdist and, from it, both wheels

.PHONY: clean
clean: ## Remove everything made here
	@rm -rf build dist .venvs .cache .hypothesis src/*.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# -- environments

.PRECIOUS: $(VENVS)/%/.ready
$(VENVS)/%/.ready: pyproject.toml
	@echo "== environment $(VENVS)/$*"
	@[ -x $(VENVS)/$*/bin/python ] || $(PYTHON) -m venv $(VENVS)/$*
	@$(VENVS)/$*/bin/pip install -qq --upgrade 'pip>=25.1'  # the first pip that knows --group
	@$(VENVS)/$*/bin/pip install -qq --upgrade --group $(group-$*)
	@touch $@

install = $(VENVS)/$(1)/bin/python -m pip install -qq --force-reinstall --no-deps $(OUT)/wheels/$(2)/*.whl

$(BUILDS:%=$(VENVS)/%/.installed): $(VENVS)/%/.installed: $(VENVS)/%/.ready $(OUT)/wheels/%.stamp
	@$(call install,$*,$*) && touch $@

# A build is alone in its environment, on top of that of the linters: it holds what the tests need, the type checkers
# too, and installing it once takes long enough.
$(BUILDS:%=$(VENVS)/%/.ready): $(VENVS)/%/.ready: $(VENVS)/lint/.ready
	@$(PYTHON) -m venv --clear --without-pip $(VENVS)/$*
	@$(VENVS)/lint/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > "$$($(VENVS)/$*/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/below.pth"
	@touch $@

$(VENVS)/docs/.installed: $(VENVS)/docs/.ready $(OUT)/wheels/pure.stamp
	@$(call install,docs,pure) && touch $@

# It holds one build at a time: the compiled one wherever that can be made.
$(BUILDS:%=$(VENVS)/demo/.holds-%): $(VENVS)/demo/.holds-%: $(VENVS)/demo/.ready $(OUT)/wheels/%.stamp
	@rm -f $(VENVS)/demo/.holds-*
	@$(call install,demo,$*) && touch $@

$(VENVS)/bench/.installed: $(VENVS)/bench/.ready $(OUT)/wheels/compiled.stamp
	@$(call install,bench,compiled)
	@$(VENVS)/bench/bin/pip install -qq --group peers || echo "Some peers could not be installed; their rows are skipped."
	@touch $@

# -- wheels: both come from one sdist, so what is tested is what would be shipped

$(OUT)/sdist.stamp: $(SOURCES) | $(VENVS)/build/.ready
	@echo "== sdist"
	@rm -rf $(OUT)/sdist && mkdir -p $(OUT)/sdist
	@$(VENVS)/build/bin/python -m build --sdist --no-isolation --outdir $(OUT)/sdist . > $(OUT)/sdist.log 2>&1 \
	  || { cat $(OUT)/sdist.log >&2; exit 1; }
	@rm -rf src/*.egg-info  # a stale file list in it would be read back by the next sdist
	@touch $@

$(BUILDS:%=$(OUT)/wheels/%.stamp): $(OUT)/wheels/%.stamp: $(OUT)/sdist.stamp
	@echo "== wheel, $* build"
	@rm -rf $(OUT)/wheels/$* && mkdir -p $(OUT)/wheels/$*
	@$(switch-$*) $(VENVS)/build/bin/pip wheel -v --no-deps --no-build-isolation --wheel-dir $(OUT)/wheels/$* \
	  $(OUT)/sdist/*.tar.gz > $(OUT)/wheels/$*.log 2>&1 || { cat $(OUT)/wheels/$*.log >&2; exit 1; }
	@touch $@
