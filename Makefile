# The targets for all tasks in this repository. To begin, they need only Python 3.11 to 3.13.

PYTHON ?= python3
ROUNDS ?= 2
KILLS ?= 0
SEEDS ?= 1000
SEED ?= 0
INPUTS ?= 100000
V ?= 4.2.1
WORKERS ?= 4
BIN := .venv/bin
READY := .venv/.ready
RUN := .venv-run/.ready
CONNECTOR := .venv-connector/.ready
ECOSYSTEM := .venv-ecosystem/.ready
DOCS := .venv-docs/.ready
UV := VIRTUAL_ENV=.venv $(BIN)/uv pip
COMPILE = $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command 'make pins'

# Let Python keep compiled files. Without them each start of a broker compiles the sources again (0.7 s
# of a processor, not 0.4 s), and each process of pytest compiles all tests (20 s, not 6 s).
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run check types layers collection quick quick-tests test docs demo demo-client demo-cluster executors-zip demo-failures bench bench-cluster bench-compare bench-spark bench-stalls bench-floods bench-failover bench-commands torture simulate test-connector test-ecosystem test-pyspark image-test mutants mutate explore fuzz nightly pins clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

setup: $(READY)  ## make .venv with pinned versions, and again only when the pins change; fetch an etcd for the tests
	@$(BIN)/python -m tests.harness.etcd

run: $(RUN)  ## a broker on port 9092, data in ./oncelog-data; its own small environment
	.venv-run/bin/oncelog serve

check: $(READY)  ## format, lint, types, layers and the project's own rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target types layers collection

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q tests/test_tidy.py tests/test_words.py tests/test_documents.py tests/mutants/test_patches.py \
	    tests/test_layout.py::test_every_module_is_pure_or_an_edge_and_none_is_both \
	    tests/test_layout.py::test_every_pure_module_is_named_by_a_test

# All tests are collected here and one is run. A file that needs Kafka or Spark and has no process
# fails after 10 s, not at the end of `make test`.
collection: $(READY)
	$(BIN)/python -m pytest -q tests -k test_every_file_that_needs_spark_or_kafka_is_in_its_process \
	    --ignore tests/spark/connector --ignore tests/ecosystem

# What a contributor runs before each commit: below a minute on two cores.
quick: $(READY)  ## check, and the tests that start no process, need no Java and take little time
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory --jobs 3 --output-sync=target types layers quick-tests

quick-tests: $(READY)
	ONCELOG_EXAMPLES=quick $(BIN)/python -m pytest --quiet --numprocesses 2 -m "not process and not java and not spark and not slow" \
	    tests/server tests/protocol tests/client/core tests/client/io

# Four processes on two cores, because about half of them wait for a timeout or for a start. Six are
# faster (16 min), but some tests then reach their deadlines. The tests of a file run in one process.
# The files with Spark share two processes, and most other files with Apache Kafka share two
# (`tests/distribution.py`). `tests/lanes.py` orders the files: xdist itself would begin with the
# files that have the most tests and end with a few that take minutes.
test: $(READY) $(DOCS)  ## all tests (the tests with Kafka's own clients and tools need Java 17 and Maven)
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder \
	    --ignore tests/spark/connector --ignore tests/ecosystem

docs: $(DOCS)  ## the documentation site, in build/site
	.venv-docs/bin/python -m sphinx --builder html --fail-on-warning --keep-going --jobs auto --quiet docs build/site

demo: $(READY)  ## 69,659 purchases through Spark with kills of its processes, and a picture of the run (Java 17)
	$(BIN)/python -m examples.purchases_spark

demo-cluster: $(READY)  ## the demo on a Spark master with two workers
	$(BIN)/python -m examples.purchases_spark --cluster

demo-client: $(READY)  ## the purchases through transactions of oncelog's own client, without Java
	$(BIN)/python -m examples.purchases

executors-zip: $(READY)  ## make dist/oncelog-executors.zip: the modules that Spark's executors need, for --py-files
	mkdir -p dist
	$(BIN)/python -m oncelog_client.spark.executors_zip dist/oncelog-executors.zip

demo-failures: $(READY)  ## the purchases through each of the seven ways in which a transaction can fail
	$(BIN)/python -m tests.deep_dive

bench: $(READY)  ## oncelog beside Apache Kafka, about 70 min (Java 17, Maven, cc, libssl-dev); ROWS="small txn16", QUICK=1, AGAINST=CHECKOUT
	$(BIN)/python -m benchmarks $(if $(ROWS),--rows "$(ROWS)") $(if $(QUICK),--quick) \
	    $(if $(TARGETS),--targets "$(TARGETS)") $(if $(AGAINST),--against $(AGAINST))

bench-cluster: $(READY)  ## three brokers and etcd beside three nodes of Apache Kafka; ROWS="small kill", QUICK=1, ETCD=1
	$(BIN)/python -m benchmarks.cluster $(if $(ROWS),--rows "$(ROWS)") $(if $(QUICK),--quick) $(if $(ETCD),--etcd $(ETCD)) \
	    $(if $(TARGETS),--targets "$(TARGETS)")

