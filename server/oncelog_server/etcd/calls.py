"""Calls of etcd's JSON gateway, on any member that responds in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Final, NamedTuple

from oncelog_server.cluster.store import FinalFailure, UnknownOutcome
from oncelog_server.etcd.exchange import exchange
from oncelog_server.etcd.members import Member, Members
from oncelog_server.etcd.session import Session
from oncelog_server.etcd_gateway.failures import EtcdError, Failure, failure_of
from oncelog_server.etcd_gateway.requests import NEEDS_LEADER, WATCH

# The pause after all members have failed.
PAUSE_S: Final = 0.1
# After such a failure of one member, another member may be able to carry out the request.
_OF_THIS_MEMBER: Final = frozenset({Failure.UNAVAILABLE, Failure.NO_LEADER})


class Timeouts(NamedTuple):
    """`attempt_s` is the timeout of an attempt, `total_s` of all attempts of a call. A call that
    `is_repeatable` may be carried out twice."""

    attempt_s: float
    total_s: float
    is_repeatable: bool


# An election of etcd takes about a second. During the election, the members at first do not
# respond, and then refuse.
READ: Final = Timeouts(1.0, 5.0, is_repeatable=True)
WRITE: Final = Timeouts(5.0, 5.0, is_repeatable=False)
RENEWAL: Final = Timeouts(1.0, 1.0, is_repeatable=True)


class Calls:
    """Calls to the members."""

    def __init__(self, members: Members, session: Session) -> None:
        self._members = members
        self._session = session
        self.is_closed = False

    async def call(self, path: str, body: bytes, timeouts: Timeouts) -> bytes:
        """Return the body of the response.

        Raises LeaseEnded and Compacted. Raises UnknownOutcome if the call is not repeatable and may
        have been carried out. Raises OSError if etcd has refused the call, or if no member has
        responded in time.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + timeouts.total_s
        attempts = 0
        earlier: OSError | None = None
        latest: dict[Member, OSError] = {}
        while True:
            self._check_open()
            member = self._members.present
            attempt = _Attempt(self._session, member, path, body)
            try:
                async with asyncio.timeout_at(min(ends, loop.time() + timeouts.attempt_s)):
                    return await attempt.response()
            except TimeoutError as error:
                failure: OSError = OSError(f"no response from etcd at {member.address}")
                failure.__cause__ = error
                if earlier is not None and not attempt.is_sent and loop.time() >= ends:
                    # The end of the call came before a connection. It hides no reason.
                    failure = earlier
            except EtcdError as error:
                if error.failure not in _OF_THIS_MEMBER:
                    raise
                failure = error
            except OSError as error:
                failure = error
            if isinstance(failure, EtcdError) and failure.failure is Failure.NO_LEADER:
                # The member responds, so other calls to it continue. The member itself ends its
                # watches.
                attempt.is_sent = False
                self._members.leave(member)
            else:
                self._members.failed(member)
            latest[member] = failure
            if attempt.is_sent and not timeouts.is_repeatable:
                raise UnknownOutcome(str(failure)) from self._of_all(failure, latest)
            attempts += 1
            earlier = failure
            pause_s = PAUSE_S if attempts % len(self._members) == 0 else 0.0
            if loop.time() + pause_s >= ends:
                raise self._of_all(failure, latest)
            await asyncio.sleep(pause_s)

    def _of_all(self, failure: OSError, latest: Mapping[Member, OSError]) -> OSError:
        """Return the failure of a call. It is final only if all members fail in this way."""
        finals = sum(isinstance(each, FinalFailure) for each in latest.values())
        if isinstance(failure, FinalFailure) and finals < len(self._members):
            return OSError(str(failure))
        return failure

    async def stream(self, body: bytes) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a watch at the present member. Ends only by an exception: OSError, or
        those of `failure_of`."""
        self._check_open()
        member = self._members.present
        connection = None
        try:
            async with asyncio.timeout(READ.attempt_s):
                headers = await self._session.headers(member)
                connection = await member.connection()
                connection.send(WATCH, headers | NEEDS_LEADER, body)
                status = await connection.head()
                if status >= 400:
                    raise failure_of(status, await connection.body())
            while data := await connection.data():
                yield data
            raise ConnectionResetError(f"etcd at {member.address} has ended a watch")
        except OSError as error:
            self._members.failed(member)
            if isinstance(error, TimeoutError):
                raise OSError(f"no response from etcd at {member.address}") from error
            raise
        finally:
            if connection is not None:
                connection.close()
                member.release(connection)

    def leave_member(self) -> None:
        """Use the next member for new calls. Those in flight continue."""
        self._members.leave(self._members.present)

    def renew_login(self) -> None:
        """Log in again at the next call."""
        self._session.renew()

    def close(self) -> None:
        self.is_closed = True
        self._members.close()

    def _check_open(self) -> None:
        if self.is_closed:
            raise OSError("the metadata store in etcd is closed")


class _Attempt:
    """A call at one member."""

    def __init__(self, session: Session, member: Member, path: str, body: bytes) -> None:
        self._session = session
        self._member = member
        self._path = path
        self._body = body
        self.is_sent = False

    async def response(self) -> bytes:
        try:
            return await self._once()
        except EtcdError as error:
            if error.failure is not Failure.LOGIN or not self._session.renew():
                raise
        self.is_sent = False
        return await self._once()

    async def _once(self) -> bytes:
        headers = NEEDS_LEADER | await self._session.headers(self._member)
        return await exchange(self._member, self._path, headers, self._body, self._sending)

    def _sending(self) -> None:
        self.is_sent = True
