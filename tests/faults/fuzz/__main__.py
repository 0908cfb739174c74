"""`python -m tests.faults.fuzz --frames 1000000 --seed 7`: send random requests, made from the
message tables, to a new broker. The exit code is 1 if there is an error: a wrong response, a defect
in the broker's log, or a failure of another client."""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import tempfile
from pathlib import Path

from tests.faults.fuzz.running import Findings, fuzz, prepare
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.fuzz", description=__doc__)
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this long")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oncelog-fuzz-") as folder:
        broker = Oncelog(Path(folder), QUICK)
        with broker:
            prepare(broker)
            findings = asyncio.run(
                fuzz(broker, options.frames, options.seed, seconds=options.seconds)
            )
    sys.stdout.write(_report(findings, options.seed))
    return 1 if findings.errors else 0


def _report(of: Findings, seed: int) -> str:
    lines = [
        f"seed {seed}: {of.frames} frames in {of.seconds:.0f} s over {len(of.apis)} APIs and "
        f"versions: {of.answers} got a response, {of.closed} closed their connection, {of.waiting} "
        "had to wait",
        f"another client copied and read {of.rounds} transactions; the auditor checked "
        f"{of.audited} responses in {of.audits} rounds",
        f"{len(of.errors)} errors",
        *of.errors,
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
