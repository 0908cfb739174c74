"""The test files that share a process of xdist, and run there one after another.

Spark and Apache Kafka start once in each process that needs them. During a run, each further Spark
or Kafka takes 30 to 50 s of processor time. So the files that need Spark share two processes, and
the other files that need Kafka share two. One process for all files with Kafka could end long after
the others. The files that parse all sources share one process, too.
"""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadFileScheduling

SPARK: Final = "spark"
# The files that kill Spark's processes at each step of the sink's protocol, or lose responses.
SPARK_STEPS: Final = "spark-steps"
KAFKA: Final = "kafka"
# The files about our client, its command line, and our tools with Kafka's names.
KAFKA_CLIENT: Final = "kafka-client"
# Files that ask classes of Kafka, each in a JVM of its own. They need no running Kafka.
ORACLES: Final = "oracles"
# The file that starts its own Kafka, with access rules.
RIGHTS: Final = "rights"
# The files that read the syntax trees of all sources. Each file is parsed once in a process.
TREES: Final = "trees"
# Files that start Spark or Kafka for themselves alone. Any process may run them, even while another
# process runs the other files of their folder.
ALONE: Final = None
# The order in which the shared processes start. The last ones are short.
LONGEST_FIRST: Final = (SPARK, SPARK_STEPS, KAFKA, KAFKA_CLIENT, RIGHTS, ORACLES, TREES)

