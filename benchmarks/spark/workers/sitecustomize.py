"""On the path of Spark's Python workers: each logs the sink's work to standard error."""

from __future__ import annotations

import logging

logging.basicConfig(format="%(asctime)s.%(msecs)03d %(name)s: %(message)s", datefmt="%H:%M:%S")
logging.getLogger("oncelog_client.spark").setLevel(logging.DEBUG)
