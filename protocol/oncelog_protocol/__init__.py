"""The Kafka protocol without any IO: messages, headers, frames, record batches."""

# The only place that holds the version. The build takes the package's metadata from this line.
# Reading the version from the metadata would add 10 ms to every start.
__version__ = "0.1.0"
