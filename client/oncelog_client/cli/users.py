"""`oncelog users`: the users that log in with SCRAM."""

from __future__ import annotations

from typing import Final

import click

from oncelog_client.admin import (
    Admin,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from oncelog_client.cli.commands import ToolGroup
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.names import NAME
from oncelog_client.cli.options import connection_options, output_option
from oncelog_client.cli.output import Column, show
from oncelog_client.cli.password import password_options, read_password
from oncelog_protocol.security.scram_credential import LEAST_ITERATIONS, MOST_ITERATIONS

MECHANISMS: Final = {str(mechanism.sasl): mechanism for mechanism in ScramMechanism}
COLUMNS: Final = (
    Column("User", "id"),
    Column("Mechanism", "id"),
    Column("Iterations", "count"),
)
RESULT_COLUMNS: Final = (*COLUMNS[:2], Column("Result"))
Rows = list[tuple[str, str, int]]


@click.group(cls=ToolGroup, examples=["users list", "users add alice", "users remove alice"])
@connection_options
@output_option
def users(**_: object) -> None:
    """List, add and remove the users that log in with SCRAM."""


@users.command("list", examples=["users list", "users list alice bob --output json"])
@connection_options
@click.argument("names", metavar="[USER]...", nargs=-1, type=NAME)
@output_option
def list_(*, names: tuple[str, ...], output: str, **_: object) -> None:
    """Show users with their mechanisms, by default all users."""
    rows = ask(lambda admin: _credentials(admin, names))
    show(COLUMNS, rows, output=output, empty="no users with SCRAM credentials")


@users.command(
    examples=[
        "users add alice",
        "users add alice --password-file alice.password --mechanism SCRAM-SHA-256",
        "users add alice --iterations 8192 < alice.password",
    ]
)
@connection_options
@click.argument("user", metavar="USER", type=NAME)
@password_options
@click.option(
    "--mechanism",
    type=click.Choice(list(MECHANISMS)),
    default=str(ScramMechanism.SCRAM_SHA_512.sasl),
    help="Mechanism of the credential.  [SCRAM-SHA-512]",
)
@click.option(
    "--iterations",
    type=click.IntRange(LEAST_ITERATIONS, MOST_ITERATIONS),
    default=LEAST_ITERATIONS,
    help=f"Iterations of PBKDF2.  [{LEAST_ITERATIONS}]",
)
@output_option
def add(
    *,
    user: str,
    password: str | None,
    password_file: str | None,
    mechanism: str,
    iterations: int,
    output: str,
    **_: object,
) -> None:
    """Add a credential of a user, or replace it. The password is asked for, or read from standard
    input.

    Open connections of the user stay.
    """
    secret = read_password(password, password_file)
    info = ScramCredentialInfo(MECHANISMS[mechanism], iterations)
    upsertion = UserScramCredentialUpsertion(user, secret, info)
    ask(lambda admin: _alter(admin, upsertion))
    show(RESULT_COLUMNS, [(user, mechanism, "set")], output=output)


@users.command(examples=["users remove alice", "users remove alice --mechanism SCRAM-SHA-256"])
@connection_options
@click.argument("user", metavar="USER", type=NAME)
@click.option(
    "--mechanism", type=click.Choice(list(MECHANISMS)), help="Only this credential.  [all]"
)
@output_option
def remove(*, user: str, mechanism: str | None, output: str, **_: object) -> None:
    """Remove the credentials of a user. Open connections of the user stay."""

    async def call(admin: Admin) -> list[str]:
        found = [name for _, name, _ in await _credentials(admin, [user])]
        removed = found if mechanism is None else [mechanism]
        # A request may alter only one credential of a user.
        for name in removed:
            deletion = UserScramCredentialDeletion(user, MECHANISMS[name])
            await _alter(admin, deletion)
        return removed

    show(RESULT_COLUMNS, [(user, name, "removed") for name in ask(call)], output=output)


async def _alter(
    admin: Admin, change: UserScramCredentialUpsertion | UserScramCredentialDeletion
) -> None:
    await admin.alter_user_scram_credentials([change])


async def _credentials(admin: Admin, names: tuple[str, ...] | list[str]) -> Rows:
    described = await admin.describe_user_scram_credentials(dict.fromkeys(names) or None)
    return [
        (user, str(info.mechanism.sasl), info.iterations)
        for user, infos in sorted(described.items())
        for info in sorted(infos)
    ]
