"""The package says what is in it before any of it is loaded."""

from __future__ import annotations

import oncelog_client


def test_dir_lists_the_public_names() -> None:
    assert dir(oncelog_client) == sorted(oncelog_client.__all__)
    assert all(getattr(oncelog_client, name) is not None for name in dir(oncelog_client))
