"""Drawn sequences of requests get the same responses from the simulated etcd as from a real one."""

from __future__ import annotations

import http.client
import itertools
import json
from collections.abc import Callable
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from tests.harness.etcd import Etcd
from tests.harness.etcd_gateway import Document, text
from tests.simulation.etcd.gateway import Gateway
from tests.simulation.etcd.kv import KeyRange
from tests.simulation.etcd.state import State

TIMEOUT_S: Final = 15.0
# Longer than the test, so that no lease ends by itself.
TTL_S: Final = 3600
LAST: Final = "zz"

_numbers = itertools.count(1)


class Run:
    """One sequence of requests to both etcds. Both begin at the same revision, with one lease, and
    without a key in the run's prefix."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._real = http.client.HTTPConnection(address, timeout=TIMEOUT_S)
        self.number = next(_numbers)
        begun = self._ask("/v3/kv/put", {"key": text("begin")})[1]
        self.start = int(begun["header"]["revision"])
        self.state = State(lambda: 0.0, revision=self.start)
        self._gateway = Gateway(self.state, 1)
        self.check("/v3/lease/grant", {"TTL": str(TTL_S), "ID": self.lease(0)})

    @property
    def prefix(self) -> str:
        return f"run-{self.number}/"

    def key(self, name: str) -> str:
        return text(self.prefix + name)

    @property
    def keys(self) -> Document:
        """Return the range of all keys of the run."""
        return {"key": self.key(""), "range_end": text(self.prefix[:-1] + "0")}

    def lease(self, index: int | None) -> str:
        return "0" if index is None else str(1_000_000_000_000 + 10 * self.number + index)

    def revision(self, back: int) -> str:
        """Return the revision that is `back` before the newest, but none before the start of the
        run. With -1, return a future revision."""
        return str(max(self.state.kv.revision - back, self.start))

    def check(self, path: str, body: Document) -> None:
        """Send a request to both, and compare the responses."""
        expected = self._ask(path, body)
        response = self._gateway.respond(path, json.dumps(body).encode())
        assert (response.status, plain(response.document)) == (expected[0], plain(expected[1]))

    def check_end(self, back: int) -> None:
        """Compare all keys, the keys of the leases, and the events since a revision."""
        self.check("/v3/kv/range", self.keys)
        for index in (0, 1):
            self.check("/v3/lease/timetolive", {"ID": self.lease(index), "keys": True})
        self._check_watch(back)

    def _check_watch(self, back: int) -> None:
        self.check("/v3/kv/put", {"key": self.key(LAST)})
        first = int(self.revision(back))
        create = {**self.keys, "start_revision": str(first)}
        self._real.request("POST", "/v3/watch", json.dumps({"create_request": create}))
        response = self._real.getresponse()
        assert json.loads(response.readline())["result"]["created"]
        kv = self.state.kv
        if first < kv.compacted:
            canceled = json.loads(response.readline())
            assert plain(canceled) == plain(self._gateway.compacted())
        else:
            prefix = self.prefix.encode()
            commits = list(kv.commits(KeyRange(prefix, prefix[:-1] + b"0"), first))
            events: list[Any] = []
            while not events or events[-1]["kv"]["key"] != self.key(LAST):
                events += json.loads(response.readline())["result"]["events"]
            assert events == self._gateway.events(commits, kv.revision)["result"]["events"]

    def close(self) -> None:
        self._real.close()

    def _ask(self, path: str, body: Document) -> tuple[int, Any]:
        self._real.request("POST", path, json.dumps(body))
        response = self._real.getresponse()
        return response.status, json.loads(response.read())


def plain(document: Any) -> Any:
    """Return a document without the parts that name a member, and without the time that a lease has
    left."""
    if isinstance(document, list):
        return [plain(part) for part in document]
    if not isinstance(document, dict):
        return document
    found = {
        name: plain(part)
        for name, part in document.items()
        if name not in {"cluster_id", "member_id", "raft_term"}
    }
    if "grantedTTL" in found:
        del found["TTL"]
        found["keys"] = sorted(found.get("keys", []))
    return found


Step = Callable[[Run], tuple[str, Document]]
Part = Callable[[Run], Document]

NAMES: Final = st.sampled_from(["a", "ab", "b"])
LEASES: Final = st.sampled_from([None, 0, 0, 1])
BACK: Final = st.integers(-1, 6)
# One key, or the keys from one key up to another, which may come first, or all keys.
RANGES: Final = st.tuples(NAMES, st.none() | NAMES | st.just("\xff"))


def in_range(run: Run, keys: tuple[str, str | None]) -> Document:
    key, end = keys
    return {"key": run.key(key), **({} if end is None else {"range_end": run.key(end)})}


@st.composite
def puts(draw: st.DrawFn) -> Part:
    name, value, lease = draw(NAMES), draw(st.sampled_from(["", "1", "2"])), draw(LEASES)
    return lambda run: {"key": run.key(name), "value": text(value), "lease": run.lease(lease)}


@st.composite
def reads(draw: st.DrawFn) -> Part:
    keys, limit, back = draw(RANGES), draw(st.integers(0, 2)), draw(st.none() | BACK)
    return lambda run: {
        **in_range(run, keys),
        "limit": str(limit),
        "revision": "0" if back is None else run.revision(back),
    }


@st.composite
def deletes(draw: st.DrawFn) -> Part:
    keys = draw(RANGES)
    return lambda run: in_range(run, keys)


@st.composite
def conditions(draw: st.DrawFn) -> Part:
    keys = draw(RANGES)
    relation = draw(st.sampled_from(["EQUAL", "NOT_EQUAL", "GREATER", "LESS"]))
    target, field = draw(
        st.sampled_from(
            [
                ("MOD", "mod_revision"),
                ("CREATE", "create_revision"),
                ("VERSION", "version"),
                ("LEASE", "lease"),
            ]
        )
    )
    number, back, lease = draw(st.integers(0, 3)), draw(st.none() | BACK), draw(LEASES)

    def made(run: Run) -> Document:
        values = {
            "version": str(number),
            "lease": run.lease(lease),
            "mod_revision": "0" if back is None else run.revision(back),
        }
        value = values.get(field, values["mod_revision"])
        return {**in_range(run, keys), "target": target, "result": relation, field: value}

    return made


@st.composite
def operations(draw: st.DrawFn) -> Part:
    field, part = draw(
        st.sampled_from(
            [
                ("request_put", puts()),
                ("request_range", reads()),
                ("request_delete_range", deletes()),
            ]
        )
    )
    made: Part = draw(part)
    return lambda run: {field: made(run)}


@st.composite
def transactions(draw: st.DrawFn) -> Part:
    compare = draw(st.lists(conditions(), max_size=2))
    success = draw(st.lists(operations(), max_size=4))
    failure = draw(st.lists(operations(), max_size=2))
    return lambda run: {
        "compare": [made(run) for made in compare],
        "success": [made(run) for made in success],
        "failure": [made(run) for made in failure],
    }


@st.composite
def leases(draw: st.DrawFn) -> Step:
    calls: list[tuple[str, Document]] = [
        ("/v3/lease/grant", {"TTL": str(TTL_S)}),
        ("/v3/lease/keepalive", {}),
        ("/v3/lease/revoke", {}),
        ("/v3/lease/timetolive", {"keys": True}),
    ]
    path, field = draw(st.sampled_from(calls))
    index = draw(st.integers(0, 1))
    return lambda run: (path, {**field, "ID": run.lease(index)})


@st.composite
def steps(draw: st.DrawFn) -> Step:
    path, parts = draw(
        st.sampled_from(
            [
                ("/v3/kv/put", puts()),
                ("/v3/kv/put", puts()),
                ("/v3/kv/range", reads()),
                ("/v3/kv/deleterange", deletes()),
                ("/v3/kv/txn", transactions()),
                ("/v3/kv/txn", transactions()),
                ("/v3/kv/compaction", BACK),
            ]
        )
    )
    part: Any = draw(parts)
    if path == "/v3/kv/compaction":
        # `physical`: the response comes after the compaction, so that both have dropped the same
        # revisions.
        return lambda run: (path, {"revision": run.revision(part), "physical": True})
    return lambda run: (path, part(run))


@given(st.lists(steps() | steps() | leases(), min_size=10, max_size=25), st.integers(0, 14))
def test_drawn_requests_get_the_responses_of_a_real_etcd(
    real_etcd: Etcd, drawn: list[Step], back: int
) -> None:
    run = Run(real_etcd.endpoints[0])
    try:
        for step in drawn:
            run.check(*step(run))
        run.check_end(back)
    finally:
        run.close()
