"""`python -m oncelog`: the program `oncelog`."""

from oncelog_client.program import main

main()
