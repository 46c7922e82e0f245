# Everything made here stays in this folder: environments in .venvs, wheels and reports in build, caches in .cache.
# Each step leaves a stamp file and is done again only when what it is made from has changed.

PYTHON ?= python3
ARGS   ?=
# How much of builds, backends and cases the tests run (tests/matrix.py), and on how many processes.
MATRIX  ?= pairs
WORKERS ?= 2

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
unexport PYTHONPATH PYTHONDONTWRITEBYTECODE GREENROOM_PURE GREENROOM_REQUIRE_COMPILED

# What a wheel is made from; the folders too, so that a removed file counts. Tests and docs travel in the sdist as well,
# but a change to them rebuilds nothing.
SOURCES := pyproject.toml setup.py MANIFEST.in $(shell find src/greenroom -not -name '__pycache__' -not -name '*.pyc')
CHECKED := $(wildcard src tests benchmarks tools examples setup.py conftest.py)

BUILDS          := compiled pure
switch-compiled := GREENROOM_REQUIRE_COMPILED=1
switch-pure     := GREENROOM_PURE=1

# The dependency group of pyproject.toml that each environment holds.
group-build := build
group-lint  := lint
group-docs  := docs
group-bench := bench
group-demo  := demo

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-14s %s\n", $$1, $$2 }'

.PHONY: demo
demo: .venvs/demo/.ready ## Build, then watch 3,000 actors at work (ARGS="--seconds 5", ARGS=--plain)
	@echo "== package for the demo (takes a few minutes, unless it is built already)"
	@build=compiled; \
	$(MAKE) -s .venvs/demo/.holds-compiled 2>/dev/null || { \
	  build=pure; \
	  echo "Not compiled (why: build/wheels/compiled.log), so this is plain Python; a C compiler makes it faster."; \
	  $(MAKE) -s .venvs/demo/.holds-pure; \
	}; \
	echo "== demo, $$build build"; \
	.venvs/demo/bin/python -m examples.pipeline $(ARGS)

.PHONY: demo-picture
demo-picture: .venvs/demo/.ready .venvs/demo/.holds-compiled ## Draw the demo's live view anew, for the README
	@.venvs/demo/bin/python -m tools.demo_picture docs/images/demo.svg

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
test-compiled test-pure: test-%: .venvs/%/.installed
	@echo "== tests, $* build"
	@GREENROOM_EXPECT=$* .venvs/$*/bin/python -m pytest -n $(WORKERS) -m "not slow" --matrix=$(MATRIX) \
	  --basetemp=build/tmp-$* -o cache_dir=.cache/pytest-$* $(ARGS) $(if $(SIDE_BY_SIDE),2>&1 | sed -u 's/^/$*: /')

# What the tests need: wheels and environments. Few of these steps wait for one another, so two can be taken at a time.
.PHONY: prepared
prepared: $(BUILDS:%=.venvs/%/.installed)
	@:

.PHONY: smoke smoke-compiled smoke-pure
smoke: smoke-compiled smoke-pure ## Install the wheels into empty environments and play ping-pong there
smoke-compiled smoke-pure: smoke-%: build/wheels/%.stamp
	@echo "== smoke, $* wheel in an empty environment"
	@mkdir -p build/smoke
	@$(PYTHON) -m venv --clear build/smoke/$*
	@build/smoke/$*/bin/pip install -qq --no-index --no-deps build/wheels/$*/*.whl
	@GREENROOM_EXPECT=$* build/smoke/$*/bin/python -I tools/smoke.py

.PHONY: lint ruff pyright mypy
lint: ruff pyright mypy ## Check style and types
ruff: .venvs/lint/.ready
	@echo "== ruff" && .venvs/lint/bin/ruff check $(CHECKED) && .venvs/lint/bin/ruff format --check $(CHECKED)
pyright: .venvs/lint/.ready
	@echo "== pyright" && .venvs/lint/bin/pyright --pythonpath .venvs/lint/bin/python
mypy: .venvs/lint/.ready
	@echo "== mypy" && .venvs/lint/bin/mypy $(CHECKED)

.PHONY: format
format: .venvs/lint/.ready ## Rewrite the sources in the house style
	@.venvs/lint/bin/ruff check --fix $(CHECKED) && .venvs/lint/bin/ruff format $(CHECKED)

.PHONY: coverage
coverage: .venvs/pure/.installed ## Measure test coverage, on the plain-Python build (compiled code cannot be traced)
	@mkdir -p .cache/coverage && .venvs/pure/bin/python -m coverage erase
	@.venvs/pure/bin/python -m coverage run -m pytest -m "not slow" --basetemp=build/tmp-coverage $(ARGS)
	@.venvs/pure/bin/python -m coverage combine -q && .venvs/pure/bin/python -m coverage report

.PHONY: bench
bench: .venvs/bench/.installed .venvs/pure/.installed ## Measure against the peers (ARGS=--quick for a minute or two)
	@.venvs/bench/bin/python -m benchmarks --pure-python .venvs/pure/bin/python $(ARGS)

.PHONY: chaos
chaos: .venvs/compiled/.installed ## Attack random systems for a minute (ARGS="--seconds 3600" for an hour, ARGS=--help)
	@echo "== chaos, compiled build"
	@.venvs/compiled/bin/python -m tools.chaos $(ARGS)

