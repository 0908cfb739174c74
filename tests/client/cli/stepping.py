"""A command of the program `oncelog` that gets SIGINT at a chosen step, not at a chosen time. A
step is a line in `oncelog_client.cli` or a turn of the event loop."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

# One process imports everything and forks a child for each run, so that a run takes 50 ms.
_DRIVER: Final = r"""
import asyncio.events, json, os, select, signal, sys, time
from oncelog_client import process, program
from oncelog_client.cli import consume, oncelog, produce

COMMAND_LINE = os.path.dirname(consume.__file__)
PROGRAM = (process.__file__, program.__file__)

# As in tests.harness.watch, time in the queue for a processor does not count.
def queued_s(thread):
    try:
        with open(f"/proc/{thread}/schedstat") as numbers:
            return int(numbers.read().split()[1]) / 1e9
    except (FileNotFoundError, ProcessLookupError):
        return 0.0

class Steps:
    def __init__(self, at, moments):
        self.seen, self.at, self.moments = 0, set(at), moments
        self.started = False

    def step(self):
        # As long as SIGINT has the interpreter's own handler, the command has not begun.
        self.started |= signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        if not self.started:
            return
        self.seen += 1
        if self.seen in self.at:
            os.write(self.moments, b"%.6f\n" % (time.monotonic() - queued_s("self")))
            os.kill(os.getpid(), signal.SIGINT)

    def lines(self):
        def each(frame, event, argument):
            if event == "line":
                self.step()
            return each
        def call(frame, event, argument):
            name = frame.f_code.co_filename
            return each if name.startswith(COMMAND_LINE) or name in PROGRAM else None
        sys.settrace(call)

    def turns(self):
        plain = asyncio.events.Handle._run
        def run(handle):
            self.step()
            plain(handle)
        asyncio.events.Handle._run = run

def child(run, inputs, outputs, errors, moments):
    for descriptor, number in ((inputs, 0), (outputs, 1), (errors, 2)):
        os.dup2(descriptor, number)
    os.environ["ONCELOG_BOOTSTRAP_SERVER"] = run["address"]
    sys.argv = ["oncelog", *run["arguments"]]
    sys.stdout = open(1, "w", closefd=False)
    sys.stderr = open(2, "w", closefd=False)
    steps = Steps(run["at"], moments)
    getattr(steps, run["kind"])()
    code = 255
    try:
        program.main()
    except SystemExit as left:
        code = left.code or 0
    except BaseException:
        import traceback
        traceback.print_exc()
    finally:
        sys.settrace(None)
        os.write(moments, b"seen %d\n" % steps.seen)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

for line in sys.stdin:
    run = json.loads(line)
    pipes = [os.pipe() for _ in range(4)]
    (given, giving), (out, outputs), (err, errors), (timings, moments) = pipes
    os.write(giving, run["lines"].encode())
    pid = os.fork()
    if pid == 0:
        os.close(giving)
        child(run, given, outputs, errors, moments)
    for descriptor in (given, giving, outputs, errors, moments):
        os.close(descriptor)
    watch = os.pidfd_open(pid)
    queued = queued_s("self")
    ended, _, _ = select.select([watch], [], [], 60)
    now = time.monotonic() - (queued_s("self") - queued) - queued_s(pid)
    if not ended:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    texts = []
    for descriptor in (out, err, timings):
        with open(descriptor, "rb") as file:
            texts.append(file.read().decode())
    os.close(watch)
    times = [word for word in texts[2].splitlines() if not word.startswith("seen")]
    seen = [int(word.split()[1]) for word in texts[2].splitlines() if word.startswith("seen")]
    print(json.dumps({
        "code": code, "output": texts[0], "errors": texts[1], "seen": seen[0] if seen else 0,
        "signals": len(times), "took_s": now - float(times[0]) if times else 0.0,
    }), flush=True)
"""


@dataclass(frozen=True, slots=True)
class Run:
    """The end of a command. `seen`: the number of its steps. `signals`: the number of signals that
    it got. `took_s`: the time since the first signal, without the queue for a processor."""

    code: int
    output: str
    errors: str
    seen: int
    signals: int
    took_s: float


class Stepper:
    """Runs commands one after another. Each gets signals at given steps."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._process = subprocess.Popen(
            [sys.executable, "-c", _DRIVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Stepper:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, kind: str, at: Sequence[int], *arguments: str, lines: str = "") -> Run:
        """Run a command to its end, with SIGINT at the steps in `at`. `kind`: the steps are `lines`
        or `turns`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked: dict[str, Any] = {"kind": kind, "at": list(at), "arguments": arguments}
        asked |= {"address": self._address, "lines": lines}
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        return Run(**json.loads(self._process.stdout.readline()))
