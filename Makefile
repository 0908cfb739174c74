# oncelog: everything is one of these targets. Python 3.11 to 3.13 is all they need to begin with.

PYTHON ?= python3
ROUNDS ?= 2
KILLS ?= 0
SEEDS ?= 1000
V ?= 4.2.1
WORKERS ?= 3
BIN := .venv/bin
READY := .venv/.ready
RUN := .venv-run/.ready
CONNECTOR := .venv-connector/.ready
UV := VIRTUAL_ENV=.venv $(BIN)/uv pip
COMPILE = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command 'make pins'

# Python keeps what it compiles. Without that each start of a broker compiles the sources again (0.7 s
# of a processor, not 0.4 s), and each process of pytest compiles all tests (20 s, not 6 s).
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run check types layers quick quick-tests test demo demo-client demo-cluster executors-zip demo-failures bench bench-compare bench-spark bench-stalls bench-commands torture simulate test-connector test-pyspark image-test mutants mutate explore nightly pins clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

setup: $(READY)  ## .venv with everything pinned; done once, again only when the pins change

run: $(RUN)  ## a broker on port 9092, data in ./oncelog-data; its own small environment
	.venv-run/bin/oncelog serve

check: $(READY)  ## format, lint, types, layers and the project's own rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target types layers

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_tidy.py tests/test_words.py

# What a contributor runs before each commit: below a minute on two cores.
quick: $(READY)  ## check, and the tests that need no process, no Java and no second of waiting
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target types layers quick-tests

quick-tests: $(READY)
	ONCELOG_EXAMPLES=quick $(BIN)/python -m pytest --quiet --numprocesses 2 -m "not process and not java and not spark and not slow" \
	    tests/server tests/protocol tests/client/core tests/client/io

# Three at a time: on two cores one of them always waits for a timeout or for a process to start.
# Each file runs in one process, those with Spark and those with Apache Kafka in one for each of the
# two (`tests/distribution.py`), and `tests/lanes.py` orders the files. xdist would begin with the
# files that have the most tests and end with a few that take minutes.
test: $(READY)  ## all tests (Java 17 and Maven for those with Kafka's own clients and tools)
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --ignore tests/spark/connector

demo: $(READY)  ## 69,659 purchases through Spark, killed on the way, and a picture of it (Java 17)
	$(BIN)/python -m examples.purchases_spark

demo-cluster: $(READY)  ## the same on a Spark master with two workers
	$(BIN)/python -m examples.purchases_spark --cluster

demo-client: $(READY)  ## the purchases through transactions of our own client, without Java
	$(BIN)/python -m examples.purchases

executors-zip: $(READY)  ## dist/oncelog-executors.zip: what Spark's executors need, for --py-files
	mkdir -p dist
	$(BIN)/python -m oncelog_client.spark.executors_zip dist/oncelog-executors.zip

demo-failures: $(READY)  ## the purchases through each of the seven ways in which a transaction can fail
	$(BIN)/python -m tests.deep_dive

bench: $(READY)  ## oncelog beside Apache Kafka, below 60 min (Java 17, Maven, cc); ROWS="small txn16", QUICK=1, AGAINST=CHECKOUT
	$(BIN)/python -m benchmarks $(if $(ROWS),--rows "$(ROWS)") $(if $(QUICK),--quick) \
	    $(if $(TARGETS),--targets "$(TARGETS)") $(if $(AGAINST),--against $(AGAINST))

bench-compare: $(READY)  ## the worst of several runs of bench: RUNS="a.json b.json c.json"
	$(BIN)/python -m benchmarks --compare $(RUNS)

bench-spark: $(READY) $(CONNECTOR)  ## our format beside Spark's own Kafka connector, 7 min; QUICK=1
	$(BIN)/python -m benchmarks.spark $(if $(ROWS),--rows "$(ROWS)") $(if $(QUICK),--quick)

bench-stalls: $(READY)  ## what large requests do to a producer beside them, 4 min
	$(BIN)/python -m benchmarks.stalls

bench-commands: $(READY)  ## the processor time of short commands, 2 min; PROGRAMS="a/bin/oncelog b/bin/oncelog"
	$(BIN)/python -m benchmarks.commands $(PROGRAMS)

torture: $(READY)  ## ROUNDS=2, or until KILLS=200 of the broker, of a copy loop under kills, pauses and power losses
	$(BIN)/python -m tests.torture --rounds $(ROUNDS) --kills $(KILLS)

simulate: $(READY)  ## SEEDS=1000 worlds with faults drawn from their number, or one SEED=7 again
	$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --processes 2)

mutants: $(READY)  ## 56 named defects, one at a time, and which test finds each; ONLY="M3 M7"
	$(BIN)/python -m tests.mutants $(if $(ONLY),--only "$(ONLY)")

