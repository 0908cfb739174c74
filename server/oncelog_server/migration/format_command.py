"""`oncelog storage format`: make a new data directory, with its first users (KIP-900).

A broker formats an empty directory itself when it starts. The command is for brokers that admit
only authenticated users. It has the options of Kafka's storage tool.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.records import ClusterRecord, FeaturesRecord, ScramCredentialRecord
from oncelog_server.cluster.store import Entry, Snapshot
from oncelog_server.config import Settings, SettingsError, load_settings
from oncelog_server.data_directory.lock import DataDirectory, DirectoryInUse
from oncelog_server.data_directory.ownership import ForeignDirectory, NeedsRecovery, Owner, owner_of
from oncelog_server.log.checkpoints import MetaProperties
from oncelog_server.metadata.founding import NEW_LEVELS, random_uuid
from oncelog_server.migration import markers
from oncelog_server.migration.new_metadata import write_new_metadata
from oncelog_server.salvage.shown import fail
from oncelog_server.security.scram_arguments import ScramArgument, parse_scram

FORMAT_EXAMPLES: Final = """\b
Examples:
  oncelog storage format --add-scram 'SCRAM-SHA-512=[name=alice,password=...]'
  oncelog storage format -t 4L6g3nShT-eMCtK--X86sw -c server.properties --ignore-formatted
"""
REVISION: Final = 1
SALT_BYTES: Final = 20
# Options of Kafka's tool that have no meaning here: they are about controllers and feature levels.
_WITHOUT_EFFECT: Final = {
    "standalone": ("--standalone", "-s"),
    "no_initial_controllers": ("--no-initial-controllers", "-N"),
    "initial_controllers": ("--initial-controllers", "-I"),
    "release_version": ("--release-version", "-r"),
    "feature": ("--feature", "-f"),
}
_FLAGS: Final = ("standalone", "no_initial_controllers")


def _add_options_without_effect(command: Any) -> Any:
    for name, spellings in _WITHOUT_EFFECT.items():
        command = click.option(
            *spellings, name, hidden=True, is_flag=name in _FLAGS, multiple=name == "feature"
        )(command)
    return command


@click.command("format", epilog=FORMAT_EXAMPLES, short_help="Make a directory with first users.")
@click.option("--data", type=click.Path(), help="Data folder.  [./oncelog-data]")
@click.option(
    "--config",
    "-c",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A server.properties, as for `oncelog serve`.",
)
@click.option("--cluster-id", "-t", metavar="ID", help="Id of the cluster.  [random]")
@click.option(
    "--add-scram",
    "-S",
    "scram",
    multiple=True,
    metavar="CREDENTIAL",
    help="A user: SCRAM-SHA-512=[name=alice,password=...], also with iterations and salt.",
)
@click.option(
    "--ignore-formatted", "-g", is_flag=True, help="Leave a formatted directory as it is."
)
@_add_options_without_effect
def format_(
    data: str | None,
    config: Path | None,
    cluster_id: str | None,
    scram: tuple[str, ...],
    ignore_formatted: bool,
    **without_effect: object,
) -> None:
    """Make a new data directory, with the users that may log in first.

    A broker makes an empty directory itself: the command is needed only for first users. An
    interrupted command can be run again. Passwords
    on the command line can be seen by other users of the computer; ONCELOG_BOOTSTRAP_USER_FILE
    names a file instead.
    """
    settings = _settings(config, data)
    users = _users(scram)
    _note_without_effect(without_effect)
    if cluster_id == "":
        fail("--cluster-id is empty")
    directory = DataDirectory(settings.data_directory)
    path = directory.path
    try:
        if _is_begun(path):
            directory.take()
        elif not _is_formatted(path):
            directory.lock()
        if _is_formatted(path):
            if not ignore_formatted:
                fail(
                    f"Log directory {path} is already formatted. Use --ignore-formatted to ignore "
                    "this directory and format the others."
                )
            click.echo("All of the log directories are already formatted.")
            return
        meta = MetaProperties(
            cluster_id or uuid_to_string(random_uuid()),
            settings.node_id,
            uuid_to_string(random_uuid()),
        )
        markers.begin(path, markers.FORMAT)
        write_new_metadata(path, _snapshot(meta.cluster_id, users), meta, lambda what: None)
        markers.end(path)
    except (DirectoryInUse, ForeignDirectory, NeedsRecovery, OSError) as error:
        fail(str(error))
    finally:
        directory.release()
    click.echo(f"Formatted {path} for node {meta.node_id} of cluster {meta.cluster_id}.")
    for user in users:
        click.echo(f"User {user.user} logs in with {user.mechanism.sasl}.")


def _is_begun(path: Path) -> bool:
    """Return True if an earlier format of the directory has not ended."""
    return owner_of(path) is Owner.MIGRATING and markers.source_of(path) == markers.FORMAT


def _is_formatted(path: Path) -> bool:
    return owner_of(path) is Owner.ONCELOG


def _settings(config: Path | None, data: str | None) -> Settings:
    try:
        return load_settings(config_file=config, environment=os.environ, data=data).settings
    except SettingsError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{config}: {error.strerror}")


def _users(scram: Sequence[str]) -> list[ScramArgument]:
    users = []
    for argument in scram:
        try:
            users.append(parse_scram(argument))
        except ValueError as error:
            fail(str(error))
    if any(user.password is not None for user in users):
        click.echo(
            "warning: --add-scram shows the password to other users of this computer. "
            "ONCELOG_BOOTSTRAP_USER_FILE names a file instead",
            err=True,
        )
    return users


def _note_without_effect(given: Mapping[str, object]) -> None:
    names = [_WITHOUT_EFFECT[name][0] for name, value in given.items() if value]
    if names:
        click.echo(f"accepted without effect: {', '.join(names)}", err=True)


def _snapshot(cluster_id: str, users: Sequence[ScramArgument]) -> Snapshot:
    """Return the first records of a cluster with these users. If a user has two credentials for a
    mechanism, the last one counts."""
    values: dict[str, Any] = {
        records.CLUSTER: ClusterRecord(cluster_id),
        records.FEATURES: FeaturesRecord(NEW_LEVELS),
    }
    for user in users:
        credential = user.credential(os.urandom(SALT_BYTES))
        key = records.scram_key(user.mechanism, user.user)
        values[key] = ScramCredentialRecord(*credential)
    entries = [
        Entry(key, records.encode(value), REVISION, REVISION)
        for key, value in sorted(values.items())
    ]
    return Snapshot(REVISION, tuple(entries))