bench-compare: $(READY)  ## several runs of bench in one table, judged by the worst run: RUNS="a.json b.json c.json"
	$(BIN)/python -m benchmarks --compare $(RUNS)

bench-spark: $(READY) $(CONNECTOR)  ## oncelog's Spark format beside Spark's own Kafka connector, 7 min; QUICK=1; SECURED=1 beside itself without TLS
	$(BIN)/python -m benchmarks.spark $(if $(ROWS),--rows "$(ROWS)") $(if $(QUICK),--quick) $(if $(SECURED),--secured)

bench-stalls: $(READY)  ## the latency of a producer while the broker serves large requests, 4 min
	$(BIN)/python -m benchmarks.stalls

bench-floods: $(READY)  ## the latency of a producer while other clients connect and never authenticate, 6 min; as root REALTIME=1
	$(BIN)/python -m benchmarks.floods $(if $(REALTIME),--realtime)

bench-failover: $(READY)  ## the time from the kill of a leader to the next acknowledgment, 5 min (etcd); SESSIONS="2 9", KILLS=10
	$(BIN)/python -m benchmarks.failover $(if $(SESSIONS),--sessions $(SESSIONS)) $(if $(filter-out 0,$(KILLS)),--kills $(KILLS))

bench-commands: $(READY)  ## the processor time of short commands, 2 min; PROGRAMS="a/bin/oncelog b/bin/oncelog"
	$(BIN)/python -m benchmarks.commands $(PROGRAMS)

torture: $(READY)  ## a copy loop under kills, pauses and power losses: ROUNDS=2 rounds, or until KILLS=200 kills of the broker; SECURED=1; CLUSTER=1 of three brokers
	$(BIN)/python -m tests.torture --rounds $(ROUNDS) --kills $(KILLS) $(if $(SECURED),--secured) $(if $(CLUSTER),--cluster)

simulate: $(READY)  ## SEEDS=1000 simulations, each with faults drawn from its seed; SEED=7 repeats one; CLUSTER=1 of several brokers
	$(BIN)/python -m tests.simulation $(if $(CLUSTER),--cluster) $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --processes 2)

mutants: $(READY)  ## put each named defect of tests/mutants into the code, and show which test finds each; ONLY="M3 M7"
	$(BIN)/python -m tests.mutants $(if $(ONLY),--only "$(ONLY)")

mutate: $(READY)  ## put 150 defects made by rules into the code, and show which test finds each; N=20 SEED=7 MODULES="log client/core"
	$(BIN)/python -m tests.mutants.mutate $(if $(N),--number $(N)) $(if $(SEED),--seed $(SEED)) \
	    $(if $(MODULES),--modules "$(MODULES)")

explore: $(READY)  ## try every order of the steps in small models, 35 min; WORLD=broker, replication or spark for one model
ifeq ($(filter replication spark,$(WORLD)),)
	$(BIN)/python -m tests.exploration
endif
ifeq ($(filter broker spark,$(WORLD)),)
	$(BIN)/python -m tests.exploration.replication
endif
ifeq ($(filter broker replication,$(WORLD)),)
	$(BIN)/python -m tests.spark.model
endif

fuzz: $(READY)  ## changed bytes for all that parses for security: make fuzz INPUTS=10000000 before a release
	$(BIN)/python -m tests.fuzz --inputs $(INPUTS) --seed $(SEED) --jobs $(WORKERS)

nightly: $(READY)  ## the checks that take too long for every change, about 6 hours: simulate, explore, mutants, torture ...
	$(MAKE) simulate SEEDS=10000
	$(MAKE) simulate SEEDS=2000 CLUSTER=1
	$(MAKE) explore
	$(MAKE) mutants
	$(MAKE) mutate
	$(MAKE) fuzz INPUTS=1000000 SEED=$$(date +%j)
	$(MAKE) test-ecosystem
	$(MAKE) torture KILLS=200
	$(MAKE) torture KILLS=200 SECURED=1
	$(MAKE) torture KILLS=500 CLUSTER=1
	ONCELOG_SPARK_KILLS=all $(BIN)/python -m pytest -q tests/spark/faults/test_secured_kills.py
	ONCELOG_HOSTILE=all ONCELOG_INTERRUPTS=100 $(BIN)/python -m pytest -q \
	    tests/client/cli/test_hostile_options.py tests/client/cli/test_interrupts.py
	ONCELOG_EXAMPLES=all $(BIN)/python -m pytest -q tests/conformance/oauthbearer \
	    tests/conformance/principals tests/conformance/quotas tests/conformance/sasl tests/conformance/scram \
	    tests/cluster/test_throttle.py tests/simulation/cluster/test_crash_matrix.py
	ONCELOG_BROKERS=3 $(BIN)/python -m pytest -q tests/spark/faults tests/spark/record_commit \
	    tests/spark/sink tests/spark/source
	$(BIN)/python -m tests.faults.recoveries --from-torture --folders 50
	ONCELOG_CLUSTER_KILLS=20 $(BIN)/python -m tests.image.cluster
	$(BIN)/python -m tests.image.arm64