.PHONY: stress
stress: .venvs/compiled/.installed ## Run the endurance tests (minutes)
	@echo "== endurance, compiled build"
	@GREENROOM_EXPECT=compiled \
	  .venvs/compiled/bin/python -m pytest -m slow --timeout=0 --basetemp=build/tmp-stress $(ARGS)
	@echo "== every conformance case at 10,000 seeds"
	@GREENROOM_EXPECT=compiled \
	  .venvs/compiled/bin/python -m pytest tests/conformance tests/supervision -n 2 -m "not slow" -k simulation \
	  --greenroom-runs=10000 --timeout=0 --basetemp=build/tmp-stress

.PHONY: faults
faults: .venvs/lint/.ready ## Plant faults in the package and see which tests find them (hours; ARGS=name for one)
	@.venvs/lint/bin/python -m tools.planted_faults $(ARGS)

.PHONY: conformance
conformance: ## Write docs/conformance.md anew, from the ids in the tests
	@$(PYTHON) -m tools.conformance

.PHONY: reference
reference: ## Write docs/reference/settings.md anew, from the sources
	@$(PYTHON) -m tools.reference

.PHONY: bug-page
bug-page: .venvs/pure/.installed ## Write docs/bugs.md and its pictures anew, from what simulations say
	@.venvs/pure/bin/python -m tools.bug_page

.PHONY: docs
docs: .venvs/docs/.installed ## Run the code in the docs and render them to build/site
	@echo "== code blocks" && .venvs/docs/bin/python -m pytest README.md docs || [ $$? -eq 5 ]
	@.venvs/docs/bin/python -m doctest tools/reference_docstrings.py
	@echo "== site" && NO_MKDOCS_2_WARNING=1 .venvs/docs/bin/mkdocs build --quiet --strict --site-dir build/site
	@echo "Open build/site/index.html"

.PHONY: wheels
wheels: $(BUILDS:%=build/wheels/%.stamp) ## Build the sdist and, from it, both wheels

.PHONY: clean
clean: ## Remove everything made here
	@rm -rf build dist .venvs .cache .hypothesis src/*.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# -- environments

.PRECIOUS: .venvs/%/.ready
.venvs/%/.ready: pyproject.toml
	@echo "== environment .venvs/$*"
	@[ -x .venvs/$*/bin/python ] || $(PYTHON) -m venv .venvs/$*
	@.venvs/$*/bin/pip install -qq --upgrade 'pip>=25.1'  # the first pip that knows --group
	@.venvs/$*/bin/pip install -qq --upgrade --group $(group-$*)
	@touch $@

install = .venvs/$(1)/bin/python -m pip install -qq --force-reinstall --no-deps build/wheels/$(2)/*.whl

$(BUILDS:%=.venvs/%/.installed): .venvs/%/.installed: .venvs/%/.ready build/wheels/%.stamp
	@$(call install,$*,$*) && touch $@

# A build is alone in its environment, on top of that of the linters: it holds what the tests need, the type checkers
# too, and installing it once takes long enough.
$(BUILDS:%=.venvs/%/.ready): .venvs/%/.ready: .venvs/lint/.ready
	@$(PYTHON) -m venv --clear --without-pip .venvs/$*
	@.venvs/lint/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > "$$(.venvs/$*/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/below.pth"
	@touch $@

.venvs/docs/.installed: .venvs/docs/.ready build/wheels/pure.stamp
	@$(call install,docs,pure) && touch $@

# It holds one build at a time: the compiled one wherever that can be made.
$(BUILDS:%=.venvs/demo/.holds-%): .venvs/demo/.holds-%: .venvs/demo/.ready build/wheels/%.stamp
	@rm -f .venvs/demo/.holds-*
	@$(call install,demo,$*) && touch $@

.venvs/bench/.installed: .venvs/bench/.ready build/wheels/compiled.stamp
	@$(call install,bench,compiled)
	@.venvs/bench/bin/pip install -qq --group peers || echo "Some peers could not be installed; their rows are skipped."
	@touch $@

# -- wheels: both come from one sdist, so what is tested is what would be shipped

build/sdist.stamp: $(SOURCES) | .venvs/build/.ready
	@echo "== sdist"
	@rm -rf build/sdist && mkdir -p build/sdist
	@.venvs/build/bin/python -m build --sdist --no-isolation --outdir build/sdist . > build/sdist.log 2>&1 \
	  || { cat build/sdist.log >&2; exit 1; }
	@rm -rf src/*.egg-info  # a stale file list in it would be read back by the next sdist
	@touch $@

$(BUILDS:%=build/wheels/%.stamp): build/wheels/%.stamp: build/sdist.stamp
	@echo "== wheel, $* build"
	@rm -rf build/wheels/$* && mkdir -p build/wheels/$*
	@$(switch-$*) .venvs/build/bin/pip wheel -v --no-deps --no-build-isolation --wheel-dir build/wheels/$* build/sdist/*.tar.gz \
	  > build/wheels/$*.log 2>&1 || { cat build/wheels/$*.log >&2; exit 1; }
	@touch $@
