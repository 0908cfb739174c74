"""The Kafka protocol without any IO: messages, headers, frames, record batches."""

# The one place: the package's metadata is made of it, and asking that takes a start 10 ms.
__version__ = "0.1.0"
