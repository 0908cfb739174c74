"""Makes Spark's Python workers log the sink's work to standard error. The folder is on their
path."""

from __future__ import annotations

import logging

logging.basicConfig(format="%(asctime)s.%(msecs)03d %(name)s: %(message)s", datefmt="%H:%M:%S")
logging.getLogger("oncelog_client.spark").setLevel(logging.DEBUG)
