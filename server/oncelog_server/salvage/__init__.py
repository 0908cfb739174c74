"""`oncelog storage`: rebuilds the metadata of a data directory from its folders, and backs it
up."""
