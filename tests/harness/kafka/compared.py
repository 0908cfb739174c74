"""Runs a tool of Apache Kafka and our tool of the same name, each against its own broker, and
compares what they print."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Final, NamedTuple

from tests.harness.kafka.driver import JavaDriver
from tests.harness.kafka.tools import ToolResult, run_tool
from tests.harness.preloaded import TOOLS, run_preloaded_tool

OUR_TIMEOUT_S: Final = 90.0
# In the arguments of a comparison: the address of the broker.
BROKER: Final = "BROKER"

# Lines of the log. Kafka's tools run without log settings here, so their lines begin differently.
_LOG: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\S+ \S+ [A-Z]+ |\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] "
)
_TRACE: Final = re.compile(r"\tat |\t\.\.\. \d+ more|Caused by: |\tSuppressed: ")
_USAGE: Final = re.compile(r"^Option +Description *$")
_OPTION: Final = re.compile(r"^(?:\* )?(-{1,2}[a-z][a-z0-9-]*)")
# The driver's exception for an exit, which some tools catch and print.
_EXIT_OF_DRIVER: Final = (
    ["null", "Driver$Exited"],
    ["Error while executing ACL command: null", "Driver$Exited"],
)
_TOPIC_ID: Final = re.compile(r"(TopicId: )\S{22}")
# A new cluster of Apache Kafka 4.3 has this setting of its own, because of KIP-966.
_MIN_ISR: Final = re.compile(r"(\tConfigs: )min\.insync\.replicas=1,?")


# The tools of ours that have been run.
_STARTED: Final[set[str]] = set()
# Java's words for an exception that no code handles. The driver of the JVM handles it.
_UNCAUGHT: Final = 'Exception in thread "main" '
# argparse4j breaks a message into lines, at hyphens too, and fills the lines with spaces.
_ARGPARSE_USAGE: Final = "usage: "
_ARGPARSE_ERROR: Final = re.compile(r"^[a-z.-]+:\s+error:\s+")
_ARGPARSE_OPTION: Final = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
# argparse4j ends the JVM in a way that the driver cannot catch.
_ENDS_JVM: Final = {
    "kafka-cluster",
    "kafka-producer-perf-test",
    "kafka-storage",
    "kafka-transactions",
}


class Printed(NamedTuple):
    """What a tool printed, without its log and its stack traces. `options`: the options that its
    usage text names, if it printed one."""

    status: int
    out: list[str]
    errors: list[str]
    options: set[str]


class ToolPair:
    """The two tools: `kafka` and `oncelog` are the addresses of their brokers."""

    def __init__(self, java_driver: JavaDriver, kafka: str, oncelog: str) -> None:
        self._java = java_driver
        self.kafka = kafka
        self.oncelog = oncelog

    def both(
        self, script: str, *arguments: str, input: str | None = None
    ) -> tuple[Printed, Printed]:
        """Return what Kafka's tool and our tool print. `script` is the name without `.sh`:
        kafka-topics."""
        ours = run_ours(script, *_at(self.oncelog, arguments), input=input)
        theirs = self.kafka_tool(script, *_at(self.kafka, arguments), input=input)
        return printed(theirs, self.kafka), printed(ours, self.oncelog)

    def kafka_tool(self, script: str, *arguments: str, input: str | None = None) -> ToolResult:
        """Run Kafka's tool: in the JVM of the driver, or in a JVM of its own if it reads an input
        or ends the JVM."""
        short = script.removeprefix("kafka-")
        if input is None and script not in _ENDS_JVM:
            return self._java.tool(short, *arguments, check=False)
        return run_tool(short, *arguments, input=input, check=False)

    def check_same(self, script: str, *arguments: str, input: str | None = None) -> Printed:
        """Assert that both tools print the same lines and options, and end with the same exit code.
        Return what our tool prints."""
        theirs, ours = self.both(script, *arguments, input=input)
        assert ours == theirs, f"{script} {' '.join(arguments)}\nKafka:   {theirs}\noncelog: {ours}"
        return ours


def run_ours(script: str, *arguments: str, input: str | None = None) -> ToolResult:
    """Run our tool in its own process. The first run of a tool starts an interpreter, as the image
    does. The others are forks of a process with all imports, because an import takes longer than a
    tool."""
    words, text = (f"{script}.sh", *arguments), input or ""
    if script in _STARTED:
        done = run_preloaded_tool(words, text, OUR_TIMEOUT_S)
    else:
        _STARTED.add(script)
        done = subprocess.run(
            [sys.executable, "-m", TOOLS, *words],
            input=text,
            capture_output=True,
            text=True,
            timeout=OUR_TIMEOUT_S,
            check=False,
        )
    return ToolResult(done.returncode, done.stdout, done.stderr)


def printed(result: ToolResult, address: str) -> Printed:
    """Return the lines that a script may depend on, with BROKER in place of the address."""
    options: set[str] = set()
    out, errors = (
        _lines(_without_argparse(text.replace(address, BROKER).splitlines(), options), options)
        for text in (result.stdout, result.stderr)
    )
    return Printed(result.returncode, out, errors, options)


def _at(address: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(argument.replace(BROKER, address) for argument in arguments)


def _without_argparse(lines: list[str], options: set[str]) -> list[str]:
    """Return the lines without the usage text of argparse4j, and with its message as a single line
    without spaces. The options of that text are added to `options`."""
    start = next((n for n, line in enumerate(lines) if line.startswith(_ARGPARSE_USAGE)), None)
    if start is None:
        return lines
    errors = (n for n, line in enumerate(lines) if _ARGPARSE_ERROR.match(line))
    end = next(errors, len(lines))
    # A hyphen at the end of a line belongs to the option on the next line.
    usage = re.sub(r"--\s+", "--", " ".join(lines[start:end]))
    options.update(_ARGPARSE_OPTION.findall(usage))
    return [*lines[:start], "".join("".join(lines[end:]).split())]


def _lines(text: list[str], options: set[str]) -> list[str]:
    """Return the lines without log, stack traces and the usage text of joptsimple. The options of
    that text are added to `options`."""
    lines: list[str] = []
    in_usage = in_log = False
    for line in text:
        if in_usage or _USAGE.match(line):
            in_usage = True
            options.update(_OPTION.findall(line))
        elif _LOG.match(line):
            in_log = True
        elif _TRACE.match(line) or (in_log and not line):
            continue
        else:
            in_log = False
            line = line.removeprefix(_UNCAUGHT)
            line = _MIN_ISR.sub(r"\1", _TOPIC_ID.sub(r"\1ID", line))
            lines.append(line.rstrip())
    lines = [*"\n".join(lines).rstrip().splitlines()]
    if lines[-2:] in _EXIT_OF_DRIVER:
        del lines[-2:]
    return lines
