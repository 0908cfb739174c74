"""The setups of the benchmarked brokers: which loads and which checkouts they are for."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.checkout import Checkout
from benchmarks.lifecycle import GROWTH, GROWTH_OF
from benchmarks.loads import LOADS, setup_of
from benchmarks.perf_tools import tls_settings
from benchmarks.setups import ACLS, PLAIN, TLS, Setup
from benchmarks.targets import ONCELOG, SETTINGS, oncelog_target
from tests.harness.repository import ROOT


@pytest.mark.parametrize("setup", [PLAIN, ACLS, TLS])
def test_a_checkout_from_before_the_security_takes_part_in_plain_loads_only(
    setup: Setup, tmp_path: Path
) -> None:
    assert Checkout(ROOT).make(tmp_path, setup) is not None
    assert (Checkout(tmp_path).make(tmp_path, setup) is not None) is (setup is PLAIN)


@pytest.mark.parametrize("load", LOADS)
def test_a_load_over_tls_has_it_in_its_name(load: str) -> None:
    assert (setup_of(load) is TLS) is ("tls" in load)


@pytest.mark.parametrize("load", GROWTH)
def test_a_growth_over_tls_has_it_in_its_name(load: str) -> None:
    assert (load in GROWTH_OF[TLS]) is ("tls" in load)


def test_only_the_loads_over_tls_meet_a_broker_with_tls(tmp_path: Path) -> None:
    assert oncelog_target(ONCELOG, tmp_path, PLAIN, SETTINGS).tls is None
    target = oncelog_target(ONCELOG, tmp_path, TLS, SETTINGS)
    assert target.tls is not None
    assert target.tls.authority.read_text().startswith("-----BEGIN CERTIFICATE-----")
    assert tls_settings(target.tls)["ssl.truststore.location"] == str(target.tls.authority)
    assert target.plain is not None


def test_all_brokers_have_the_same_certificate(tmp_path: Path) -> None:
    kafka = TLS.kafka(tmp_path / "kafka", {}, ())
    oncelog = TLS.oncelog(tmp_path / "oncelog", {})
    name = "ssl.keystore.location"
    assert kafka._settings[name] == oncelog._settings[name]
