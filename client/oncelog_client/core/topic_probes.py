"""Names of topics that prove that a user may describe all topics.

The rights to a topic depend on the patterns of the access rules that fit its name, and on nothing
else of the name. So all names that fit the same patterns have the same rights, and one name
stands for each such set. A broker checks the rights to a name before it looks for the topic, so the
topic need not exist. This also holds for super users, which need no rule, and for
`allow.everyone.if.no.acl.found`.
"""

from __future__ import annotations

import string
from collections.abc import Collection, Iterable
from typing import Final

from oncelog_client.core.acl_bindings import AclBinding, PatternType

_LONGEST_NAME: Final = 249
# The characters of topic names. A pattern with other characters, such as `*`, is not the name of a
# topic.
_CHARACTERS: Final = string.ascii_letters + string.digits + "_-."
# The end of a probe. Hardly any rule is for such a name.
_REST: Final = "-name-of-no-topic"


def topic_probes(rules: Iterable[AclBinding]) -> list[str] | None:
    """Return a name for each set of names that fit the same patterns. `rules` are all access rules
    for topics. Return None if no name is found for a set, for example because rules have a prefix
    for each character."""
    literals: set[str] = set()
    prefixes = {""}
    for rule in rules:
        name = rule.pattern.name
        if set(name) <= set(_CHARACTERS):
            is_prefix = rule.pattern.pattern_type is PatternType.PREFIXED
            (prefixes if is_prefix else literals).add(name)
    others = [_probe(prefix, prefixes, literals) for prefix in prefixes]
    found = [name for name in others if name is not None]
    return None if len(found) < len(others) else sorted({*literals, *found})


def _probe(prefix: str, prefixes: Collection[str], literals: Collection[str]) -> str | None:
    """Return a name that begins with `prefix`, with none of the longer `prefixes`, and is not one
    of `literals`. Return None if there is no such name."""
    for first in _CHARACTERS:
        name = f"{prefix}{first}{_REST}"[:_LONGEST_NAME]
        longer = (name[:length] for length in range(len(prefix) + 1, len(name) + 1))
        if name not in literals and not any(text in prefixes for text in longer):
            return name
    return None
