"""`python -m oncelog_client.cli`."""

from oncelog_client.cli import main
from oncelog_client.process import run

run(main)
