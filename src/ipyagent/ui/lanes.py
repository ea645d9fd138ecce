"""The nodes of a graph in rows and lanes, first things first, as `git log --graph` draws commits.

A lane waits for one node. That node takes all lanes that wait for it, stands in the leftmost, and
leaves a lane for each node that follows it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ipyagent.schema import Graph

WIDE = 24
"""More lanes than these are not told apart."""

MANY, KEPT = 400, 8
"""From how many nodes on long stretches are folded, and how many rows of each end stay."""

Following = Mapping[str, Sequence[str]]
"""The ids of the nodes in order, each with those of the nodes that follow it."""


@dataclass(frozen=True)
class Place:
    """Where a node stands: its lane, the lanes that end in it, and those that it leaves.

    `beside` has for each other lane the node that it waits for, or None.
    """

    id: str
    lane: int
    ends: tuple[int, ...]
    begins: tuple[int, ...]
    beside: tuple[str | None, ...]


@dataclass(frozen=True)
class Layout:
    """Places from top to bottom; `hidden` has how many nodes stand behind a place that is none."""

    places: list[Place]
    hidden: dict[str, int] = field(default_factory=dict)


def laid_out(graph: Graph, head: str | None) -> Layout:
    """All nodes; of many, without the middle of stretches in which nothing branches off or ends."""
    following: dict[str, list[str]] = {node.id: [] for node in graph}
    for node in graph:
        for parent in dict.fromkeys(node.parent_ids):
            following[parent].append(node.id)
    if len(graph) <= MANY:
        return Layout(list(_places(following)))
    stays = {node.id for node in graph if not node.parent_ids or not following[node.id]}
    return _folded(following, stays | {head or ""})


def _places(following: Following) -> Iterator[Place]:
    lanes: list[str | None] = []
    for each, children in following.items():
        ends = tuple(lane for lane, awaited in enumerate(lanes) if awaited == each)
        for lane in ends:
            lanes[lane] = None
        own = ends[0] if ends else _free(lanes)
        beside = tuple(_trimmed(lanes)[:WIDE])
        begins: list[int] = []
        for child in children:
            lane = _free(lanes) if begins else own
            lanes[lane] = child
            begins.append(lane)
        lanes = _trimmed(lanes)
        yield Place(each, own, ends, tuple(begins), beside)


def _free(lanes: list[str | None]) -> int:
    """The leftmost lane in which nobody is waited for; made if there is none."""
    if None not in lanes:
        lanes.append(None)
    return lanes.index(None)


def _trimmed(lanes: list[str | None]) -> list[str | None]:
    """The lanes without those on the right in which nobody is waited for."""
    end = len(lanes)
    while end and lanes[end - 1] is None:
        end -= 1
    return lanes[:end]


def _folded(following: Following, stays: set[str]) -> Layout:
    """The layout with a placeholder for each long stretch that one lane leads into and out of."""
    folds = dict(_stretches(list(_places(following)), stays))
    order, rows, hidden = list(following), dict[str, Sequence[str]](), {}
    row = 0
    while row < len(order):
        each = order[row]
        rows[each] = following[each]
        if last := folds.get(row):
            fold = f"{each}…{order[last]}"
            hidden[fold] = last - row
            rows[each], rows[fold] = [fold], following[order[last]]
            row = last
        row += 1
    return Layout(list(_places(rows)), hidden)


def _stretches(places: list[Place], stays: set[str]) -> Iterator[tuple[int, int]]:
    """Pairs of rows such that all rows after the first, up to the last, can be left out.

    That is so where below both rows the same lanes wait for the same nodes, but for the lane of the
    stretch itself: what forks in between joins again. Rows with a node that stays lie in none.
    """
    alike: dict[object, list[int]] = defaultdict(list)
    keys: list[object] = []
    part = 0
    for row, place in enumerate(places):
        part += place.id in stays
        single = len(place.begins) == 1 and len(place.beside) < WIDE
        keys.append((part, place.lane, place.beside) if single else None)
        alike[keys[-1]].append(row)
    row = 0
    while row < len(places):
        rows = alike[keys[row]] if keys[row] else [row]
        first = bisect_left(rows, row + KEPT)
        last = bisect_right(rows, rows[-1] - KEPT) - 1
        if last > first and rows[last] - rows[first] >= KEPT:
            yield rows[first], rows[last]
        row = rows[-1] + 1
