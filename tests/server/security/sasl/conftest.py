"""An issuer of tokens, and the operations of an exchange that take time, so that two exchanges can
be compared."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from tests.harness.bearer_tokens import Issuer

# The functions of `hmac` and `hashlib`, and the functions in C that these call.
_TAKING_TIME = {"digest", "hmac_digest", "compare_digest", "new", "pbkdf2_hmac"}


@pytest.fixture
def hashes() -> Callable[[Callable[[], object]], list[str]]:
    """Return a function that returns the names of the hashes and comparisons in a call, in order.
    The measured time of a call would vary with the load of the computer."""

    def recorded(call: Callable[[], object]) -> list[str]:
        names: list[str] = []

        def record(frame: FrameType, event: str, argument: object) -> None:
            if event == "call" and frame.f_code.co_filename.endswith(("hmac.py", "hashlib.py")):
                names.append(frame.f_code.co_name)
            if event == "c_call" and getattr(argument, "__name__", "") == "compare_digest":
                names.append("compare_digest")

        before = sys.getprofile()
        sys.setprofile(record)
        try:
            call()
        finally:
            sys.setprofile(before)
        return [name for name in names if name in _TAKING_TIME]

    return recorded


@pytest.fixture(scope="package")
def issuer() -> Issuer:
    """The issuer of the tokens, with keys that take a second to make."""
    return Issuer()
