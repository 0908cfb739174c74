"""A JAAS configuration is read as Kafka and the JDK read it, on generated text."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

from oncelog_protocol.security.jaas_syntax import (
    JaasEntry,
    JaasError,
    parse_file,
    parse_property,
)
from tests.conformance.sasl.oracle import OracleError, SaslOracle
from tests.examples import drawn

TEXTS: Final = drawn(20_000)
FILES: Final = drawn(3_000)

# Pieces that meet the rules of Java's tokenizer: quotes that do not end, escapes, comments inside
# words, signs, numbers, letters outside ASCII, characters without a class.
GOOD: Final = ('password="S3cret!"', 'username="alice"', "a=b", 'c="d"', 'a.b_c-$="5"')
PIECES: Final = (
    *GOOD, "k='v'", "n=5", "m=-5", "o=-", "5=x",
    'x="a\\"b"', 'x="\\101\\7\\400\\08"', 'x="\\t\\n\\q\\\\"', 'y="a\nb"', 'y="a\\\nb"', "=", ";",
    "; ", ";\n", '"', "'", "\\", "/", "//c\n", "// c; \r", "/* c */", "/* *\n/ */", "/*/", "/***/",
    'y="a\rb"', "1.2=x", "1.2.3=x", "c*d=e", '""=x', "-=x", "*=x", '"*=x',
    "/*\n*/", "/*",
    "*/", "*", "#c\n", "#", "$", "_", "-", ".", "1.2.3", "-1x", "é", "\u0130", "ⅸ", "\x85", "\x7f",
    "\xa0", "\u3000", "\U0001f511", " ", "\t", "\r\n", "\0", "{", "}", ",", '""', "''", "=x",
    "user_a,b=c", 'user_x.y="z"', "${x", "required", "Optional", "a.B$C",
)  # fmt: skip
MODULES: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule", "a.ScramLoginModule", "x", '"q r"',
    "5", "",
)  # fmt: skip
FLAGS: Final = (
    "required",
    "REQUISITE",
    "Sufficient",
    "optional",
    "requ\u0131red",
    "other",
    "5",
    "",
)
CONTEXTS: Final = ("KafkaServer", "sasl_ssl.KafkaServer", "KafkaClient", '"Q"', "5")


def shuffled_pieces(chance: Random, most: int) -> str:
    """Return some pieces. Half the pieces are separated."""
    chosen = chance.choices(PIECES, k=chance.randrange(most))
    return "".join(piece + chance.choice(("", " ")) for piece in chosen)


def good_options(chance: Random) -> str:
    return " ".join(chance.choices(GOOD, k=chance.randrange(4)))


def entry(chance: Random, strange: float) -> str:
    """Return an entry that is right in most texts, so that its values are compared. `strange` is
    the probability of a strange piece between good pieces, which often leaves the text right."""
    module, flag = chance.choice(MODULES[:4]), chance.choice(FLAGS[:5])
    options, end = good_options(chance), ";"
    if chance.random() < strange:
        options += f" {chance.choice(PIECES)} {good_options(chance)}"
    if chance.random() < strange / 3:
        module, flag = chance.choice(MODULES), chance.choice(FLAGS)
    if chance.random() < strange / 3:
        options += shuffled_pieces(chance, 6)
    if chance.random() < strange / 3:
        end = chance.choice((" ; ", "", ";;"))
    return f"{module} {flag} {options}{end}"


def section(chance: Random, name: str) -> str:
    entries = "\n".join(entry(chance, 0.15) for _ in range(chance.choice((0, 1, 1, 2))))
    return f"{name} {{ {entries} }}{chance.choice((*';;;;;;;;;', ''))}\n"


def file_text(chance: Random) -> str:
    names = chance.sample(CONTEXTS, k=chance.randrange(1, 4))
    if chance.random() < 0.1:
        names *= 2
    return "".join(section(chance, name) for name in names)


def written(entries: tuple[JaasEntry, ...] | list[JaasEntry]) -> list[list[object]]:
    return [
        [
            entry.class_name,
            f"LoginModuleControlFlag: {entry.control_flag.lower()}",
            {name: value.reveal() for name, value in entry.options.items()},
        ]
        for entry in entries
    ]


def our_property(text: str) -> object:
    """Return the entries, or None if the text is refused. Kafka refuses two modules here."""
    try:
        entries = parse_property(text)
    except JaasError:
        return None
    return written(entries) if len(entries) == 1 else None


def their_property(oracle: SaslOracle, text: str) -> object:
    try:
        return oracle.call("property", text=text)["entries"]
    except OracleError as failure:
        if failure.kind != "IllegalArgumentException":
            raise
        return None


def test_every_property_is_read_as_kafkas(oracle: SaslOracle) -> None:
    accepted = 0
    for seed in range(TEXTS):
        chance = Random(seed)
        text = entry(chance, 0.5) + (entry(chance, 0.5) if chance.random() < 0.1 else "")
        ours, theirs = our_property(text), their_property(oracle, text)
        assert ours == theirs, (seed, text)
        accepted += ours is not None
    # A test that compares mostly refused texts would find little.
    assert TEXTS * 0.3 < accepted < TEXTS * 0.9, accepted


def test_every_file_is_read_as_the_jdks(oracle: SaslOracle, tmp_path: Path) -> None:
    names = ["KafkaServer", "sasl_ssl.KafkaServer", "KafkaClient", "Q"]
    file = tmp_path / "jaas.conf"
    accepted = 0
    for seed in range(FILES):
        chance = Random(seed)
        text = file_text(chance)
        file.write_text(text, encoding="utf-8", newline="")
        try:
            ours = {name: written(entries) for name, entries in parse_file(text).items()}
        except JaasError:
            ours = None
        try:
            theirs = oracle.call("file", path=str(file), names=names)
        except OracleError:
            theirs = None
        assert ours == theirs, (seed, text)
        accepted += bool(ours)
    assert FILES * 0.3 < accepted < FILES * 0.9, accepted
