"""Makes Spark's Python workers log the sink's work to standard error. Python imports this file at
the start of a worker, because the folder is on the worker's import path."""

from __future__ import annotations

import logging

logging.basicConfig(format="%(asctime)s.%(msecs)03d %(name)s: %(message)s", datefmt="%H:%M:%S")
logging.getLogger("oncelog_client.spark").setLevel(logging.DEBUG)
