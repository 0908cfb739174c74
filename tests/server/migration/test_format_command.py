"""`oncelog storage format`: a data directory with first users."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from oncelog_protocol.security.scram_credential import ScramCredential, ScramMechanism
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.data_directory.ownership import (
    ForeignDirectory,
    Owner,
    check_ownership,
    owner_of,
)
from oncelog_server.log.checkpoints import decode_meta_properties
from oncelog_server.metadata.database import Database
from oncelog_server.migration import markers
from oncelog_server.migration.commands import storage

SHA_512 = ScramMechanism.SCRAM_SHA_512
ALICE = "SCRAM-SHA-512=[name=alice,password=a-secret]"
BOB = "SCRAM-SHA-256=[name=bob,iterations=8192,salt=c2FsdA==,password=b-secret]"


def format_(*arguments: str) -> Result:
    """Run `oncelog storage format`. No output may have a password."""
    result = CliRunner().invoke(storage, ["format", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "-secret" not in result.output + result.stderr
    return result


def credentials(data: Path) -> dict[tuple[ScramMechanism, str], ScramCredential]:
    """Return the credentials in the store of a stopped broker."""
    database = Database(data / "oncelog-metadata.sqlite", may_be_new=False)
    snapshot = database.range("")
    database.close()
    return dict(ClusterImage.of(snapshot).scram_credentials)


def test_two_formatted_directories_have_other_salts(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert format_("--data", str(tmp_path / name), "-S", ALICE).exit_code == 0
    first, second = (credentials(tmp_path / name)[SHA_512, "alice"] for name in ("a", "b"))
    assert first.salt != second.salt
    assert len(first.salt) == 20


def test_the_settings_name_the_directory_and_the_node(tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text(f"node.id=7\nlog.dirs={tmp_path / 'here'}\n")
    kafkas = ("--standalone", "--release-version", "4.3", "-f", "kraft.version=1")
    result = format_("-c", str(settings), "--add-scram", ALICE, *kafkas)
    assert result.exit_code == 0, result.output
    assert "accepted without effect: " in result.stderr
    meta = decode_meta_properties((tmp_path / "here" / "meta.properties").read_bytes())
    assert meta.node_id == 7
    assert set(credentials(tmp_path / "here")) == {(SHA_512, "alice")}


def test_a_formatted_directory_is_refused_or_left_as_it_is(tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert format_("--data", str(data), "-S", ALICE).exit_code == 0
    before = (data / "meta.properties").read_bytes()
    again = format_("--data", str(data), "-S", BOB)
    assert again.exit_code == 1
    assert f"Log directory {data} is already formatted. Use --ignore-formatted" in again.stderr
    ignored = format_("--data", str(data), "-S", BOB, "--ignore-formatted")
    assert ignored.exit_code == 0
    assert "All of the log directories are already formatted." in ignored.stdout
    assert set(credentials(data)) == {(SHA_512, "alice")}
    assert (data / "meta.properties").read_bytes() == before


class _Died(BaseException):
    """Raised instead of a change of the disk, as if the process had died before the change."""


def interrupted(data: Path, last: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run a format that dies after `last` changes of names. Return False if it has fewer changes.
    A dead process leaves the lock free."""
    left = [last]

    def dying(change: Callable[..., None]) -> Callable[..., None]:
        def made(*arguments: Any, **options: Any) -> None:
            if not left[0]:
                raise _Died
            left[0] -= 1
            change(*arguments, **options)

        return made

    with monkeypatch.context() as patch:
        for name in ("mkdir", "rename", "replace", "unlink"):
            patch.setattr(os, name, dying(getattr(os, name)))
        try:
            assert format_("--data", str(data), "-S", ALICE).exit_code == 0
        except _Died:
            return True
    return False


def test_a_format_that_is_cut_short_anywhere_can_be_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is complete, no broker starts on the directory."""
    changes = 0
    while interrupted(data := tmp_path / f"{changes}", changes, monkeypatch):
        assert owner_of(data) in (Owner.EMPTY, Owner.MIGRATING)
        if owner_of(data) is Owner.MIGRATING:
            with pytest.raises(ForeignDirectory, match="run the same `oncelog storage format`"):
                check_ownership(data)
        again = format_("--data", str(data), "-S", BOB)
        assert again.exit_code == 0, again.stderr
        assert {user for _, user in credentials(data)} == {"bob"}
        changes += 1
        assert sorted(path.name for path in data.iterdir()) == [
            ".lock",
            "meta.properties",
            "oncelog-metadata.sqlite",
            "oncelog-metadata.txt",
        ]
    assert changes >= 6
    assert owner_of(data) is Owner.ONCELOG


def test_a_format_takes_no_directory_of_an_interrupted_import(tmp_path: Path) -> None:
    markers.begin(tmp_path, tmp_path)
    result = format_("--data", str(tmp_path), "-S", ALICE)
    assert result.exit_code == 1
    assert "an import or export that has not ended" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["oncelog-migration"]


def test_a_directory_of_another_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").touch()
    result = format_("--data", str(tmp_path), "-S", ALICE)
    assert result.exit_code == 1
    assert "is not a data directory of oncelog" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["photo.jpg"]


@pytest.mark.parametrize(
    ("argument", "reason"),
    [
        ("SCRAM-SHA-512:a-secret", "Failed to find equals sign"),
        ("SCRAM-SHA-512=[name=alice,password=x,a-secret]", "No equals sign found"),
        ("SCRAM-SHA-1=[name=alice,password=a-secret]", "SCRAM-SHA-1 is not supported"),
        ("SCRAM-SHA-256=[name=alice,password=a-secret,iterations=1]", "must be >= 4096"),
        ("SCRAM-SHA-256=[name=,password=a-secret]", "Username must not be empty"),
        ("SCRAM-SHA-256=[name=alice,password=]", "Password must not be empty"),
    ],
)
def test_an_invalid_credential_formats_nothing(tmp_path: Path, argument: str, reason: str) -> None:
    data = tmp_path / "data"
    result = format_("--data", str(data), "-S", ALICE, "-S", argument)
    assert result.exit_code == 1
    assert reason in result.stderr
    assert not data.exists()
