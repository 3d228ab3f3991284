# Everything runs from .venv, which the first target that needs it creates: only Python 3.11+ and make are required.

PYTHON ?= $(shell for python in python3 python3.11 python3.12 python3.13 python3.14; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$python; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
# The same examples and power cuts in every run, so that a failure is due to the change. `make crash` and
# `make test SEED=…` draw new ones.
SEED ?= 1
# Tests wait for processes and disks half of their time, so that three workers keep two cores busy. Those on Spark compute.
WORKERS ?= 3
SPARK_WORKERS ?= 2

# An activated environment must not leak into ours. Without compiled modules every process of the tests, and there are
# thousands, would compile Warren again.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help setup setup-core quick run test test-core test-spark check lint types format bench bench-broker bench-cluster bench-spark crash soak \
	fuzz conformance docs messages constraints audit

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

setup: $(VENV)/.dev ## create .venv and install Warren with its development tools

setup-core: $(VENV)/.core ## the same without Spark

# Types are checked without the modules that need Spark, which may not be installed.
quick: $(VENV)/.core ## lint, types, and the unit and property tests without Spark, with few examples, after every change
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --follow-imports=silent $$(ls -d src/warren/*.py src/warren/*/ tests/support/ | grep -v -e spark -e __pycache__)
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal --hypothesis-profile=quick --hypothesis-seed=$(SEED) \
		--ignore=tests/unit/spark --ignore=tests/property/test_spark_stream_model.py \
		tests/unit tests/property $(ARGS)

run: $(VENV)/.run ## a million orders: revenue and an archive of them, on a Spark of this machine
	@$(BIN)/warren demo

# Types are checked during the tests, because mypy uses one core, and the tests wait half of their time.
test: $(VENV)/.dev ## lint, types and every test
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory -j2 types test-core
	@$(MAKE) --no-print-directory test-spark

test-core: $(VENV)/.dev ## every test that needs no Spark
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --hypothesis-seed=$(SEED) --ignore=tests/spark $(ARGS)

# The tests of a file share one Spark session, and the longest file comes first. Without Spark or Java they fail here and
# are not skipped.
test-spark: $(VENV)/.dev ## every test on Spark
	WARREN_REQUIRE_SPARK=1 $(BIN)/python -m pytest -n $(SPARK_WORKERS) --dist loadfile --no-loadscope-reorder \
		--hypothesis-seed=$(SEED) tests/spark $(ARGS)

check: lint types ## lint and types

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

format: $(VENV)/.dev ## rewrite the source in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench ## measure, print one table and write JSON
	$(BIN)/python -m benchmarks $(ARGS)

bench-broker: $(VENV)/.bench ## measure the broker over loopback, compared with Redis and NATS
	@sh benchmarks/broker/install-redis.sh
	$(BIN)/python -m benchmarks.broker $(ARGS)

bench-cluster: $(VENV)/.bench ## measure fail-overs and what replication costs, on three replicas
	$(BIN)/python -m benchmarks.cluster $(ARGS)

bench-spark: $(VENV)/.dev ## measure reading and writing by Spark, against Spark's own formats
	$(BIN)/python -m benchmarks.spark $(ARGS)

crash: $(VENV)/.dev ## cut the power on simulated disks, and let simulated masters fail over, until stopped
	$(BIN)/python -m tests.crash.forever --replication $(ARGS)

soak: $(VENV)/.dev ## kill processes in a mixed run, then brokers for an hour, and check the histories; ARGS=--broker: brokers alone, with --hostile under attack; ARGS=--cluster: a cluster with faults of processes, links, disks and clocks
	$(BIN)/python -m tests.soak $(ARGS)

fuzz: $(VENV)/.dev ## send a broker requests that no client would send, until stopped
	$(BIN)/python -m tests.fuzz $(ARGS)

conformance: $(VENV)/.conformance ## Kafka's clients, and their own tests if they have some, against the broker
	$(BIN)/python -m tests.conformance $(ARGS)

docs: $(VENV)/.docs ## build the documentation site into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

messages: $(VENV)/.dev ## write the classes of requests and responses that the schemas describe
	$(BIN)/python -m tools.message_classes

constraints: ## pin the newest packages that fit, for CI and the container
	$(PYTHON) -m venv --clear $(VENV)/newest
	$(VENV)/newest/bin/python -m pip install -qq --editable '.[dev,bench,conformance,docs]'
	{ echo '# Made by `make constraints`: the versions that CI and the container install.'; \
		$(VENV)/newest/bin/python -m pip freeze --exclude-editable | LC_ALL=C sort -f; } > constraints.txt
	rm -r $(VENV)/newest

audit: $(VENV)/.made ## look up known vulnerabilities of the pinned packages, if pip-audit installs
	@test -x $(VENV)/audit/bin/pip-audit || { $(PYTHON) -m venv $(VENV)/audit && \
		$(VENV)/audit/bin/python -m pip install -qq pip-audit; } || true
	@$(BIN)/python deploy/audit.py $(VENV)/audit/bin/pip-audit constraints.txt

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name one with: make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/.made
	$(BIN)/python -m pip install -qq -c constraints.txt --editable '.[spark]'
	@touch $@

$(VENV)/.core: pyproject.toml constraints.txt | $(VENV)/.made
	$(BIN)/python -m pip install -qq -c constraints.txt --editable '.[dev-core]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/.made
	$(BIN)/python -m pip install -qq -c constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/.run $(VENV)/.core

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install -qq -c constraints.txt --editable '.[bench]'
	@touch $@

$(VENV)/.conformance: $(VENV)/.dev
	$(BIN)/python -m pip install -qq -c constraints.txt --editable '.[conformance]'
	@touch $@

$(VENV)/.docs: pyproject.toml constraints.txt | $(VENV)/.made
	$(BIN)/python -m pip install -qq -c constraints.txt --editable '.[docs]'
	@touch $@
