"""`oncelog cluster export`, `import`, `recover` and `survey`: the metadata of a cluster in etcd."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import click

from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.internal_topics import internal_topic
from oncelog_server.cluster.store import MetadataStore, Snapshot
from oncelog_server.cluster.topic_names import CONSUMER_OFFSETS, SINKS, TRANSACTION_STATE
from oncelog_server.config import Settings
from oncelog_server.data_directory.lock import DirectoryInUse
from oncelog_server.data_directory.ownership import NeedsRecovery
from oncelog_server.metadata.founding import NEW_LEVELS
from oncelog_server.salvage.changes import replace_file
from oncelog_server.salvage.cluster_store import (
    FROM_DIRECTORIES,
    FROM_ETCD,
    FROM_FILE,
    Present,
    read,
    restore,
)
from oncelog_server.salvage.command_options import (
    config_option,
    set_option,
    verbose_option,
    yes_option,
)
from oncelog_server.salvage.etcd_access import call_etcd, etcd_settings, place_in_etcd
from oncelog_server.salvage.exports import read_export, write_export
from oncelog_server.salvage.planning.directories import SurveyedDirectory
from oncelog_server.salvage.planning.known import Known, Uncertain
from oncelog_server.salvage.planning.metadata_age import last_revision
from oncelog_server.salvage.planning.restoration import Restoration, Restorer, restored_export
from oncelog_server.salvage.shown import count, fail, show_lines, show_unchanged, size_of
from oncelog_server.salvage.surveys import encode_survey, read_survey, survey
from oncelog_server.storage.files import StorageError

_INTERNAL: Final = (CONSUMER_OFFSETS, TRANSACTION_STATE, SINKS)

EXPORT_EXAMPLES: Final = """\b
Examples:
  oncelog cluster export backup.txt --config server.properties
  oncelog cluster export backup.txt --set oncelog.etcd.endpoints=http://etcd:2379
"""
IMPORT_EXAMPLES: Final = """\b
Examples:
  oncelog cluster import backup.txt --config server.properties
  oncelog cluster import backup.txt --config server.properties --yes
"""
RECOVER_EXAMPLES: Final = """\b
Examples:
  oncelog cluster recover data-1 data-2 data-3 --config server.properties --from backup.txt
  oncelog cluster recover 1.survey 2.survey --without 3 --config server.properties --yes
  oncelog cluster recover data-1 data-2 --brokers 1,2 --config server.properties --yes
"""
SURVEY_EXAMPLES: Final = """\b
Examples:
  oncelog cluster survey data-1 1.survey
