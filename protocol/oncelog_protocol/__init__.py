"""The Kafka protocol without any IO: messages, headers, frames, record batches."""

from typing import Final

# The one place: the package's metadata is made of it, and asking that takes a start 10 ms.
__version__: Final = "0.1.0"
