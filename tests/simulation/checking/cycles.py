"""Cycles of dependencies between operations (G0, G1c).

ww: an edge from the writer of a version to the writer of the next version. wr: an edge from the
writer of a value to each of its readers. Session and time: an edge from an operation to the next
operation of its process, and to all operations that began after its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, pairwise

from tests.simulation.checking.anomaly import Anomaly
from tests.simulation.checking.history import Operation, Outcome
from tests.simulation.checking.version_order import VersionOrder

Graph = dict[int, set[int]]


def find_cycles(order: VersionOrder) -> Iterator[Anomaly]:
    """Yield an anomaly for each strongly connected component of three graphs: ww (anomaly G0), wr
    with session and time (G1c), and ww with wr (G1c too). The anomalies of the first and the third
    graph are marked as allowed, because Kafka's transactions do not exclude them."""
    operations = order.operations
    numbers = {id(operation): number for number, operation in enumerate(operations)}
    ww = _graph(_write_write(order), numbers)
    wr = _graph(_write_read(order), numbers)
    sessions = _graph((*_process_order(operations), *_real_time(operations)), numbers)
    shown = _shower(operations)
    for component in components(ww):
        yield Anomaly("G0", shown(component), allowed=True)
    for component in components(_union(wr, sessions)):
        # Edges of session and time alone form no cycle, so this cycle has a write-read edge.
        yield Anomaly("G1c", f"write-read and time only: {shown(component)}")
    for component in components(_union(ww, wr)):
        yield Anomaly("G1c", f"with inferred write-write edges: {shown(component)}", allowed=True)


def _shower(operations: list[Operation]) -> Callable[[list[int]], str]:
    def shown(component: list[int]) -> str:
        return " · ".join(
            f"process {operations[n].process} at {operations[n].invoked}" for n in component[:4]
        )

    return shown


def _graph(edges: Iterable[tuple[Operation, Operation]], numbers: dict[int, int]) -> Graph:
    graph: Graph = {}
    for source, target in edges:
        if source is not target:
            graph.setdefault(numbers[id(source)], set()).add(numbers[id(target)])
    return graph


def _union(*graphs: Graph) -> Graph:
    union: Graph = {}
    for graph in graphs:
        for source, targets in graph.items():
            union.setdefault(source, set()).update(targets)
    return union


def _write_write(order: VersionOrder) -> Iterator[tuple[Operation, Operation]]:
    for key, by_offset in order.by_offset.items():
        writers = [
            order.writers[key, value]
            for values in by_offset.values()
            for value in values
            if (key, value) in order.writers
        ]
        yield from pairwise(writers)


def _write_read(order: VersionOrder) -> Iterator[tuple[Operation, Operation]]:
    for pair, readers in order.readers.items():
        if pair in order.writers:
            for reader in readers:
                yield order.writers[pair], reader


def _process_order(operations: list[Operation]) -> Iterator[tuple[Operation, Operation]]:
    happened = [operation for operation in operations if operation.outcome is Outcome.OK]
    by_process = sorted(happened, key=lambda operation: (operation.process, operation.invoked))
    for _, group in groupby(by_process, key=lambda operation: operation.process):
        yield from pairwise(group)


def _real_time(operations: list[Operation]) -> Iterator[tuple[Operation, Operation]]:
    """Yield an edge from an operation to each operation that began after its end. Edges that follow
    from other edges are left out."""
    happened = [operation for operation in operations if operation.outcome is Outcome.OK]
    moments = [(op.invoked, 0, n) for n, op in enumerate(happened)]
    moments += [(op.completed, 1, n) for n, op in enumerate(happened)]
    newest: set[int] = set()
    before: dict[int, set[int]] = {}
    for _, is_end, n in sorted(moments):
        if is_end:
            newest -= before.pop(n)
            newest.add(n)
        else:
            before[n] = set(newest)
            for other in sorted(newest):
                yield happened[other], happened[n]


def components(graph: Graph) -> list[list[int]]:
    """Return the strongly connected components with more than one node (Tarjan's algorithm, without
    recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in sorted(graph):
        if root in index:
            continue
        work: list[tuple[int, Iterator[int]]] = []
        _enter(root, graph, index, low, stack, on_stack, work)
        while work:
            node, targets = work[-1]
            target = next(targets, None)
            if target is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = _leave(node, stack, on_stack)
                    if len(component) > 1:
                        found.append(component)
            elif target not in index:
                _enter(target, graph, index, low, stack, on_stack, work)
            elif target in on_stack:
                low[node] = min(low[node], index[target])
    return found


def _enter(
    node: int,
    graph: Graph,
    index: dict[int, int],
    low: dict[int, int],
    stack: list[int],
    on_stack: set[int],
    work: list[tuple[int, Iterator[int]]],
) -> None:
    index[node] = low[node] = len(index)
    stack.append(node)
    on_stack.add(node)
    work.append((node, iter(sorted(graph.get(node, ())))))


def _leave(root: int, stack: list[int], on_stack: set[int]) -> list[int]:
    component = []
    while True:
        node = stack.pop()
        on_stack.discard(node)
        component.append(node)
        if node == root:
            return sorted(component)
