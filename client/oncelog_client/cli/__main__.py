"""`python -m oncelog_client.cli`."""

from oncelog_client.cli import main

main()
