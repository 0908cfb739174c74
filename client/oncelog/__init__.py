"""The public names of the client: `from oncelog import Admin, Consumer, Producer`.

A name is loaded when it is first used: `import oncelog` loads no client, no codec and no asyncio.
"""

from __future__ import annotations

import oncelog_client
from oncelog_protocol import __version__

# Type checkers take TYPE_CHECKING for true. Importing it from `typing` would take most of the time
# of this module's import.
TYPE_CHECKING = False

__all__ = ["__version__"]
__all__ += oncelog_client.__all__

if TYPE_CHECKING:
    from oncelog_client import *  # noqa: F403 - all public names, for type checkers only
else:  # hidden from type checkers: with __getattr__, they would accept every name

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(oncelog_client, name)
        return found


def __dir__() -> list[str]:
    return list(__all__)
