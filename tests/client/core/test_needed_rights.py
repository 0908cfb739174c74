"""Calls of the admin client name the right that they lack."""

from __future__ import annotations

import inspect

import pytest

from oncelog_client import Admin, AuthorizationError
from oncelog_client.core.acl_bindings import AclOperation
from oncelog_client.core.needed_rights import needs
from oncelog_protocol.errors import ErrorCode

# Calls that every principal may make: denied names are left out of the response.
OPEN_TO_ALL = {
    *("start", "close", "list_topics", "hidden_topics", "list_groups", "list_transactions"),
    *("describe_cluster", "describe_conditions", "may_write_markers"),
}
# `force_terminate_transaction` calls `fence_producers`. The others act for a producer.
OTHERS = {
    *("force_terminate_transaction", "init_producer", "end_transaction"),
    *("stage_group_offsets", "commit_group"),
}


class Calls:
    """Calls that a broker refuses with a code."""

    @needs("DELETE", on_topics="READ")
    async def refused(self, code: ErrorCode) -> None:
        """Raise the refusal."""
        raise AuthorizationError("a", code)

    @needs("ALTER")
    async def calls_another(self) -> None:
        await self.refused(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    @needs("ALTER")
    async def fails(self) -> None:
        raise ZeroDivisionError

    @needs("ALTER")
    async def returns(self, value: int) -> int:
        return value


@pytest.mark.parametrize(
    ("code", "operation"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, "DELETE"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "DELETE"),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "READ"),
    ],
)
async def test_a_refusal_has_the_operation_and_its_message(code: ErrorCode, operation: str) -> None:
    with pytest.raises(AuthorizationError) as caught:
        await Calls().refused(code)
    assert (caught.value.operation, caught.value.message) == (operation, "a")


async def test_the_innermost_call_names_the_operation() -> None:
    with pytest.raises(AuthorizationError) as caught:
        await Calls().calls_another()
    assert caught.value.operation == "DELETE"


async def test_results_and_other_errors_stay() -> None:
    assert await Calls().returns(7) == 7
    with pytest.raises(ZeroDivisionError):
        await Calls().fails()
    assert Calls.refused.__doc__ == "Raise the refusal."


def test_each_call_of_the_admin_client_that_needs_a_right_names_it() -> None:
    calls = {
        name: call
        for name, call in inspect.getmembers(Admin, inspect.iscoroutinefunction)
        if not name.startswith("_")
    }
    unnamed = {name for name, call in calls.items() if not hasattr(call, "__wrapped__")}
    assert unnamed == OPEN_TO_ALL | OTHERS
    operations = {
        cell.cell_contents
        for name in calls.keys() - unnamed
        for cell in calls[name].__closure__ or ()
        if isinstance(cell.cell_contents, str)
    }
    assert operations - {""} <= set(AclOperation.__members__)
