"""Kafka and oncelog accept the same stores, and find the same certificates in them."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from oncelog_protocol.secret import Secret
from oncelog_protocol.security import stores
from oncelog_protocol.security.tls_settings import TlsSettings, TlsSettingsError
from oncelog_protocol.tls.contexts import load_client
from tests.harness.certificates import PASSWORD, Certificates, NoKeytool, keytool
from tests.harness.kafka.compiled import compiled
from tests.harness.kafka.jars import KafkaUnavailable, class_archive, classpath, java
from tests.harness.kafka.kafka import TEST_JVM_OPTIONS

Settings = dict[str, str | None]
TIMEOUT_S: Final = 120.0
SECRETS: Final = ("password", "key", "chain", "certificates")
KEY_PASSWORD: Final = "key-password"
TYPES: Final = ("JKS", "PKCS12", "PEM")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("stores"))


def kafkas(settings: list[Settings], folder: Path) -> list[dict[str, str | list[str]]]:
    try:
        jars = classpath()
        classes = compiled(Path(__file__).with_name("StoreOracle.java"), jars)
    except KafkaUnavailable as reason:
        pytest.skip(f"Apache Kafka cannot be run: {reason}")
    lines = ({name: value for name, value in row.items() if value is not None} for row in settings)
    (folder / "settings").write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = [*TEST_JVM_OPTIONS, *class_archive().options, "-Dorg.apache.logging.log4j.level=OFF"]
    command = [java(), *options, "-cp", f"{jars}:{classes}", "StoreOracle"]
    subprocess.run(
        [*command, str(folder / "settings"), str(folder / "results")],
        check=True, timeout=TIMEOUT_S, capture_output=True,
    )  # fmt: skip
    return [json.loads(line) for line in (folder / "results").read_text().splitlines()]


def ours(row: Settings) -> str | list[str]:
    """Return the chain, or the message of the refusal."""
    try:
        return [der.hex() for der in load_client(settings_of(row)).chain]
    except TlsSettingsError as error:
        return str(error)


def settings_of(row: Settings) -> TlsSettings:
    found: dict[str, str | Secret] = {}
    for name, value in row.items():
        if value is not None:
            field = name.removeprefix("ssl.").replace(".", "_")
            found[field] = Secret(value) if name.endswith(SECRETS) else value
    return TlsSettings()._replace(**found)  # type: ignore[arg-type]


def encrypted_key(key: str) -> str:
    """Return a key in PEM, encrypted with KEY_PASSWORD in a format that Java 17 reads (PBES1)."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no `openssl` on the PATH")
    command = [openssl, "pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES", "-passout"]
    outcome = subprocess.run(
        [*command, f"pass:{KEY_PASSWORD}"],
        input=key, text=True, check=True, capture_output=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    return outcome.stdout


def written(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_key_stores_are_accepted_as_by_kafka(certificates: Certificates, tmp_path: Path) -> None:
    """Every combination of type, file, passwords, key and chain. oncelog reads a store whatever its
    type says."""
    server = certificates.with_intermediate
    encrypted = encrypted_key(server.pkcs8_key())
    try:
        jks = str(server.jks_path)
    except NoKeytool as reason:
        pytest.skip(f"no JKS store: {reason}")
    files = (
        None, jks, str(server.pkcs12_path),
        written(tmp_path, "plain.pem", server.pkcs8_key() + server.chain),
        written(tmp_path, "encrypted.pem", server.chain + encrypted),
    )  # fmt: skip
    names = [f"ssl.{name}" for name in (
        "keystore.type", "keystore.location", "keystore.password", "keystore.key",
        "keystore.certificate.chain", "key.password",
    )]  # fmt: skip
    values = itertools.product(
        TYPES, files, (None, PASSWORD, "wrong"), (None, server.pkcs8_key(), encrypted),
        (None, server.chain), (None, KEY_PASSWORD, PASSWORD),
    )  # fmt: skip
    rows: list[Settings] = [dict(zip(names, row, strict=True)) for row in values]
    different, counts = [], Counter[str]()
    for row, expected in zip(rows, kafkas(rows, tmp_path), strict=True):
        found, shown = ours(row), {name: value and value[-30:] for name, value in row.items()}
        counts["refused" if "refused" in expected else "accepted"] += 1
        if "refused" in expected:
            is_same = isinstance(found, str) or is_of_another_type(row, "keystore")
        else:
            is_same = found == expected["chain"]
        if not is_same:
            different.append((shown, found, expected))
    assert not different, (len(different), different[:6])
    assert counts["accepted"] > 20
    assert counts["refused"] > 500


def test_trust_stores_are_accepted_as_by_kafka(certificates: Certificates, tmp_path: Path) -> None:
    """oncelog reads a store whatever its type says, and refuses a store without readable
    certificates at the start. With Kafka such a store fails every handshake."""
    try:
        files = (
            None, str(certificates.trust_store("JKS")), str(certificates.trust_store("PKCS12")),
            str(certificates.authority_path), str(certificates.server.pkcs12_path),
            str(certificates.with_intermediate.pkcs12_path),
            str(certificates.with_intermediate.jks_path),
            key_and_trust_store(certificates, tmp_path),
        )  # fmt: skip
    except NoKeytool as reason:
        pytest.skip(f"no stores: {reason}")
    names = [f"ssl.truststore.{name}" for name in ("type", "location", "password", "certificates")]
    values = itertools.product(
        TYPES, files, (None, PASSWORD, "wrong"), (None, certificates.authority_pem)
    )
    rows: list[Settings] = [dict(zip(names, row, strict=True)) for row in values]
    different, counts = [], Counter[str]()
    for row, expected in zip(rows, kafkas(rows, tmp_path), strict=True):
        found = ours(row)
        counts["refused" if "refused" in expected else "accepted"] += 1
        if isinstance(found, str):
            is_same = "refused" in expected or expected["trusted"] == []
        elif "refused" in expected:
            is_same = is_of_another_type(row, "truststore")
        else:
            is_same = sorted(trusted(row)) == sorted(expected["trusted"])
        if not is_same:
            different.append((row, found, expected))
    assert not different, (len(different), different[:6])
    assert counts["accepted"] > 20
    assert counts["refused"] > 70


def key_and_trust_store(certificates: Certificates, folder: Path) -> str:
    """Return the path of a PKCS12 store with a key and the authority, as many guides make it."""
    path = folder / "both.p12"
    path.write_bytes(certificates.with_intermediate.pkcs12_path.read_bytes())
    keytool(
        "-importcert", "-alias", "authority", "-file", str(certificates.authority_path),
        "-keystore", str(path), "-storetype", "PKCS12", "-storepass", PASSWORD, "-noprompt",
    )  # fmt: skip
    return str(path)


def trusted(row: Settings) -> list[str]:
    if row["ssl.truststore.certificates"] is not None:
        found = stores.trusted_pem(row["ssl.truststore.certificates"])
    elif row["ssl.truststore.location"] is not None:
        password = row["ssl.truststore.password"]
        data = Path(row["ssl.truststore.location"]).read_bytes()
        found = stores.trusted(data, Secret(password) if password is not None else None)
    else:
        found = ()
    return [der.hex() for der in found]


def is_of_another_type(row: Settings, store: str) -> bool:
    location = row[f"ssl.{store}.location"] or ""
    return location.endswith(".pem") != (row[f"ssl.{store}.type"] == "PEM")
