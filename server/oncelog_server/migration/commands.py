"""`oncelog storage` with the commands that exchange data directories with Apache Kafka, and
the command that makes one."""

from __future__ import annotations

from oncelog_server.migration.export_command import export
from oncelog_server.migration.format_command import format_
from oncelog_server.migration.import_command import import_
from oncelog_server.salvage.commands import storage as storage

storage.add_command(import_)
storage.add_command(export)
storage.add_command(format_)
