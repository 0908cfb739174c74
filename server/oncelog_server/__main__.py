"""`python -m oncelog_server serve`: the broker without the command line of the client."""

from __future__ import annotations

import click

from oncelog_server.serve import serve


@click.group()
def main() -> None:
    """The exactly-once log broker."""


main.add_command(serve)

if __name__ == "__main__":
    main(prog_name="oncelog_server")
