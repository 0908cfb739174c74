"""`oncelog storage`: metadata rebuilt from the folders of a data directory, and backed up."""
