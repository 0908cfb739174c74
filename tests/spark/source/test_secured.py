"""Source and sink of Spark with TLS and SASL, against Apache Kafka."""

from __future__ import annotations

import asyncio
import time
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from oncelog_client.core.consumer_config import consumer_config
from oncelog_client.errors import AuthenticationError, ConfigError
from oncelog_client.spark.source import range_reader
from oncelog_client.spark.source.fetch_socket import FetchSocket
from oncelog_client.spark.source.range_reader import ReadSettings, read_range
from oncelog_client.sync import Producer
from oncelog_client.values import TopicPartition
from tests.client.test_secured_kafka import ROUTES
from tests.harness.kafka.secured import MAX_REAUTH_MS, SecuredKafka, jaas
from tests.spark.session import Spark
from tests.spark.topics import Topics

CANARY = "C4nary-wrong-password"
COUNT = 300


def _written(address: str, settings: dict[str, Any], topic: str, count: int) -> None:
    with Producer(address, **settings) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=0)


def _read(settings: ReadSettings, topic: str, start: int, end: int) -> list[bytes]:
    batches = read_range(settings, TopicPartition(topic, 0), start, end, ["value"])
    found: list[bytes] = pa.Table.from_batches(batches)["value"].to_pylist()
    return found


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: "-".join(filter(None, route)))
def test_a_range_is_read_on_each_listener(
    secured_kafka: SecuredKafka, route: tuple[str, str | None], name: str
) -> None:
    listener, mechanism = route
    address = secured_kafka.addresses[listener]
    client: Any = secured_kafka.client_settings(listener, mechanism)
    _written(address, client, name, COUNT)
    settings = ReadSettings(consumer=consumer_config(address, client), poll_timeout_ms=20_000)
    expected = [b"%d" % number for number in range(COUNT)]
    assert _read(settings, name, 0, COUNT) == expected


def test_the_socket_of_a_reader_renews_its_session(secured_kafka: SecuredKafka, name: str) -> None:
    address = secured_kafka.addresses["SASL_SSL"]
    client: Any = secured_kafka.client_settings("SASL_SSL", "SCRAM-SHA-512")
    _written(address, client, name, COUNT)
    settings = ReadSettings(consumer=consumer_config(address, client), poll_timeout_ms=20_000)
    deadline = time.monotonic() + 5 * MAX_REAUTH_MS / 1000
    sessions: list[float] = []
    sockets: set[FetchSocket] = set()
    while len(sessions) < 3:
        assert time.monotonic() < deadline
        assert len(_read(settings, name, 0, COUNT)) == COUNT
        (idle,) = (held for key, held in range_reader._idle.items() if key[1] == settings.consumer)
        sockets.add(idle)
        if idle._renew_at_ms not in sessions:
            sessions.append(idle._renew_at_ms)
    assert len(sockets) == 1


def test_a_wrong_password_fails_a_range_at_once(secured_kafka: SecuredKafka, name: str) -> None:
    settings: Any = secured_kafka.client_settings("SASL_SSL", "PLAIN")
    settings["sasl_jaas_config"] = jaas("PLAIN", password=CANARY)
    config = consumer_config(secured_kafka.addresses["SASL_SSL"], settings)
    with pytest.raises(AuthenticationError) as caught:
        _read(ReadSettings(consumer=config), name, 0, 1)
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_a_missing_file_is_named_with_the_host_and_the_option(
    secured_kafka: SecuredKafka, name: str, tmp_path: Path
) -> None:
    settings: Any = secured_kafka.client_settings("SASL_SSL", "PLAIN")
    settings["ssl_truststore_location"] = str(tmp_path / "nowhere.pem")
    config = consumer_config(secured_kafka.addresses["SASL_SSL"], settings)
    with pytest.raises(ConfigError, match=r"host \S+: option kafka\.ssl\.truststore\.location: "):
        _read(ReadSettings(consumer=config), name, 0, 1)


def _options(broker: SecuredKafka, password: str | None = None) -> dict[str, str]:
    """Return the options of Spark for SASL_SSL. Certificates in PEM need no file."""
    mechanism = "SCRAM-SHA-256"
    login = jaas(mechanism) if password is None else jaas(mechanism, password=password)
    return {
        "kafka.bootstrap.servers": broker.addresses["SASL_SSL"],
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": login,
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": broker.certificates.authority_pem,
    }


def _numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(0, count, 1, 2).select(col("id").cast("string").alias("value"))


def test_spark_writes_and_reads_over_tls_and_scram_and_shows_no_password(
    spark: SparkSession, spark_driver: Spark, secured_kafka: SecuredKafka, name: str, tmp_path: Path
) -> None:
    """A stream copies one topic to another one. The password of the broker's user is in no file of
    the checkpoint, in no log and in no plan."""
    password = f"p-{name}"
    options = _options(secured_kafka)
    options["kafka.sasl.jaas.config"] = jaas("SCRAM-SHA-256", name, password)
    asyncio.run(secured_kafka.set_password(password, name))
    Topics(secured_kafka.address).create_all([f"{name}-from", f"{name}-to"])
    writer = _numbers(spark, 100).write.format("oncelog").mode("append").options(**options)
    writer.option("topic", f"{name}-from").save()
    source = spark.readStream.format("oncelog").options(**options)
    stream = source.option("subscribe", f"{name}-from").option("startingOffsets", "earliest").load()
    sink = stream.select("value").writeStream.format("oncelog").options(**options)
    query = (
        sink.option("topic", f"{name}-to")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    read = spark.read.format("oncelog").options(**options).option("subscribe", f"{name}-to").load()
    assert sorted(int(row.value) for row in read.collect()) == list(range(100))
    shown = read._jdf.queryExecution().toString() + str(query.lastProgress)
    shown += spark_driver.log.read_text(errors="replace")
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    shown += "".join(file.read_bytes().decode(errors="replace") for file in files)
    assert f"{name}-from" in shown
    assert password not in shown


def test_a_wrong_password_fails_a_query_of_spark_without_showing_it(
    spark: SparkSession, spark_driver: Spark, secured_kafka: SecuredKafka, name: str
) -> None:
    options = _options(secured_kafka, CANARY)
    writer = _numbers(spark, 10).write.format("oncelog").mode("append").options(**options)
    with pytest.raises(PySparkException, match="refuses the authentication") as caught:
        writer.option("topic", name).save()
    shown = "".join(traceback.format_exception(caught.value))
    assert CANARY not in shown + spark_driver.log.read_text(errors="replace")
