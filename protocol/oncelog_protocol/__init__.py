"""The Kafka protocol without any IO: messages, headers, frames, record batches."""

# The only place of the version: the package's metadata is made from it, and reading that would add
# 10 ms to a start.
__version__ = "0.1.0"