"""

_file = click.argument("file", type=click.Path(path_type=Path))


class _Ids(click.ParamType):  # type: ignore[type-arg]  # click 8.4 made it generic
    """Broker ids, separated by commas."""

    name = "IDS"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> frozenset[int]:
        if isinstance(value, frozenset):
            return value
        try:
            return frozenset(int(text) for text in value.split(","))
        except ValueError:
            self.fail(f"{value!r}: broker ids are separated by commas: 1,2,3")


_IDS: Final = _Ids()
_ERRORS: Final = (DirectoryInUse, NeedsRecovery, OSError, StorageError, ValueError)


@click.command(epilog=EXPORT_EXAMPLES, short_help="Write the metadata in etcd to a file.")
@_file
@config_option
@set_option
def export(file: Path, config: Path | None, assignments: tuple[str, ...]) -> None:
    """Write the metadata of a cluster from etcd to a new FILE. The brokers may run meanwhile.

    It is the metadata at one moment: topics, ids, settings, users, access rules and quotas. It has
    no records of topics. FILE has the password hashes of users (SCRAM) and the secret that all
    brokers share, so only its owner may read it (mode 0600).
    """
    settings = etcd_settings(config, assignments)
    try:
        snapshot = call_etcd(settings, _exported)
        number = write_export(file, snapshot)
    except _ERRORS as error:
        fail(str(error))
    click.echo(
        f"{count(number, 'record')} at revision {snapshot.revision} written to {file}: only the "
        "metadata, no records of topics"
    )


@click.command(epilog=IMPORT_EXAMPLES, short_help="Write exported metadata to an empty etcd.")
@_file
@config_option
@set_option
@yes_option
@verbose_option
def import_(
    file: Path, config: Path | None, assignments: tuple[str, ...], yes: bool, verbose: bool
) -> None:
    """Write exported metadata to an etcd that has lost the metadata of its cluster. Stop all
    brokers first.

    A broker that has seen later metadata than that of the export does not start then: `oncelog
    cluster recover` with the brokers' data directories finds the later topics and epochs. A data
    directory notes each new topic and partition before it has a record, and other changes within a
    minute or at a stop. An interrupted import can be run again.
    """
    settings = etcd_settings(config, assignments)
    try:
        plan = restored_export(read_export(file))
        present = call_etcd(settings, read)
        present.check_import()
        _carry_out(settings, present, plan, FROM_FILE, yes=yes, verbose=verbose)
    except _ERRORS as error:
        fail(str(error))


@click.command(epilog=RECOVER_EXAMPLES, short_help="Rebuild the metadata in etcd after a loss.")
@click.argument(
    "directories", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path)
)
@click.option(
    "--from",
    "export_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The newest file of `oncelog cluster export`.",
)
@click.option(
    "--brokers",
    type=_IDS,
    default=frozenset(),
    help="The ids of all brokers, such as 1,2,3. Needed if no metadata is left, or if a directory "
    "has seen later metadata.",
)
@click.option(
    "--without",
    type=_IDS,
    default=frozenset(),
    help="The ids of brokers with a lost data directory.",
)
@config_option
@set_option
@yes_option
@verbose_option
def recover(
    directories: tuple[Path, ...],
    export_file: Path | None,
    brokers: frozenset[int],
    without: frozenset[int],
    config: Path | None,
    assignments: tuple[str, ...],
    yes: bool,
    verbose: bool,
) -> None:
    """Rebuild the metadata of a cluster in etcd, after etcd was lost or restored from an older
    snapshot. Stop all brokers first.

    DIRECTORIES are the data directories of all brokers, or files of `oncelog cluster survey` for
    those of other computers. Settings, users and rules come from the newest metadata that is left:
    --from, or what etcd has. Data directories are only read. An interrupted recovery can be run
    again.
    """
    settings = etcd_settings(config, assignments)
    try:
        present = call_etcd(settings, read)
        facts = [read_survey(path) if path.is_file() else survey(path) for path in directories]
        known, source, unused = _source(present, export_file, facts)
        plan = _restorer(settings, facts, known, brokers, without).plan()
        found = [_described(directory) for directory in facts]
        if known is not None:
            found.append(f"{known.source}, revision {known.snapshot.revision}")
        if unused is not None:
            found.append(f"not used: {unused.source}, revision {unused.snapshot.revision}")
        show_lines("Found", found, verbose)
        _carry_out(settings, present, plan, source, yes=yes, verbose=verbose)
    except _ERRORS as error:
        fail(str(error))


@click.command(
    "survey", epilog=SURVEY_EXAMPLES, short_help="Examine a data directory for a recovery."
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@_file
def survey_(directory: Path, file: Path) -> None:
    """Write what a recovery needs to know about the data DIRECTORY of a stopped broker to FILE.

    FILE must be new. Every batch is read, and nothing is changed. Give FILE to `oncelog cluster
    recover` on another computer.
    """
    try:
        if file.exists():
            raise FileExistsError(f"{file} exists: give the survey a new name")
        facts = survey(directory)
        replace_file(file, encode_survey(facts))
    except _ERRORS as error:
        fail(str(error))
    click.echo(f"{_described(facts)} written to {file}")


async def _exported(store: MetadataStore) -> Snapshot:
    snapshot = await store.range("")
    if not any(entry.key == records.CLUSTER for entry in snapshot.entries):
        raise Uncertain(
            "there is no cluster in etcd: check oncelog.etcd.endpoints and oncelog.etcd.prefix"
        )
    return snapshot


def _source(
    present: Present, export_file: Path | None, directories: list[SurveyedDirectory]
) -> tuple[Known | None, str, Known | None]:
    """Return the newest metadata that is left, the name of its source, and the other metadata."""
    known = present.known()
    exported = None if export_file is None else read_export(export_file)
    if exported is not None and (
        known is None or last_revision(known, directories) < exported.snapshot.revision
    ):
        return exported, FROM_FILE, known
    if known is not None:
        return known, FROM_ETCD, exported
    if present.is_interrupted and present.restored and present.restored.source == FROM_FILE:
        fail("an import or recovery from a file was interrupted: give the file with --from")
    return None, FROM_DIRECTORIES, None


def _restorer(
    settings: Settings,
    facts: list[SurveyedDirectory],
    known: Known | None,
    brokers: frozenset[int],
    without: frozenset[int],
) -> Restorer:
    internal = {
        name: {
            key: text
            for key, text in internal_topic(ClusterImage(), settings, name).settings.items()
            if text is not None
        }
        for name in _INTERNAL
    }
    return Restorer(
        facts,
        known,
        brokers=brokers,
        without=without,
        features=NEW_LEVELS,
        internal_settings=internal,
    )


def _described(directory: SurveyedDirectory) -> str:
    clean = "" if directory.clean_stop_epoch else ", not stopped cleanly"
    return (
        f"broker {directory.node_id} with {count(len(directory.folders), 'folder')} of partitions, "
        f"revision {directory.revision}{clean}"
    )


def _carry_out(
    settings: Settings,
    present: Present,
    plan: Restoration,
    source: str,
    *,
    yes: bool,
    verbose: bool,
) -> None:
    """Show the plan, and carry it out with `yes`."""
    lines = [
        f"{place_in_etcd(settings)}, gets cluster {plan.cluster.id}: "
        f"{size_of(write.key for write in plan.writes)}",
        f"etcd is raised above revision {plan.floor}, because revisions must never go back",
        *plan.notes,
    ]
    show_lines("Plan", lines, verbose)
    if not yes:
        show_unchanged()
        return
    progress = _Progress()
    call_etcd(settings, lambda store: restore(store, present, plan, source, progress))
    click.echo("\nDone. Start the brokers.")


class _Progress:
    """Shows on a terminal how far etcd's revision is."""

    def __init__(self) -> None:
        self._shown = 0

    def __call__(self, revision: int, floor: int) -> None:
        percent = 100 * revision // max(floor, 1)
        if percent > self._shown and sys.stderr.isatty():
            self._shown = percent
            click.echo(f"\rrevision {revision} of {floor}", err=True, nl=percent >= 100)
