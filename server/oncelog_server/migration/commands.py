"""`oncelog storage` with the commands that exchange data directories with Apache Kafka."""

from __future__ import annotations

from oncelog_server.migration.export_command import export
from oncelog_server.migration.import_command import import_
from oncelog_server.salvage.commands import storage as storage

storage.add_command(import_)
storage.add_command(export)
