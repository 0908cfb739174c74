"""Standard streams that are closed before the program starts (`oncelog … >&-`)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from io import BytesIO

import pytest

from oncelog_client.cli.failures import Failed
from oncelog_client.cli.standard_input import lines_of

PROGRAM = "import sys; from oncelog_client.program import main; sys.argv[0] = 'oncelog'; main()"


def closed(streams: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program with shell redirections that close streams."""
    call = ("bash", "-c", f'exec "$@" {streams}', "bash", sys.executable, "-c", PROGRAM, *arguments)
    return subprocess.run(call, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("arguments", [("--help",), ("completion", "bash")])
def test_output_that_is_closed_is_a_failure_with_a_reason(arguments: tuple[str, ...]) -> None:
    done = closed(">&-", *arguments)
    assert done.stderr == "Error: cannot write to standard output: Bad file descriptor\n"
    assert done.returncode == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_output_to_a_full_device_is_a_failure_with_a_reason() -> None:
    done = closed(">/dev/full", "completion", "bash")
    assert done.stderr == "Error: cannot write to standard output: No space left on device\n"
    assert done.returncode == 1


def test_the_result_is_printed_although_standard_error_is_closed() -> None:
    done = closed("2>&-", "completion", "bash")
    assert (done.returncode, "complete -o nosort" in done.stdout) == (0, True)


def test_without_any_stream_the_exit_code_still_reports_the_failure() -> None:
    done = closed("<&- >&- 2>&-", "completion", "bash")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")


def test_input_that_cannot_be_read_is_named() -> None:
    async def read() -> None:
        with os.fdopen(os.open(os.devnull, os.O_WRONLY), "wb") as unreadable:
            async for _ in lines_of(unreadable, asyncio.Event(), 1):
                pass

    with pytest.raises(Failed, match="cannot read standard input: Bad file descriptor"):
        asyncio.run(read())


def test_a_line_that_is_longer_than_any_record_is_a_failure_with_the_limit() -> None:
    async def read() -> list[bytes]:
        return [
            line async for line in lines_of(BytesIO(b"short\nfar too long"), asyncio.Event(), 8)
        ]

    with pytest.raises(Failed, match=r"longer than 8 bytes \(max\.request\.size\)"):
        asyncio.run(read())
