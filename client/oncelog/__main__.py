"""`python -m oncelog`: the program `oncelog`."""

from oncelog_client.cli import main

main()
