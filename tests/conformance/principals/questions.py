"""Random subjects of certificates, and random mapping rules with names."""

from __future__ import annotations

from random import Random
from typing import Final

TYPES: Final = (
    "2.5.4.3", "2.5.4.6", "2.5.4.7", "2.5.4.8", "2.5.4.9", "2.5.4.10", "2.5.4.11",
    "0.9.2342.19200300.100.1.1", "0.9.2342.19200300.100.1.25", "1.2.840.113549.1.9.1",
    "2.5.4.5", "2.5.4.12", "2.5.4.42", "2.5.4.46", "1.3.6.1.4.1.42.2.17.1.1", "2.999.3",
)  # fmt: skip
# UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString, UniversalString,
# NumericString, INTEGER, OCTET STRING.
TAGS: Final = (0x0C, 0x0C, 0x13, 0x13, 0x14, 0x16, 0x1B, 0x1E, 0x1C, 0x12, 0x02, 0x04)
LETTERS: Final = (
    *'abcXYZ019 ,=+<>#;"\\/\'-._:()?*', " ", " ", "\r", "\n", "\t", "\0", "é", "ß", "İ", "Σ",
    "名", "\u0085", "\u00a0", "\u2028", "\U0001f600",
)  # fmt: skip


def element(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 0x80 else b"\x82" + size.to_bytes(2)
    return bytes([tag]) + length + content


def identifier(text: str) -> bytes:
    first, second, *others = map(int, text.split("."))
    encoded = b""
    for number in (40 * first + second, *others):
        group = bytes([number & 0x7F])
        while number := number >> 7:
            group = bytes([number & 0x7F | 0x80]) + group
        encoded += group
    return element(0x06, encoded)


def subject(seed: int) -> bytes:
    """Return a name in DER."""
    random = Random(seed)
    relative_names = b""
    for _ in range(random.choice((0, 1, 1, 2, 3, 4))):
        attributes = b"".join(_attribute(random) for _ in range(random.choice((1, 1, 1, 1, 2, 3))))
        relative_names += element(0x31, attributes)
    return element(0x30, relative_names)


def _attribute(random: Random) -> bytes:
    tag = random.choice(TAGS)
    text = "".join(random.choice(LETTERS) for _ in range(random.choice((0, 1, 2, 5, 9, 150))))
    if tag == 0x1E:
        content = text.encode("utf-16-be")
    elif tag == 0x1C:
        content = text.encode("utf-32-be")
    elif tag in (0x02, 0x04):
        content = random.randbytes(random.randint(1, 5))
    else:
        content = text.encode(random.choice(("utf-8", "utf-8", "latin-1")), "replace")
    return element(0x30, identifier(random.choice(TYPES)) + element(tag, content))


# -- rules

ATOMS: Final = (
    "a", "b", "c", "C", "N", "=", ",", " ", ".", ".", "[a-c]", "[^,]", "[^,=]", "\\w", "\\W", "\\d",
    "\\s", "\\.", "[\\w.]", "[]a]", "[a-]", "\\/", "é", "(a)", "(b|a)", "(.*)", "(?:ab)", "([^,]+)",
    "(a|ab)", "(ab|a)", "(a*?)", "(?<n>b)", "(.)", "\\x61", "\\Qa.\\E", "\\u0062", "(a|)", "[ab&c]",
)  # fmt: skip
# oncelog refuses most repetitions of these groups.
NULLABLE: Final = ("(.*)", "(a*?)", "(a|)")
SUFFIXES: Final = (
    "",
    "",
    "",
    "",
    "*",
    "+",
    "?",
    "*?",
    "+?",
    "??",
    "{2}",
    "{0,2}",
    "{1,}",
    "{1,2}?",
)
REFERENCES: Final = (
    "$1", "$2", "$0", "$3", "$12", "$01", "$123", "x", "Y", "@", "", "\\$", "\\\\", "$1$2",
    "a$9b$8", "${n}",
)  # fmt: skip
WHOLE_RULES: Final = (
    "DEFAULT",
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
    "RULE:.*/x/",
    "RULE:a|ab/x/U",
    "RULE:(?i)cn=(.*)/$1/",
    "", " ", "default", "RULE:a", "RULE:a/b", "RULE:a/b/X", "RULE:a/b/Lx", "RULES:a/b/", ",",
    "RULE:/x/", "RULE://", "RULE:(a/b/", "RULE:a)/b/", "RULE:*a/b/", "RULE:[b-a]/x/", "RULE:a{2/b/",
)  # fmt: skip
LONG_NAMES: Final = (
    "CN=Duke,OU=ServiceUsers,O=Org,C=US",
    "CN=duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US",
    "cn=kafka1.example.com",
)  # fmt: skip
# Java takes exponential time for some of the random patterns. There is no capital sigma: Java and
# Python differ in its lower case at the end of a word with digits.
SHORT_NAMES: Final = (
    "", "a", "ab", "abc", "aab", "ba", "bab", "a,b", "CN=a", "a\n", "a\r\n", "a\u2028", "é", "ßa",
    "İab", "aω", "a=b,C=a",
)  # fmt: skip


def rules(seed: int) -> tuple[str, list[str]]:
    """Return mapping rules, and names for them."""
    random = Random(seed)
    parts = [_rule(random) for _ in range(random.choice((1, 1, 1, 2, 3)))]
    text = random.choice((",", ", ", " , ", ",")).join(parts)
    names = random.sample(SHORT_NAMES, 8)
    names += [
        "".join(random.choice("abcCN=, .é") for _ in range(random.randint(1, 9))) for _ in "123"
    ]
    return text, [*names, *LONG_NAMES] if text in WHOLE_RULES else names


def _rule(random: Random) -> str:
    if random.random() < 0.15:
        return random.choice(WHOLE_RULES)
    atoms = random.choices(ATOMS, k=random.randint(1, 4))
    pattern = "".join(
        atom + random.choice(("", "?") if atom in NULLABLE else SUFFIXES) for atom in atoms
    )
    if random.random() < 0.2:
        pattern = f"({pattern})|{random.choice(ATOMS)}"
    if random.random() < 0.2:
        pattern = f"^{pattern}$"
    if random.random() < 0.5:
        pattern += random.choice((".*", "(.*)", ".*?"))
    replacement = "".join(random.choice(REFERENCES) for _ in range(random.randint(0, 3)))
    return f"RULE:{pattern}/{replacement}/{random.choice(('', '', 'L', 'U'))}"
