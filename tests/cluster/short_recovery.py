"""`oncelog` with recoveries and imports that raise etcd's revision by 300, not by 10,000: each
revision is a write, and 10,000 writes take 7 s of processor time."""

from __future__ import annotations

from oncelog_server.salvage.planning import lost_metadata

REVISIONS = 300


def main() -> None:
    # Commands import the constant only when they run, so it can be set before that.
    setattr(lost_metadata, "SKIPPED_REVISIONS", REVISIONS)  # noqa: B010  # the name is Final
    from oncelog_client.cli import main as command_line
    from oncelog_client.process import run

    run(command_line)


if __name__ == "__main__":
    main()
