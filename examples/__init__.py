"""Programs that are built on oncelog."""
