# Every target first installs the packages it needs into .venv, which is quick if they are there.
# ARGS passes options on:  make test ARGS="-k grpcurl"   make demo ARGS="--seconds 30"

PY := .venv/bin/python
RUN := scripts/run.sh
ARGS ?=
# Sets of packages, each with the ones before it, and those of the documentation: scripts/setup.sh.
SETUPS := setup-demo setup-bench setup-test setup-dev setup-docs

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup $(SETUPS) spark-classes demo test test-slow test-cluster test-long test-wide chaos hostile check check-deploy docs release format proto blocking-client settings-docs pyflink-docs bench plots flights-matrix lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo 'ARGS="..." passes options on to demo, test, test-slow, test-long, test-wide, chaos, bench, plots, flights-matrix and lock.'

setup: setup-dev ## Install all that the targets need into .venv (PYTHON=... names the Python)

setup-demo: ## Install only what the examples need

$(SETUPS): setup-%:
	@PYTHON="$(PYTHON)" scripts/setup.sh $*

$(PY):
	@PYTHON="$(PYTHON)" scripts/setup.sh demo

demo: setup-demo ## Run the sensor job and its dashboard (ARGS="--seconds N" ends it)
	@$(RUN) python examples/temperature_dashboard.py $(ARGS)

# A short run spends more on optimizing and on threads that collect than it gains: tests/conftest.py.
SPARK_CLASSES = $(wildcard .venv/spark-classes.jsa)
FLIGHTS_BACKENDS ?= heap rocksdb
FLIGHTS_MASTERS ?= 'local[2,4]' 'local-cluster[2,1,1024]'
chaos flights-matrix: export JDK_JAVA_OPTIONS ?= -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC \
  $(SPARK_CLASSES:%=-XX:SharedArchiveFile="$(CURDIR)/%" -Xlog:cds=off -Xlog:cds+dynamic=off)

# Costs what three starts of Spark do, and halves each one: tests start Spark often.
spark-classes: setup-test
	@$(RUN) python scripts/archive_spark_classes.py

test: spark-classes ## Run the tests, without slow ones (ARGS="tests/query -k scan"), in two processes
	@scripts/install_grpcurl.sh
	$(RUN) python -m pytest -n 2 --dist loadscope $(ARGS)

test-slow: spark-classes ## Run the slow tests: restarts of drivers, killed executors, in two processes
	@scripts/install_chromium.sh
	$(RUN) python -m pytest -n 2 --dist loadscope -m slow $(ARGS)

test-wide: spark-classes ## Run slow tests with further backends, parallelism and seeds, and all generated examples (SEEDS=7,9-12: random programs alone)
	$(RUN) python -m pytest -n 2 --dist loadscope -m "slow and wide" $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)
	$(if $(SEEDS),,$(RUN) python -m pytest -n 2 --dist loadscope -m hypothesis --hypothesis-profile whole $(ARGS))

test-long: spark-classes ## Run what test-slow and test-cluster run at once, but no round of make chaos
	@scripts/install_chromium.sh
	$(RUN) python -m pytest -n 2 --dist loadscope -m "(slow and not chaos) or standalone" $(ARGS)

test-cluster: spark-classes ## Deploy on a standalone cluster; restart proxies and driver under load
	timeout 1500 $(RUN) python -m pytest tests/standalone -m standalone $(ARGS)

chaos: setup-test ## Kill, stop and damage what runs (ROUNDS=n rounds from seed SEED=s on)
	$(RUN) python -m tests.chaos --rounds $(or $(ROUNDS),3) $(if $(SEED),--seed $(SEED)) $(ARGS)

hostile: setup-test ## Attack the ports of real processes (HOSTILE_SECONDS=n seconds each)
	HOSTILE_SECONDS=$(or $(HOSTILE_SECONDS),2) $(RUN) python -m pytest tests/hostile -m hostile -q $(ARGS)

check: setup ## Lint, check formatting and types, and that generated code is current
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(PY) scripts/generate_protos.py --check
	$(PY) scripts/generate_settings_docs.py --check
	$(PY) scripts/generate_blocking_client.py --check
	$(PY) scripts/generate_pyflink_docs.py --check

check-deploy: setup ## Check Dockerfile, compose file, Helm chart and unit, as far as no engine is needed
	@scripts/install_deploy_tools.sh
	scripts/check_deploy.sh

docs: setup-docs ## Build the documentation site into build/site, strictly: no dead link or heading
	$(PY) scripts/build_docs.py

release: setup-dev ## Build wheel and sdist, try both in empty environments, write hashes (VERSION=x.y.z sets the version first)
	$(RUN) python scripts/release.py $(if $(VERSION),--version $(VERSION)) $(ARGS)

format: setup ## Format the code and fix what the linter can fix
	$(PY) -m ruff check --fix --exit-zero
	$(PY) -m ruff format

proto: setup ## Generate the code of the .proto files
	$(PY) scripts/generate_protos.py

blocking-client: setup ## Write the calls of the blocking client from those of the asyncio client
	$(PY) scripts/generate_blocking_client.py

settings-docs: setup ## Write docs/settings.md from the settings classes
	$(PY) scripts/generate_settings_docs.py

pyflink-docs: setup ## Write docs/pyflink.md from our classes and PyFlink's names
	$(PY) scripts/generate_pyflink_docs.py

bench: setup-bench ## Measure it all beside its peers (ARGS="query --quick --json FILE", ARGS="--help")
	$(RUN) python -m benchmarks $(ARGS)

plots: setup-bench ## Draw docs/plots from figures of make bench (ARGS="FILE ...")
	$(PY) -m benchmarks.plots $(ARGS)

flights-matrix: setup-demo ## Compare flights and their sessions with pandas: backends, executors
	@set -e; for backend in $(FLIGHTS_BACKENDS); do \
	  for master in $(FLIGHTS_MASTERS); do \
	    echo "== flights: $$backend on $$master"; \
	    $(RUN) python examples/flights.py --backend $$backend --master "$$master" $(ARGS); \
	  done; \
	done
	@echo "== sessions of flights"
	@$(RUN) python examples/flight_sessions.py

# Not through setup: a lock that contradicts pyproject.toml is what makes setup fail.
lock: | $(PY) ## Refresh requirements.lock within pyproject.toml's bounds (ARGS="--upgrade" moves pins)
	$(PY) -m pip install --quiet --disable-pip-version-check -c requirements.lock --group lock
	.venv/bin/uv pip compile --quiet --universal --no-emit-index-url --all-extras \
	  --group test --group check --group deploy --group java --group build --group docs --group lock --group pack \
	  --no-emit-package spark-queryable-state --custom-compile-command 'make lock' \
	  pyproject.toml --output-file requirements.lock $(ARGS)

clean: ## Remove what builds, tests and Spark leave behind; .venv stays
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	rm -rf benchmarks/peers/flink/target benchmarks/peers/go/build
	rm -rf spark-warehouse metastore_db derby.log .venv/lib/python3.*/site-packages/pyspark/work
	find client server streaming proto tests examples benchmarks scripts \
	  -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
