# `make` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup run test soak lint format docs docs-site bench clean

help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Put everything into .venv

$(STAMP): pyproject.toml requirements/lock.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Catchment needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 …"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -r requirements/lock.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

run: setup ## Start the main job, a city's emergency response; SECONDS=60 ends and checks it, EXAMPLE=logs runs another
	@# Ctrl-C reaches make, the shell and the application: the application alone reports how it ended.
	@trap : INT; $(BIN)/catchment example $(or $(EXAMPLE),emergency) $(if $(SECONDS),--seconds $(SECONDS)) || [ $$? -eq 130 ]

test: setup ## Run every test
	-$(BIN)/python -m catchment.spark.launch.class_cache_training
	$(BIN)/python -m pytest --numprocesses=auto --dist=loadfile --no-loadscope-reorder --max-worker-restart=0 --durations=20 $(TESTS)

soak: setup ## The long forms of tests that kill and flood, for hours: KILLS=300 is how often
	CATCHMENT_CRASHES=$(or $(KILLS),300) CATCHMENT_FAULT_SEEDS=8 CATCHMENT_COPY_KILLS=$(or $(KILLS),300) CATCHMENT_HOSTILE_FRAMES=1000000 CATCHMENT_DECODE_EXAMPLES=3000000 \
		CATCHMENT_SPARK_KILLS=$(or $(KILLS),300) CATCHMENT_SAME_ROWS_EXAMPLES=50 \
		CATCHMENT_PIPELINE_KILLS=$(or $(KILLS),300) CATCHMENT_EVENT_TIME_ROUNDS=20 CATCHMENT_LIVE_STORES=sqlite,postgresql \
		CATCHMENT_POISON_RECORDS=1000000 CATCHMENT_STALL_SECONDS=60 CATCHMENT_FLINK=20 CATCHMENT_AMPLIFICATION=all \
		$(BIN)/python -m pytest tests/broker/test_crash.py tests/broker/test_transactional_copy.py tests/broker/test_hostile_input.py tests/storage/faults/test_table.py tests/broker/amplification/test_amplification.py \
		tests/protocol/test_decode_campaign.py \
		tests/spark/test_exactly_once.py tests/spark/test_same_rows.py tests/pipelines/test_kills.py \
		tests/pipelines/event_time/test_against_duckdb.py tests/pipelines/test_lambda.py tests/pipelines/test_poison.py \
		tests/pipelines/test_back_pressure.py tests/compat/outside/test_pyflink.py

lint: setup ## ruff, mypy strict, import-linter, words
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/word_lint.py

format: setup ## Format the code and fix what ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup ## Render the pages that come from the code: command line, settings, APIs, metrics, file map, graphs
	$(BIN)/python tools/render_docs.py
	$(BIN)/python -m catchment.settings.reference > docs/reference/settings.md
	$(BIN)/python -m catchment.ports.telemetry > docs/reference/metrics.md
	$(BIN)/python -m catchment.cli.help.reference > docs/reference/cli.md

docs-site: setup ## Build the documentation site strictly: build/site/site/index.html (npm brings the diagrams)
	$(BIN)/python tools/build_site.py build/site

bench: setup ## Compare with Apache Kafka in one run (needs Java and Maven)
	$(BIN)/catchment bench broker --peer kafka

clean: ## Remove .venv, the built site and caches
	rm -rf $(VENV) build/site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
