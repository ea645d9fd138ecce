"""The nodes of a graph in rows and lanes, oldest first, as `git log --graph` draws commits.

A lane waits for one node. That node takes all lanes that wait for it, stands in the leftmost, and
opens a lane for each node that follows it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ipyagent.schema import Graph

MAX_LANES = 24
"""Further lanes are drawn as one."""

FOLD_FROM, KEPT_ROWS = 400, 8
"""The number of nodes from which long stretches are folded, and of rows kept at either end."""

Following = Mapping[str, Sequence[str]]
"""The ids of the nodes in order, each with those of the nodes that follow it."""


@dataclass(frozen=True)
class GraphRow:
    """A node's row: its lane, the lanes that end in it, and those that it opens.

    `beside` has for each other lane the node that it waits for, or None.
    """

    id: str
    lane: int
    ends: tuple[int, ...]
    begins: tuple[int, ...]
    beside: tuple[str | None, ...]


@dataclass(frozen=True)
class Layout:
    """Rows from top to bottom; `hidden` has for each folded stretch the number of its nodes."""

    rows: list[GraphRow]
    edges: list[tuple[str, str]]
    hidden: dict[str, int] = field(default_factory=dict)


def arrange_nodes(graph: Graph, head: str | None) -> Layout:
    """Return the layout of all nodes; long stretches without forks are folded in a large graph."""
    following: dict[str, list[str]] = {node.id: [] for node in graph}
    for node in graph:
        for parent in dict.fromkeys(node.parent_ids):
            following[parent].append(node.id)
    if len(graph) <= FOLD_FROM:
        return _layout(following, {})
    stays = {node.id for node in graph if not node.parent_ids or not following[node.id]}
    return _fold(following, stays | {head or ""})


def _layout(following: Following, hidden: dict[str, int]) -> Layout:
    edges = [(parent, child) for parent, children in following.items() for child in children]
    return Layout(list(_rows(following)), edges, hidden)


def _rows(following: Following) -> Iterator[GraphRow]:
    lanes: list[str | None] = []
    for each, children in following.items():
        ends = tuple(lane for lane, awaited in enumerate(lanes) if awaited == each)
        for lane in ends:
            lanes[lane] = None
        own = ends[0] if ends else _free_lane(lanes)
        beside = tuple(_trim(lanes)[:MAX_LANES])
        begins: list[int] = []
        for child in children:
            lane = _free_lane(lanes) if begins else own
            lanes[lane] = child
            begins.append(lane)
        lanes = _trim(lanes)
        yield GraphRow(each, own, ends, tuple(begins), beside)


def _free_lane(lanes: list[str | None]) -> int:
    """Return the leftmost lane that waits for no node; append one if there is none."""
    if None not in lanes:
        lanes.append(None)
    return lanes.index(None)


def _trim(lanes: list[str | None]) -> list[str | None]:
    """Return the lanes without the free ones on the right."""
    end = len(lanes)
    while end and lanes[end - 1] is None:
        end -= 1
    return lanes[:end]


def _fold(following: Following, stays: set[str]) -> Layout:
    """Return the layout with long stretches folded, each into one row of a single lane."""
    folds = dict(_stretches(list(_rows(following)), stays))
    order, shown, hidden = list(following), dict[str, Sequence[str]](), {}
    number = 0
    while number < len(order):
        each = order[number]
        shown[each] = following[each]
        if last := folds.get(number):
            fold = f"{each}…{order[last]}"
            hidden[fold] = last - number
            shown[each], shown[fold] = [fold], following[order[last]]
            number = last
        number += 1
    return _layout(shown, hidden)


def _stretches(rows: list[GraphRow], stays: set[str]) -> Iterator[tuple[int, int]]:
    """Yield pairs of row numbers: the rows after the first, up to the last, can be left out.

    That is so where below both rows the same lanes wait for the same nodes, but for the lane of the
    stretch itself: forks in between are joined again. No stretch holds a node that stays.
    """
    alike: dict[object, list[int]] = defaultdict(list)
    keys: list[object] = []
    part = 0
    for number, row in enumerate(rows):
        part += row.id in stays
        single = len(row.begins) == 1 and len(row.beside) < MAX_LANES
        keys.append((part, row.lane, row.beside) if single else None)
        alike[keys[-1]].append(number)
    number = 0
    while number < len(rows):
        numbers = alike[keys[number]] if keys[number] else [number]
        first = bisect_left(numbers, number + KEPT_ROWS)
        last = bisect_right(numbers, numbers[-1] - KEPT_ROWS) - 1
        if last > first and numbers[last] - numbers[first] >= KEPT_ROWS:
            yield numbers[first], numbers[last]
        number = numbers[-1] + 1
