"""Options by the rules of joptsimple, the library of most of Kafka's tools.

An option is `--name value`, `--name=value` or `--name`. A single dash works as well. Names are
never abbreviated. Other words are ignored, as in Kafka's tools.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from oncelog_client.kafka_tools.failures import Ended, JavaError
from oncelog_client.kafka_tools.usage import usage

# These tools follow those of this version of Apache Kafka.
KAFKA_VERSION: Final = "4.3.1"
_JOPT: Final = "joptsimple"
_INTEGERS: Final = {"Integer": 31, "Long": 63}


class OptionError(JavaError):
    """A command line that joptsimple refuses."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `argument`: the type and the description of its value, as in Kafka's usage text
    (`String: topic`), or "" for a flag. `default`: the value without the option. The value of an
    `is_optional` option may be missing. `available_if`: the option is refused without one of these
    (joptsimple's availableIf)."""

    name: str
    help: str
    argument: str = ""
    default: str | None = None
    is_optional: bool = False
    available_if: tuple[str, ...] = ()

    @property
    def type(self) -> str:
        return self.argument.partition(":")[0]


class Options:
    """The options of a tool. `about` is the first line of `--help`."""

    def __init__(self, about: str, options: Iterable[Option]) -> None:
        self.about = about
        self.table = {option.name: option for option in (*options, *_EVERYWHERE)}

    def parse(self, arguments: Sequence[str]) -> Given:
        """Return the given options. Raises OptionError for an unknown option, for an option without
        its value, and for an option that needs another one."""
        values: dict[str, list[str]] = {}
        order: list[str] = []
        at = 0
        while at < len(arguments):
            word, at = arguments[at], at + 1
            if not word.startswith("-") or word in {"-", "--"}:
                if word == "--":
                    break
                continue
            name, equals, value = word.lstrip("-").partition("=")
            option = self.table.get(name)
            if option is None:
                raise OptionError(
                    f"{_JOPT}.UnrecognizedOptionException", f"{name} is not a recognized option"
                )
            given = values.setdefault(name, [])
            order.append(name)
            if not option.argument:
                continue
            following = arguments[at] if at < len(arguments) else None
            # joptsimple takes no option as a value, but takes other words that begin with a dash.
            if equals:
                argument: str | None = value
            elif following is None or self._is_option(following):
                argument = None
            else:
                argument, at = following, at + 1
            if argument is None and option.is_optional:
                continue
            if argument is None:
                raise OptionError(
                    f"{_JOPT}.OptionMissingRequiredArgumentException",
                    f"Option {name} requires an argument",
                )
            given.append(argument)
        self._check_available(values)
        return Given(self, values, order)

    def _check_available(self, given: Collection[str]) -> None:
        if any(option.name in given for option in _EVERYWHERE):
            return
        unavailable = [
            name
            for name, option in self.table.items()
            if name in given and option.available_if and not set(option.available_if) & set(given)
        ]
        if unavailable:
            raise OptionError(
                f"{_JOPT}.UnavailableOptionException",
                f"Option(s) [{', '.join(unavailable)}] are unavailable given other options on the "
                "command line",
            )

    def _is_option(self, word: str) -> bool:
        return word.startswith("-") and word.lstrip("-").partition("=")[0] in self.table


_EVERYWHERE: Final = (
    Option("help", "Print this text."),
    Option("version", "Print the version of Kafka that this tool follows."),
)


class Given:
    """The options of one command line. `order`: their names in the order of the command line, with
    repetitions."""

    def __init__(
        self, options: Options, values: dict[str, list[str]], order: Sequence[str]
    ) -> None:
        self.options = options
        self.order = order
        self._values = values

    def has(self, name: str) -> bool:
        """Return whether the option was given."""
        return name in self._values

    def values(self, name: str) -> list[str]:
        """Return all values of an option that may be given several times."""
        return self._values.get(name, [])

    def value(self, name: str) -> str | None:
        """Return the value of an option, or its default. Raises OptionError if the option was given
        several times."""
        values = self._values.get(name)
        if not values:
            return self.options.table[name].default
        if len(values) > 1:
            raise OptionError(
                f"{_JOPT}.MultipleArgumentsForOptionException",
                f"Found multiple arguments for option {name}, but you asked for only one",
            )
        return values[0]

    def number(self, name: str) -> int | None:
        """Return the value of an option of the type Integer or Long. Raises OptionError if it is no
        number in the range of the type."""
        text = self.value(name)
        if text is None:
            return None
        limit = 1 << _INTEGERS[self.options.table[name].type]
        try:
            number = int(text) if "_" not in text else limit
        except ValueError:
            number = limit
        if not -limit <= number < limit:
            raise OptionError(
                f"{_JOPT}.OptionArgumentConversionException",
                f"Cannot parse argument '{text}' of option {name}",
            )
        return number

    def fail(self, message: str) -> NoReturn:
        """Print the message and the usage text on standard error, and end the tool."""
        sys.stderr.write(f"{message}\n{usage(self.options.table.values())}")
        raise Ended(1)

    def end_for_help_or_version(self) -> None:
        """End the tool for `--help` (with exit code 1, as Kafka's tools do) and for `--version`."""
        if self.has("help"):
            self.fail(self.options.about)
        if self.has("version"):
            sys.stdout.write(f"{KAFKA_VERSION}\n")
            raise Ended(0)

    def require(self, *names: str) -> None:
        """Fail with the usage text unless all options are given."""
        for name in names:
            if not self.has(name):
                self.fail(f'Missing required argument "[{name}]"')

    def refuse_with(self, used: str, invalid: Collection[str]) -> None:
        """Fail with the usage text if `used` is given together with an option of `invalid`."""
        if self.has(used):
            for name in invalid:
                if self.has(name):
                    self.fail(f'Option "[{used}]" can\'t be used with option "[{name}]"')
