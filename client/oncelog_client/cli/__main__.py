"""`python -m oncelog_client.cli`."""

from oncelog_client.program import main

main()
