"""A single small response in a turn of the loop is written at once. Of several responses, all but
the first are written at the end of the turn. In the turn after that, the first waits too."""

from __future__ import annotations

import asyncio

from oncelog_server.clock import SystemClock
from oncelog_server.network.spin import Spin
from oncelog_server.network.turn import Turn


class Answers:
    def __init__(self) -> None:
        self.flushed = 0

    def flush(self) -> None:
        self.flushed += 1


def new_turn() -> Turn:
    loop = asyncio.get_running_loop()
    return Turn(loop, Spin(loop, SystemClock(), 0))


async def a_turn() -> None:
    """Return once everything that is scheduled now has run."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_soon(over.set)
    await over.wait()


async def test_a_single_response_in_each_turn_is_written_at_once() -> None:
    turn = new_turn()
    for _ in range(3):
        assert turn.may_write()
        await a_turn()


async def test_of_several_responses_only_the_first_is_written_before_the_end_of_the_turn() -> None:
    turn, second, third = new_turn(), Answers(), Answers()
    assert turn.may_write()
    for session in (second, third):
        assert not turn.may_write()
        turn.hold(session)
    assert (second.flushed, third.flushed) == (0, 0)
    await a_turn()
    assert (second.flushed, third.flushed) == (1, 1)


async def test_after_a_turn_with_several_responses_the_first_waits_too() -> None:
    """Otherwise the same client's response would always be ahead of the others."""
    turn, answers = new_turn(), Answers()
    assert turn.may_write()
    assert not turn.may_write()
    await a_turn()
    assert not turn.may_write()
    turn.hold(answers)
    await a_turn()
    assert answers.flushed == 1
    assert turn.may_write(), (
        "after a turn with a single response, the next response is written at once"
    )


async def test_a_response_that_cannot_be_encoded_is_logged_and_the_others_are_sent() -> None:
    loop = asyncio.get_running_loop()
    raised: list[BaseException | None] = []
    loop.set_exception_handler(lambda _, context: raised.append(context.get("exception")))
    turn, before, after, error = new_turn(), Answers(), Answers(), RuntimeError("broken")

    class Broken:
        def flush(self) -> None:
            raise error

    turn.may_write()
    for session in (before, Broken(), after):
        turn.may_write()
        turn.hold(session)
    await a_turn()
    assert (before.flushed, after.flushed, raised) == (1, 1, [error])
