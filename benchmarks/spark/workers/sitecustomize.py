"""In the path of Spark's Python workers: each tells on standard error what the sink has done."""

from __future__ import annotations

import logging

logging.basicConfig(format="%(asctime)s.%(msecs)03d %(name)s: %(message)s", datefmt="%H:%M:%S")
logging.getLogger("oncelog_client.spark").setLevel(logging.DEBUG)