# The key is the beginning of a path, the value is the name of the process that runs all files with
# this beginning. Any other file shares no process.
PROCESSES: Final[dict[str, str | None]] = {
    "tests/client/admin/test_admin_transactions.py": KAFKA_CLIENT,
    "tests/client/cli/test_abort.py": KAFKA_CLIENT,
    "tests/client/cli/test_config.py": KAFKA_CLIENT,
    "tests/client/cli/test_groups.py": KAFKA_CLIENT,
    "tests/client/cli/test_nouns.py": KAFKA_CLIENT,
    "tests/client/cli/test_produce_consume.py": KAFKA_CLIENT,
    "tests/client/cli/test_quotas.py": KAFKA_CLIENT,
    "tests/client/cli/test_reading.py": KAFKA_CLIENT,
    "tests/client/cli/test_secured.py": KAFKA_CLIENT,
    "tests/client/cli/test_topics.py": KAFKA_CLIENT,
    "tests/client/cli/test_transactions.py": KAFKA_CLIENT,
    "tests/client/cli/test_users.py": KAFKA_CLIENT,
    "tests/client/io/test_auto_commit.py": KAFKA_CLIENT,
    "tests/client/io/test_group_session.py": KAFKA_CLIENT,
    "tests/client/io/test_positions.py": KAFKA_CLIENT,
    "tests/client/test_admin_against_broker.py": KAFKA_CLIENT,
    "tests/client/test_acls_against_broker.py": KAFKA_CLIENT,
    "tests/client/test_against_broker.py": KAFKA_CLIENT,
    "tests/client/test_group_transactions_against_broker.py": KAFKA_CLIENT,
    "tests/client/test_hijacked_copiers.py": KAFKA_CLIENT,
    "tests/client/test_misuse.py": KAFKA_CLIENT,
    "tests/client/test_mixed_groups.py": KAFKA_CLIENT,
    "tests/client/test_otel.py": KAFKA_CLIENT,
    "tests/client/test_recreated_topics.py": KAFKA_CLIENT,
    "tests/client/test_reset_by_duration.py": KAFKA_CLIENT,
    "tests/client/test_secured_kafka.py": KAFKA_CLIENT,
    "tests/client/test_send_encoded.py": KAFKA_CLIENT,
    "tests/client/test_serializers.py": KAFKA_CLIENT,
    "tests/client/test_shared_transactional_id.py": KAFKA_CLIENT,
    "tests/client/test_shared_transactions_against_broker.py": KAFKA_CLIENT,
    "tests/client/test_state_log_against_broker.py": KAFKA_CLIENT,
    "tests/client/test_sync.py": KAFKA_CLIENT,
    "tests/client/test_transactions_against_broker.py": KAFKA_CLIENT,
    "tests/client/test_two_phase.py": KAFKA_CLIENT,
    "tests/client/test_unanswered.py": KAFKA_CLIENT,
    "tests/client/test_users_against_broker.py": KAFKA_CLIENT,
    "tests/conformance/": KAFKA,
    "tests/conformance/authorizer/": ORACLES,
    "tests/conformance/kafka_names/": KAFKA_CLIENT,
    "tests/conformance/oauthbearer/": ORACLES,
    "tests/conformance/principals/": ORACLES,
    "tests/conformance/quotas/": ORACLES,
    "tests/conformance/rights/": RIGHTS,
    "tests/conformance/sasl/": ORACLES,
    "tests/conformance/scram/": ORACLES,
    "tests/conformance/stores/": ORACLES,
    "tests/conformance/test_failures.py": ALONE,
    "tests/conformance/test_id_expiry.py": ALONE,
    "tests/conformance/test_metrics.py": ALONE,
    "tests/conformance/test_mirror_maker.py": ALONE,
    "tests/conformance/test_offline_partitions.py": ALONE,
    "tests/conformance/test_restarted_apart.py": ALONE,
    "tests/conformance/test_wire_acls.py": ALONE,
    "tests/conformance/test_wire_quotas.py": ALONE,
    "tests/image/test_secured_compose.py": ORACLES,
    "tests/spark/around/test_listener.py": SPARK,
    "tests/spark/around/test_shown_options.py": SPARK,
    "tests/spark/around/test_spark_document.py": SPARK,
    "tests/spark/faults/": SPARK,
    "tests/spark/faults/test_group_steps.py": SPARK_STEPS,
    "tests/spark/faults/test_kafka_steps.py": SPARK_STEPS,
    "tests/spark/faults/test_record_steps.py": SPARK_STEPS,
    "tests/spark/faults/test_standalone.py": ALONE,
    "tests/spark/record_commit/": SPARK,
    "tests/spark/record_commit/test_crashes.py": SPARK_STEPS,
    "tests/spark/record_commit/test_losses.py": SPARK_STEPS,
    "tests/spark/records/test_range_reader.py": SPARK,
    "tests/spark/rights/test_in_spark.py": SPARK,
    "tests/spark/sink/test_batch.py": SPARK,
    "tests/spark/sink/test_stage_retry.py": SPARK,
    "tests/spark/sink/test_streaming.py": SPARK,
    "tests/spark/source/": SPARK,
    "tests/spark/test_session.py": SPARK,
    "tests/test_layout.py": TREES,
    "tests/test_tidy.py": TREES,
    "tests/test_words.py": TREES,
    "tests/testing/test_plugin_on_kafka.py": KAFKA_CLIENT,
}
# The fixtures that start Spark or Kafka, or that give a test the address of a running one. Each has
# the folder of its conftest.py, because fixtures of other folders may have the same name.
FIXTURES: Final = {
    ("tests/spark", "spark_driver"): {SPARK, SPARK_STEPS},
    ("tests", "kafka"): {KAFKA, KAFKA_CLIENT, SPARK, SPARK_STEPS},
    ("tests", "secured_kafka"): {KAFKA, KAFKA_CLIENT, SPARK},
    ("tests/client", "bootstrap"): {KAFKA_CLIENT},
    ("tests/client/cli", "command_line"): {KAFKA_CLIENT},
    ("tests/conformance", "target"): {KAFKA, KAFKA_CLIENT},
}


def process_of(path: str) -> str:
    """Return the name of the process that runs a file's tests, or the path if the file shares no
    process. `path` begins with `tests/`."""
    prefixes = [prefix for prefix in PROCESSES if path.startswith(prefix)]
    process = PROCESSES[max(prefixes, key=len)] if prefixes else ALONE
    return process or path


def ends_process(path: str, following: str) -> bool:
    """Return True if a file is the last of a shared process, where `following` comes after it. An
    idle Spark or Kafka takes processor time to the end of the run."""
    process = process_of(path)
    return process in LONGEST_FIRST and process_of(following) != process


def turn_of(path: str) -> int:
    """Return the place of a file's process in LONGEST_FIRST. A file that shares no process comes
    after all of them."""
    process = process_of(path)
    return len(LONGEST_FIRST) if process == path else LONGEST_FIRST.index(process)


class Distribution(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """xdist's scheduler for `--dist loadfile`, with the shared processes of `PROCESSES`."""

    def _split_scope(self, nodeid: str) -> str:
        return process_of(str(super()._split_scope(nodeid)))
