"""Compose files with TLS and SASL work after a change of the image's name alone: the steps of
`make image-test` with a broker in this process."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from oncelog.testing.ports import reserve_port
from oncelog_client.health import check
from oncelog_client.listener_addresses import listeners
from oncelog_server.broker import Broker
from oncelog_server.config import load_settings
from oncelog_server.environment import OsEnvironment
from tests.harness.certificates import Certificates
from tests.harness.kafka.jars import KafkaUnavailable
from tests.image.round_trip import read_committed, write_transactions
from tests.image.secured_services import (
    SECURED,
    SecuredService,
    client_settings,
    write_secrets,
    write_tool_properties,
)
from tests.image.tool_round_trip import check_tools

TIMEOUT_S = 10.0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("service", SECURED, ids=lambda service: service.name)
async def test_transactions_with_the_settings_of_a_compose_file(
    service: SecuredService, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    certificates = Certificates(tmp_path)
    write_secrets(tmp_path, certificates)
    ports: dict[str, str] = {}

    def here(text: str) -> str:
        """Return the text with a free port in place of each of its ports."""

        def free(found: re.Match[str]) -> str:
            key = found[0]
            return ports.setdefault(key, f":{reserve_port(request.node)}")

        return re.sub(r":\d+", free, text).replace("/etc/kafka/secrets", str(tmp_path))

    environment = {
        name: here(value) if "LISTENERS" in name or name == "KAFKA_OPTS" else value
        for name, value in service.environment.items()
    }
    environment["KAFKA_LOG_DIRS"] = str(tmp_path / "data")
    if "KAFKA_LISTENERS" not in environment:
        advertised = environment["KAFKA_ADVERTISED_LISTENERS"]
        environment["KAFKA_LISTENERS"] = re.sub("://[^:]*:", "://0.0.0.0:", advertised)
    loaded = load_settings(environment=environment, secrets_folder=str(tmp_path))
    files = {line.split(", which")[0] for line in loaded.warnings if line.startswith("other users")}
    assert f"other users may read {tmp_path}/kafka01.keystore.jks" in files
    broker = Broker(loaded.settings, OsEnvironment(loaded.settings.data_directory))
    await broker.start()
    try:
        address = f"localhost{ports[f':{service.port}']}"
        security = client_settings(service, certificates)
        healthy, _, failures = await asyncio.to_thread(check, listeners(environment), TIMEOUT_S)
        assert healthy is not None, failures
        written = await asyncio.to_thread(write_transactions, address, "secured", security)
        read = await asyncio.to_thread(read_committed, address, "secured", security)
        assert read == written
        if service.name.startswith("apache"):  # each takes the start of four JVMs
            tools = tmp_path / "tools"
            tools.mkdir()
            properties = write_tool_properties(service, certificates, tools)
            try:
                await asyncio.to_thread(check_tools, address, properties)
            except KafkaUnavailable as reason:
                pytest.skip(f"Kafka's tools cannot be run: {reason}")
    finally:
        await broker.stop()
