"""The parts of a query that Spark shows hold no secret of its options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.sink_rights import sink_rights
from oncelog_client.spark.source.plan.source_rights import source_rights
from tests.harness.certificates import Identity
from tests.spark.guarded import GuardedOncelog, password_of
from tests.spark.topics import Topics

MODES = ("simple", "extended", "codegen", "cost", "formatted")
REDACTION = "spark.sql.redaction.options.regex"
KEY = "kafka.ssl.keystore.key"
DOCUMENT = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")


@pytest.fixture
def user(guarded: GuardedOncelog, name: str) -> dict[str, str]:
    """The options of a user with a password, a certificate and the rights to copy a topic."""
    topics = Topics(guarded.address)
    topics.create_all([name, f"{name}-from"])
    topics.append(f"{name}-from", [b"once"])
    sink = sink_rights(name, [name], CommitKind.GROUP)
    identity = shown_by_default(guarded, name)
    return guarded.user(name, [*source_rights([f"{name}-from"]), *sink]) | {
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": identity.chain,
        KEY: identity.pkcs8_key(),
    }


def shown_by_default(guarded: GuardedOncelog, name: str) -> Identity:
    """Return a certificate with a key that Spark's default redaction lets through.

    Spark hides an option if its name or its value matches. The default is ``(?i)url``, and the
    base64 of about one key in 200 contains these letters.
    """
    while True:
        identity = guarded.certificates.client(name)
        if not re.search("url", identity.pkcs8_key(), re.IGNORECASE):
            return identity


@contextmanager
def documented_redaction(spark: SparkSession) -> Iterator[None]:
    """Set Spark's setting to the value in the document."""
    (pattern,) = re.findall(rf"`{re.escape(REDACTION)}`\s+to\s+`([^`]+)`", DOCUMENT)
    spark.conf.set(REDACTION, pattern)
    try:
        yield
    finally:
        spark.conf.unset(REDACTION)


def key_of(user: Mapping[str, str]) -> str:
    """Return a line of the private key."""
    return user[KEY].splitlines()[1]


def test_plans_and_progress_show_no_secret_with_the_documented_setting(
    spark: SparkSession,
    user: Mapping[str, str],
    name: str,
    checkpoint: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without the setting Spark shows the private key, and hides the password."""
    read = spark.read.format("oncelog").options(**user).option("subscribe", f"{name}-from").load()
    source = spark.readStream.format("oncelog").options(**user).option("subscribe", f"{name}-from")
    stream = source.option("startingOffsets", "earliest").load()
    sink = stream.select("value").writeStream.format("oncelog").options(**user)
    sink = sink.option("topic", name).option("sinkId", name)
    query = sink.option("checkpointLocation", checkpoint).start()
    query.processAllAvailable()

    def shown() -> str:
        for mode in MODES:
            read.explain(mode=mode)
        stream.explain(True)
        query.explain(True)
        return capsys.readouterr().out + str([query.status, *query.recentProgress])

    before = shown()
    with documented_redaction(spark):
        after = shown()
    query.stop()
    assert key_of(user) in before
    assert "subscribe=" in after
    assert key_of(user) not in after
    assert password_of(name) not in before + after


def test_statements_of_sql_show_no_secret_with_the_documented_setting(
    spark: SparkSession, user: Mapping[str, str], name: str
) -> None:
    given = {**user, "subscribe": f"{name}-from"}
    options = ", ".join(f"`{option}` '{value}'" for option, value in given.items())
    statement = f"EXPLAIN EXTENDED CREATE TEMPORARY VIEW v USING oncelog OPTIONS ({options})"

    def shown() -> str:
        return str(spark.sql(statement).collect()[0][0])

    before = shown()
    with documented_redaction(spark):
        after = shown()
    assert key_of(user) in before
    assert f"{name}-from" in after
    assert key_of(user) not in after
    assert password_of(name) not in before + after