mutate: $(READY)  ## 150 defects made by rule, and which test finds each; N=20 SEED=7 MODULES="log client/core"
	$(BIN)/python -m tests.mutants.mutate $(if $(N),--number $(N)) $(if $(SEED),--seed $(SEED)) \
	    $(if $(MODULES),--modules "$(MODULES)")

explore: $(READY)  ## every order of the steps of small worlds, 30 min; WORLD=broker (6 min) or WORLD=spark
ifneq ($(WORLD),spark)
	$(BIN)/python -m tests.exploration
endif
ifneq ($(WORLD),broker)
	$(BIN)/python -m tests.spark.model
endif

nightly: $(READY)  ## what takes too long for every change, some 3 hours: worlds, mutants, orders of steps, torture
	$(MAKE) simulate SEEDS=10000
	$(MAKE) explore
	$(MAKE) mutants
	$(MAKE) mutate
	$(MAKE) torture KILLS=200
	ONCELOG_HOSTILE=all ONCELOG_INTERRUPTS=100 $(BIN)/python -m pytest -q \
	    tests/client/cli/test_hostile_options.py tests/client/cli/test_interrupts.py
	$(BIN)/python -m tests.faults.recoveries --from-torture --folders 50

test-connector: $(READY) $(CONNECTOR)  ## Spark's own Kafka connector against oncelog (Java 17, Maven)
	$(BIN)/python -m pytest tests/spark/connector

test-pyspark: $(READY)  ## our Spark format with another PySpark, V=4.2.1 unless said (Java 17)
	mkdir -p build
	echo pyspark==$(V) > build/pyspark-$(V).txt
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/pyspark-$(V)
	VIRTUAL_ENV=build/pyspark-$(V) $(BIN)/uv pip install --quiet --no-verify-hashes \
	    -r requirements/dev.txt --override build/pyspark-$(V).txt
	VIRTUAL_ENV=build/pyspark-$(V) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	build/pyspark-$(V)/bin/python -m pytest tests/spark/source tests/spark/sink tests/spark/settings tests/spark/offsets tests/spark/around

image-test: $(READY)  ## build the image, run it with podman-compose, kill it, count what is left
	$(BIN)/python -m tests.image

pins: $(READY)  ## resolve requirements/ again from the two pyproject.toml
	$(COMPILE) client/pyproject.toml -o requirements/client.txt
	$(COMPILE) pyproject.toml -c requirements/client.txt -o requirements/server.txt
	$(COMPILE) client/pyproject.toml --extra spark -c requirements/client.txt -o requirements/spark.txt
	$(COMPILE) pyproject.toml --extra spark --group dev \
	    -c requirements/server.txt -c requirements/spark.txt -o requirements/dev.txt
	echo pyspark==4.0.0 | $(COMPILE) - -o requirements/connector.txt
	echo lifetimes | $(COMPILE) - --no-deps -o requirements/demo.txt
	echo hatchling | $(COMPILE) - -c requirements/dev.txt -o requirements/build.txt
	echo uv | $(COMPILE) - -o requirements/uv.txt

clean:  ## remove what the other targets made, but no data
	rm -rf .venv .venv-run .venv-connector .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ── How .venv comes to be: the stamps below are why nothing is done twice ────────────────────────

# No interpreter of 3.14 was at hand to try it with: CONTRIBUTING.md, "Python versions".
define python_check
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
	    echo "oncelog needs Python 3.11 to 3.13 (3.14 has not been tried); name one with: make PYTHON=python3.12 ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "Python's venv module is missing; on Debian and Ubuntu: apt install python3-venv"; exit 1; }
endef

.venv/.uv: requirements/uv.txt
	$(python_check)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# What a broker needs and hatchling, which installs the project without a network. Below 100 MB.
$(RUN): requirements/server.txt requirements/build.txt pyproject.toml
	$(python_check)
	$(PYTHON) -m venv .venv-run
	.venv-run/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
	    -r requirements/server.txt -r requirements/build.txt
	.venv-run/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	    --no-build-isolation --editable .
	.venv-run/bin/python -m compileall -q protocol server client
	@touch $@

# demo.txt is the package whose data set the demo reads, without its dependencies: nothing imports it.
$(READY): .venv/.uv requirements/dev.txt requirements/demo.txt pyproject.toml
	$(UV) sync --quiet --require-hashes --compile-bytecode requirements/dev.txt requirements/demo.txt
	$(UV) install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q protocol server client
	@touch $@

# The newest PySpark whose Kafka connector is to be had complete; ours needs a newer one.
$(CONNECTOR): .venv/.uv requirements/connector.txt
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-connector
	VIRTUAL_ENV=.venv-connector $(BIN)/uv pip sync --quiet --require-hashes \
	    --compile-bytecode requirements/connector.txt
	@touch $@
