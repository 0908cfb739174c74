"""The log lines of one part of the product.

Clients that earlier tests of the process left open, such as the producers that the Spark sink
keeps for its next batch, write log lines as well."""

from __future__ import annotations

import logging

import pytest


def logged(caplog: pytest.LogCaptureFixture, logger: str) -> list[str]:
    """The warnings and errors of `logger`, oldest first."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == logger and record.levelno >= logging.WARNING
    ]