test-connector: $(READY) $(CONNECTOR)  ## Spark's own Kafka connector against oncelog (Java 17, Maven)
	$(BIN)/python -m pytest tests/spark/connector

test-ecosystem: $(READY) $(ECOSYSTEM)  ## Streams, Connect and others under kills, against oncelog and Apache Kafka (Java 17, Maven); ROW=streams
	$(BIN)/python -m pytest tests/ecosystem/$(ROW) --numprocesses 2 --dist worksteal -o faulthandler_timeout=850

test-pyspark: $(READY)  ## tests of oncelog's Spark format with another PySpark, V=4.2.1 by default (Java 17)
	mkdir -p build
	echo pyspark==$(V) > build/pyspark-$(V).txt
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/pyspark-$(V)
	VIRTUAL_ENV=build/pyspark-$(V) $(BIN)/uv pip install --quiet --no-verify-hashes \
	    -r requirements/dev.txt --override build/pyspark-$(V).txt
	VIRTUAL_ENV=build/pyspark-$(V) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	build/pyspark-$(V)/bin/python -m pytest tests/spark/source tests/spark/sink tests/spark/settings tests/spark/offsets tests/spark/around

image-test: $(READY)  ## build the image, run it with podman-compose, kill it, and count the results
	$(BIN)/python -m tests.image

pins: $(READY)  ## resolve requirements/ again from the two pyproject.toml
	$(COMPILE) client/pyproject.toml -o requirements/client.txt
	$(COMPILE) pyproject.toml -c requirements/client.txt -o requirements/server.txt
	$(COMPILE) client/pyproject.toml --extra spark -c requirements/client.txt -o requirements/spark.txt
	$(COMPILE) pyproject.toml --extra otel --extra security --extra spark --group dev \
	    -c requirements/server.txt -c requirements/spark.txt -o requirements/dev.txt
	$(COMPILE) pyproject.toml --extra security -c requirements/dev.txt -o requirements/image.txt
	$(COMPILE) pyproject.toml --extra otel --extra test --group docs -c requirements/dev.txt -o requirements/docs.txt
	echo pyspark==4.0.0 | $(COMPILE) - -o requirements/connector.txt
	printf '%s\n' 'quixstreams>=3.28' faust-streaming 'faststream[confluent]' 'confluent-kafka[avro,schemaregistry]' | $(COMPILE) - -o requirements/ecosystem.txt
	echo lifetimes | $(COMPILE) - --no-deps -o requirements/demo.txt
	echo hatchling | $(COMPILE) - -c requirements/dev.txt -o requirements/build.txt
	echo uv | $(COMPILE) - -o requirements/uv.txt

clean:  ## remove the files that the other targets made, but no data
	rm -rf .venv .venv-run .venv-connector .venv-ecosystem .venv-docs .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ── The environments. Each has a stamp file, so that make does not build it twice ────────────────

# Python 3.14 has not been tried, because no interpreter was available: CONTRIBUTING.md, "Python
# versions".
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

# The packages that a broker needs, and hatchling, which builds the project without a network. Below
# 100 MB.
$(RUN): requirements/server.txt requirements/build.txt pyproject.toml
	$(python_check)
	$(PYTHON) -m venv .venv-run
	.venv-run/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes \
	    -r requirements/server.txt -r requirements/build.txt
	.venv-run/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	    --no-build-isolation --editable .
	.venv-run/bin/python -m compileall -q protocol server client
	@touch $@

# demo.txt names one package, without its dependencies: the demo reads its data set, and imports nothing.
$(READY): .venv/.uv requirements/dev.txt requirements/demo.txt pyproject.toml
	$(UV) sync --quiet --require-hashes --compile-bytecode requirements/dev.txt requirements/demo.txt
	$(UV) install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q protocol server client
	@touch $@

# The newest PySpark that has a Kafka connector with all its jars. oncelog's own format needs a newer
# PySpark.
$(CONNECTOR): .venv/.uv requirements/connector.txt
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-connector
	VIRTUAL_ENV=.venv-connector $(BIN)/uv pip sync --quiet --require-hashes \
	    --compile-bytecode requirements/connector.txt
	@touch $@

# Stream processors of which none is imported by oncelog or its other tests.
$(ECOSYSTEM): .venv/.uv requirements/ecosystem.txt
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-ecosystem
	VIRTUAL_ENV=.venv-ecosystem $(BIN)/uv pip sync --quiet --require-hashes \
	    --compile-bytecode requirements/ecosystem.txt
	@touch $@

# Sphinx imports the packages that the site documents, with their dependencies.
$(DOCS): .venv/.uv requirements/docs.txt pyproject.toml
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-docs
	VIRTUAL_ENV=.venv-docs $(BIN)/uv pip sync --quiet --require-hashes \
	    --compile-bytecode requirements/docs.txt requirements/build.txt
	VIRTUAL_ENV=.venv-docs $(BIN)/uv pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@
