"""The package lists its names before it loads any module."""

from __future__ import annotations

import oncelog_client


def test_dir_lists_the_public_names() -> None:
    assert dir(oncelog_client) == sorted(oncelog_client.__all__)
    assert all(getattr(oncelog_client, name) is not None for name in dir(oncelog_client))
