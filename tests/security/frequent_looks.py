"""`python -m tests.security.frequent_looks serve ...`: a broker that looks for changed certificates
several times a second, not once a minute."""

from __future__ import annotations

from typing import Final

from oncelog_server.__main__ import main
from oncelog_server.network import admissions

LOOK_MS: Final = 250

if __name__ == "__main__":
    admissions.FILES_MS = LOOK_MS  # type: ignore[misc]  # final for the broker
    main(prog_name="oncelog_server")
