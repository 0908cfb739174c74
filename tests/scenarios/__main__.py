"""`python -m tests.scenarios > docs/scenarios.md`."""

from __future__ import annotations

import sys

from tests.scenarios.coverage import shown_by
from tests.scenarios.page import page
from tests.scenarios.rows import all_rows

if __name__ == "__main__":
    rows = all_rows()
    sys.stdout.write(page(rows, shown_by(rows)))
