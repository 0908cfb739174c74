"""Our CRC-32C equals that of the package `crc32c`, and loads no other part of the package."""

from __future__ import annotations

import subprocess
import sys

import crc32c
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol import checksum


@given(st.binary(), st.integers(0, 2**32 - 1))
def test_the_checksum_is_that_of_the_package(data: bytes, before: int) -> None:
    assert checksum.crc32c(data) == crc32c.crc32c(data)
    assert checksum.crc32c(memoryview(data), before) == crc32c.crc32c(data, before)


def test_the_known_answer_of_rfc_3720() -> None:
    assert checksum.crc32c(bytes(32)) == 0x8A9136AA


def test_nothing_of_the_package_but_its_function_is_loaded() -> None:
    code = (
        "import sys, oncelog_protocol.checksum\n"
        "print(sorted({'crc32c', 'argparse', 'importlib.metadata'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
