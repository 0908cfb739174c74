"""The Kafka protocol without any IO: messages, headers, frames, record batches."""

# The only place of the version. The package's metadata is made from this line. A read of the
# metadata would add 10 ms to a start.
__version__ = "0.1.0"
