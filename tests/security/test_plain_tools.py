"""One of Kafka's tools without TLS, at a listener with TLS."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.security.secured_broker import SecuredOncelog


def test_a_tool_names_tls_while_it_tries_again(secured: SecuredOncelog, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("default.api.timeout.ms=3000\nrequest.timeout.ms=1000\n")
    words = ("kafka-topics.sh", "--list", "--bootstrap-server", secured.address_of("SSL"))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "oncelog_client.kafka_tools", *words),
            *("--command-config", str(properties)),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    text = done.stdout + done.stderr
    assert done.returncode == 1
    assert "responds, but not in Kafka's protocol (TLS). Set security.protocol to SSL" in text
