"""Numbers that follow from the tables and lists in results, by one or two operations.

    whole columns ─▶ rows that are named beside the number, the nearest first: shares, two columns,
    two rows, sums of rows ─▶ whole columns compared ─▶ the same with products of two columns
    ─▶ neighbors in a column ─▶ numbers that stand alone

A number of few digits follows from anything by chance. So whoever looks one up tries few of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, permutations, zip_longest
from math import prod
from typing import NamedTuple

MOST_LINES, MOST_TABLES, MOST_ROWS, MOST_ALONE = 1_000, 100, 16, 12
"""Lines of a result, tables of all results, rows and columns of a table, and numbers that stand
alone, that are read."""
FEW_ROWS, MOST_NAMED = 3, 4
"""Rows of which each may be meant without a name, and rows that are named together."""
RESULT_NUMBER = re.compile(
    r"(?<![\w.])-?(?:\d{1,3}(?:,\d{3}){1,6}(?![\d,])(?:\.\d+)?|\d+\.?\d*|\.\d+)"
    r"(?:[eE][-+]?\d+)?"
)
_ROW = re.compile(rf"(?:(?<=\s){RESULT_NUMBER.pattern}\s*)+\Z")
_BREAK = re.compile(r"(?<=[\])}]),\s*")
_TOTAL = re.compile(r"\b(?:total|all|count|entries|rows|size|valid|sum)\b", re.IGNORECASE)
_NAME = re.compile(r"[^\W\d_]+|\d+[^\W\d_]+|(?:19|20)\d\d(?!\d)")

CHANGE = re.compile(
    r"from|than|→|\b(?:to|by|between)\b|[-+\u2212]\s?\d|\b(?:\w+er|less|more|fell|fall|dr[oi]p"
    r"|r[oi]se|gr[eo]w|gain|los[et]|increase|decrease|decline|change|shr[aiu]nk|up|down|above|below"
    r"|over|under|short|without|gap|range|margin|ahead|behind|apart|differ|remain|rest|left|spread"
    r"|save|uplift)",
    re.IGNORECASE,
)
SUM = re.compile(r"together|total|\bsum|combined|both|\ball\b|plus|\+|\bso\b|makes|and \d", re.I)
_AVERAGE = re.compile(r"average|\bavg|\bmean|\bper\b|\beach\b|\d an? ", re.I)
_AND = re.compile(r"\band\b")
RATIO = re.compile(
    r"times|fold|\u00d7|factor|ratio|\bper\b|(?:one|1) in\b|[/÷]|\d(?: \w+)? an? ", re.I
)
PRODUCT = re.compile(r"\b(?:each|at|per|makes?)\b|[\u00d7*=]|times|cost|worth|pa(?:y|id)", re.I)

_Place = tuple[int, int]
"""A text and one of its lines."""
_Kind = tuple[int, ...]
"""A column, or two whose products are meant."""


@dataclass(frozen=True)
class Signs:
    """Signs, in a number and the words around it, of how it was worked out."""

    names: Mapping[str, int]
    """Names around it, in short, with their distances."""
    places: frozenset[_Place]
    """Where numbers beside it were found."""
    is_negative: bool
    is_percent: bool
    changes: bool
    sums: bool
    adds_named: bool
    averages: bool
    divides: bool
    multiplies: bool


@dataclass(frozen=True)
class Term:
    """A sum of products: a number, a column, or a column times another."""

    value: float
    parts: Sequence[Sequence[float]]
    place: _Place

    def __str__(self) -> str:
        text = " + ".join(" \u00d7 ".join(f"{each:,.10g}" for each in part) for part in self.parts)
        return f"({text})" if len(self.parts) > 1 else text


class Candidate(NamedTuple):
    """A number that follows from terms: its formula has a place for each of them."""

    value: float
    formula: str
    terms: tuple[Term, ...]

    def __str__(self) -> str:
        text = self.formula.format(*self.terms)
        return text[1:-1] if self.formula == "{0}" and text.startswith("(") else text


def read_row(line: str) -> list[float]:
    """Return the numbers that end a line, or all of its numbers; commas group digits."""
    found = RESULT_NUMBER.findall((_ROW.search(line) or (line,))[0])
    plain = (each.replace(",", "") for each in found)
    is_count = re.compile(r"-?\d{1,15}").fullmatch  # what is longer is no count, nor fast to read
    return [int(each) if is_count(each) else float(each) for each in plain]


_YEAR = re.compile(r"(?<=[^\W\d])(?:19|20)\d\d(?![\w.])")
"""A year in a name: `sales_2024`."""


def read_numbers(line: str) -> list[float]:
    """Return the numbers in a line of a result; both readings of `120,340`."""
    found = RESULT_NUMBER.findall(line.replace("\\n", "  ").replace("\u2212", "-"))
    found += _YEAR.findall(line)
    if "," in line:
        found += [part for each in found if "," in each for part in each.split(",")]
        found = [each.replace(",", "") for each in found]
    return list(map(float, found))


def _find_names(before: str, after: str) -> dict[str, int]:
    """Return the names around a number, in short, with their distances from it."""
    found = [(each[0], len(before) - each.end()) for each in _NAME.finditer(before)]
    found += [(each[0], each.start()) for each in _NAME.finditer(after)]
    near: dict[str, int] = {}
    for word, distance in sorted(found, key=lambda each: -each[1]):
        # `Sat` names what `Saturday` does.
        near |= dict.fromkeys((word, word[:3].lower(), word[:4].lower()), distance)
    return near


def read_signs(
    said: tuple[str, str, str],
    places: frozenset[_Place],
    *,
    digits: int,
    is_negative: bool,
    is_percent: bool,
) -> Signs:
    """Return the signs of a number; `said` are the words before it, its text and those after it.

    Long numbers follow from others by chance so rarely that no words need to say how.
    """
    before, text, after = said
    around = f"{before} {text}{after}"
    sums = not is_percent and bool(SUM.search(around) or _AND.search(before))
    return Signs(
        names=_find_names(before, after),
        places=places,
        is_negative=is_negative,
        is_percent=is_percent,
        changes=digits > 3 or bool(CHANGE.search(around)),
        sums=digits > 2 or sums,
        adds_named=sums,
        averages=bool(_AVERAGE.search(around)),
        divides=bool(RATIO.search(around)),
        multiplies=digits > 2 or bool(PRODUCT.search(around)),
    )


def _shorten_names(text: str) -> frozenset[str]:
    named = (
        each
        for each in _NAME.findall(text)
        if len(each) > 2 or not each.islower() or each[0].isdigit()
    )
    return frozenset(each[:4].lower() if len(each) > 2 else each for each in named)


def _list_named(keys: Sequence[frozenset[str]], names: Mapping[str, int]) -> list[int]:
    """Return the places of the keys that are named, the nearest first."""
    common = frozenset.intersection(*keys) if len(keys) > 1 else frozenset[str]()
    own = {n: (each - common) & names.keys() for n, each in enumerate(keys)}
    distances = {n: min(names[key] for key in each) for n, each in own.items() if each}
    return sorted(distances, key=distances.__getitem__)


@dataclass(frozen=True)
class _Table:
    """Rows of numbers, with the names and places of the rows, and the names of the columns."""

    rows: Sequence[Sequence[float]]
    row_keys: Sequence[frozenset[str]]
    column_keys: Sequence[frozenset[str]]
    places: Sequence[_Place]
    is_turned: bool = False

    def turn(self) -> _Table:
        """Return the table with its columns as rows."""
        rows, places = [*zip(*self.rows, strict=True)], [self.places[0]] * len(self.rows[0])
        return _Table(rows, self.column_keys, self.row_keys, places, is_turned=True)

    def add(self, rows: Sequence[int], kind: _Kind) -> Term:
        """Return the sum of rows in a column, or in the product of columns."""
        parts = [[self.rows[row][column] for column in kind] for row in rows]
        return Term(sum(map(prod, parts)), parts, self.places[rows[0]])

    def list_named(self, signs: Signs) -> list[int]:
        """Return the rows that are named or cited beside a number; of few rows all."""
        cited = (n for n, each in enumerate(self.places) if each in signs.places)
        every = range(len(self.rows)) if len(self.rows) <= FEW_ROWS else ()
        named = _list_named(self.row_keys, signs.names)
        return [*dict.fromkeys([*named, *(() if self.is_turned else cited), *every])]

    def follow(self, signs: Signs, alone: Sequence[Term]) -> Iterator[Iterable[Candidate]]:
        """Yield what follows from the table, the likeliest first."""
        every, named = range(len(self.rows)), self.list_named(signs)[:MOST_NAMED]
        first = _list_named(self.column_keys, signs.names)
        columns = [*dict.fromkeys([*first, *range(len(self.column_keys))])]
        if self.is_turned and any(self.column_keys):
            columns = first
        counts = {n for n in columns if all(type(row[n]) is int for row in self.rows)}
        singles: list[_Kind] = [(n,) for n in columns]
        products: list[_Kind] = [each for each in combinations(columns, 2) if counts & {*each}]
        yield self._compare_named(singles, signs)
        yield chain.from_iterable(
            _total(self.add(every, kind), signs, is_named=kind[0] in first) for kind in singles
        )
        for kinds in (singles, products):
            rows = self._follow_rows(named, kinds, signs, alone)
            groups = self._follow_groups(named, kinds, signs)
            yield from (groups, rows) if signs.adds_named else (rows, groups)
            yield self._follow_whole(kinds, signs, alone)
        yield self._follow_neighbors(singles, signs)

    def _compare_named(self, kinds: list[_Kind], signs: Signs) -> Iterator[Candidate]:
        """Yield how the two rows compare that are named nearest to a number."""
        is_other = signs.is_percent or signs.adds_named or signs.averages or self.is_turned
        pair = [] if is_other else _list_named(self.row_keys, signs.names)[:2]
        for kind in kinds if len(pair) == 2 else ():
            yield from _compare_all([self.add([row], kind) for row in pair], signs)

    def _follow_rows(
        self, named: list[int], kinds: list[_Kind], signs: Signs, alone: Sequence[Term]
    ) -> Iterator[Candidate]:
        """Yield what follows from one row, or from two."""
        for kind in kinds:
            whole = self.add(range(len(self.rows)), kind)
            for term in (self.add([row], kind) for row in named):
                if signs.multiplies and len(kind) > 1:
                    yield Candidate(term.value, "{0}", (term,))
                if len(self.rows) > 1:
                    yield from _share(term, whole, signs)
        for row in named:
            terms = [self.add([row], kind) for kind in kinds]
            yield from _compare_all(terms, signs)
            for term in terms:
                yield from _compare_alone(term, alone, signs)
        for one, other in permutations(named, 2):
            for kind in kinds:
                yield from _compare(self.add([one], kind), self.add([other], kind), signs)

    def _follow_groups(
        self, named: list[int], kinds: list[_Kind], signs: Signs
    ) -> Iterator[Candidate]:
        """Yield what follows from the sum of named rows, and from all others."""
        every = range(len(self.rows))
        groups = [named[:n] for n in range(2, len(named) + 1)]
        groups.append([row for row in every if row not in named[:1]])
        for group in groups:
            if 1 < len(group) < len(every):
                terms = [self.add(group, kind) for kind in kinds]
                for kind, term in zip(kinds, terms, strict=True):
                    yield from _total(term, signs)
                    yield from _share(term, self.add(every, kind), signs)
                yield from _compare_all(terms, signs)

    def _follow_whole(
        self, kinds: list[_Kind], signs: Signs, alone: Sequence[Term]
    ) -> Iterator[Candidate]:
        """Yield what follows from whole columns, and from their largest and smallest numbers."""
        every = range(len(self.rows))
        if len(every) < 2:
            return
        terms = [self.add(every, kind) for kind in kinds]
        for kind, term in zip(kinds, terms, strict=True):
            if len(kind) > 1:
                yield from _total(term, signs)
                for weight in kind if signs.averages and not signs.is_percent else ():
                    weights = self.add(every, (weight,))
                    if weights.value:
                        yield Candidate(term.value / weights.value, "{0} / {1}", (term, weights))
            yield from _compare_alone(term, alone, signs)
        yield from _compare_all(terms, signs)
        for kind in kinds:
            cells = sorted((self.add([row], kind) for row in every), key=lambda term: term.value)
            yield from _compare(cells[-1], cells[0], signs)

    def _follow_neighbors(self, kinds: list[_Kind], signs: Signs) -> Iterator[Candidate]:
        """Yield what follows from rows that stand together, as months of a quarter do."""
        every = range(len(self.rows))
        for kind in kinds if signs.sums or signs.averages else ():
            for begin, end in combinations(range(len(every) + 1), 2):
                if 1 < end - begin < len(every):
                    yield from _total(self.add(every[begin:end], kind), signs)


def _total(term: Term, signs: Signs, *, is_named: bool = False) -> Iterator[Candidate]:
    is_column = len(term.parts) > 1 and _are_alike(map(prod, term.parts), 1_000.0)
    if is_column and not signs.is_percent:
        if signs.sums or is_named:
            yield Candidate(term.value, "{0}", (term,))
        if signs.averages:
            count = len(term.parts)
            yield Candidate(term.value / count, f"{{0}} / {count}", (term,))


def _share(part: Term, whole: Term, signs: Signs) -> Iterator[Candidate]:
    if whole.value and (signs.is_percent or signs.divides):
        value = part.value / whole.value * (100 if signs.is_percent else 1)
        yield Candidate(value, "{0} / {1}", (part, whole))


def _compare(x: Term, y: Term, signs: Signs) -> Iterator[Candidate]:
    if not x.value or not y.value:
        return
    is_alike = type(x.value) is type(y.value) and 0.05 < abs(x.value / y.value) < 20
    if not signs.is_percent or 0 < x.value < y.value:
        yield from _share(x, y, signs)
    if signs.changes and is_alike and signs.is_percent:
        yield Candidate((x.value - y.value) / y.value * 100, "({0} - {1}) / {1}", (x, y))
    elif signs.changes and is_alike and (x.value < y.value) is signs.is_negative:
        yield Candidate(x.value - y.value, "{0} - {1}", (x, y))


def _compare_all(terms: Sequence[Term], signs: Signs) -> Iterator[Candidate]:
    for one, other in permutations(terms, 2):
        yield from _compare(one, other, signs)


def _compare_alone(term: Term, alone: Iterable[Term], signs: Signs) -> Iterator[Candidate]:
    for each in alone:
        yield from _compare(term, each, signs)
        if signs.changes and not signs.is_percent:
            yield Candidate(each.value - term.value, "{0} - {1}", (each, term))
        if signs.multiplies and not signs.is_percent:
            yield Candidate(term.value * each.value, "{0} \u00d7 {1}", (term, each))


class Tables:
    """The small tables of texts, also turned, and the numbers that stand alone."""

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        """Read the tables of texts, which are given by their lines."""
        self.tables: list[_Table] = []
        self.alone: list[Term] = []
        for text, lines in enumerate(texts):
            group, header = list[tuple[list[float], str, _Place]](), ""
            for number, line in enumerate([*lines[:MOST_LINES], ""]):
                for piece in _BREAK.split(line):
                    row, is_total = read_row(piece), bool(_TOTAL.search(piece))
                    # A name may have a number too: van 1.
                    is_other = bool(group) and abs(len(row) - len(group[0][0])) > (len(row) > 1)
                    if is_total or is_other:
                        self._add(header, group)
                        group = []
                    if is_total and row:
                        self.alone += (Term(each, [[each]], (text, number)) for each in row[:3])
                    elif 0 < len(row) <= MOST_ROWS:
                        group.append((row, piece, (text, number)))
                    else:
                        header = piece
            if len(self.tables) > MOST_TABLES:
                break

    def _add(self, header: str, group: Sequence[tuple[list[float], str, _Place]]) -> None:
        """Add a table by its rows, of which each has its line and its place."""
        if not 0 < len(group) <= MOST_ROWS:
            return
        width = min(len(row) for row, _, _ in group)
        rows, places = [row[-width:] for row, _, _ in group], [place for _, _, place in group]
        if len(rows) * width < 3:
            self.alone += (Term(each, [[each]], places[0]) for row in rows for each in row)
            return
        heads = header.split()
        heads = heads[-width:] if width <= len(heads) <= width + 2 else [""] * width
        row_keys = [_shorten_names(line) for _, line, _ in group]
        table = _Table(rows, row_keys, [*map(_shorten_names, heads)], places)
        is_alike = all(map(_are_alike, rows))
        if len(rows) == width and not any(heads):  # what was taken for what
            cells = [[each] for row in rows for each in row]
            for parts in (cells, cells[:: width + 1]):
                self.alone.append(Term(sum(map(prod, parts)), parts, places[0]))
        self.tables += [table] * (len(rows) > 1 or not is_alike)
        self.tables += [table.turn()] * is_alike

    def follow(self, signs: Signs) -> Iterator[Candidate]:
        """Yield what follows from all tables, the likeliest first."""
        alone = self.alone[:MOST_ALONE]
        ranked = sorted(self.tables, key=lambda table: table.is_turned)
        stages = zip_longest(*(each.follow(signs, alone) for each in ranked), fillvalue=())
        for each in alone:
            yield from _total(each, signs)
        for stage in stages:
            yield from chain.from_iterable(stage)
        for one, other in combinations(alone, 2):
            yield from _compare_alone(one, [other], signs)
            yield from _compare(other, one, signs)


def _are_alike(numbers: Iterable[float], most: float = 100.0) -> bool:
    """Return whether numbers may be added: all whole or none, and of one size."""
    sizes = [abs(each) for each in numbers if each]
    return len({*map(type, sizes)}) == 1 and max(sizes) <= most * min(sizes)
