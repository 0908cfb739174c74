"""The partitions that this broker hosts: their logs are opened, led and removed as the metadata
image says."""
