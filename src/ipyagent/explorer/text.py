"""Spellings of names, typing errors, unused names; printed output, and answers in Markdown."""

from __future__ import annotations

import builtins
import csv
import keyword
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import chain, count, permutations, takewhile

from ipyagent.phrases import ellipsize, join_words

Words = tuple[str, ...]

_WORD = re.compile(r"[^\W_]+")
_UNITS = """
    mm cm m km in ft mi g kg mg lb lbs oz t s sec secs ms min mins h hr hrs days c f k pct percent
    usd eur gbp l ml pa hpa kpa w kw kwh wh v hz khz mhz kb mb gb mps kmh mph ha sqm sqft m2 m3
    minutes hours seconds years year euros dollars pounds meters metres kilometers miles feet
"""
UNITS = frozenset(_UNITS.split())
_RESERVED = frozenset({"pd", "pl", "np", "plt", "stats", "In", "Out", "get_ipython", "ipyagent"})
_MOST_WORDS = 5


@lru_cache(4096)
def words(text: str) -> Words:
    """Return a name's words in lower case: `bill_length_mm` gives bill, length, mm."""
    return tuple(_WORD.findall(text.casefold()))


@lru_cache(4096)
def split_name(name: str) -> Words:
    """Return a name's words, also those of camel case, without a unit at the end."""
    found = words(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name))
    while len(found) > 1 and found[-1] in UNITS:
        found = found[:-1]
    return found


def spellings(name: str) -> set[Words]:
    """Return spellings of a name: in words, as one word, plural, without its unit."""
    ways = {words(name), words(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)), split_name(name)}
    return {way for each in ways if each for way in (each, *_numbers(each))}


def _numbers(name: Words) -> Iterable[Words]:
    """Return the name in the singular and in the plural."""
    *front, last = name
    ends = [last + ("es" if last.endswith(("x", "ch", "sh")) else "s")]
    ends += [last[:-1] + "ies"] * last.endswith("y")
    ends = [last[:-1], last + "es"] if last.endswith("s") else ends
    return [(*front, end) for end in ends] if len(last) > 2 else []


def singular(word: str) -> str:
    """Return a word without the ending of a plural."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


@lru_cache(4096)
def match_loosely(run: Words, columns: tuple[str, ...]) -> list[str]:
    """Return the columns that these words name, whole, if loosely."""
    if len(run) > _MOST_WORDS:
        return []
    return [column for column in columns if _names(run, column)]


def match_parts(run: Words, columns: Iterable[str]) -> list[str]:
    """Return the columns that have all of these words among their own: `price` in AveragePrice."""
    wanted = [singular(word) for word in run]
    return [
        column
        for column in columns
        if all(word in map(singular, split_name(column)) for word in wanted)
    ]


def nearest(run: Words, columns: Iterable[str]) -> list[str]:
    """Return the columns that these words may mean, the nearest first: for offers only."""
    ranked = sorted(((_likeness(run, each), each) for each in columns), reverse=True)
    return [column for likeness, column in ranked if likeness > 0.55][:3]


def _likeness(run: Words, column: str) -> float:
    shared = set(map(singular, run)) & set(map(singular, split_name(column)))
    whole = SequenceMatcher(None, "".join(run), "".join(words(column))).ratio()
    return max(whole, 0.9 if shared else 0.0)


def _names(run: Words, column: str) -> bool:
    compact, own = "".join(words(column)), split_name(column)
    bare = "".join(own)
    if len(run) == 1 and len(own) > 2 and run[0] == "".join(word[0] for word in own):
        return True
    for way in (run, (*run[:-1], singular(run[-1]))):
        if "".join(way) in (compact, bare):
            return True
        if len(way) == 1:
            if _stands_alone(bare, way[0]):
                return True
        elif any(_consume(each, way, after_word=False) for each in {compact, bare} - {""}):
            return len(compact) > 1
        elif len(own) == len(way) < 5 and _pairs_up(own, way):
            return True
    return False


def _pairs_up(own: Words, run: Words) -> bool:
    """Return whether each word of the name shortens one of the words, in any order."""
    return any(all(map(_shortens, own, way)) for way in permutations(run))


def _shortens(short: str, word: str) -> bool:
    """Return whether this is the word, its beginning, or its letters with gaps: `yrs` of years."""
    if word.startswith(short):
        return len(short) >= min(3, len(word))
    return len(short) >= 3 and short[0] == word[0] and _has_gaps(short, word)


def _stands_alone(short: str, word: str) -> bool:
    """Return whether one word is clearly meant: `educ` is education, but `age` no agency."""
    enough = len(short) >= 4 or (len(short) == 3 and len(word) > 6)
    return enough and short[-1] not in "aeiouy" and word.startswith(short)


def _has_gaps(short: str, word: str) -> bool:
    """Return whether the letters stand in the word in this order, its last one included."""
    rest = iter(word)
    return all(letter in rest for letter in short) and short[-1] == word[-1]


def _consume(rest: str, run: Words, *, after_word: bool) -> bool:
    """Return whether pieces of the words, one of each, make up the rest of the name.

    After a whole word a piece has three letters: `income` is not `incom` and an `e`.
    """
    if not run:
        return not rest
    first, *others = run
    for length in range(3 if after_word else 1, len(rest) + 1):
        piece = rest[:length]
        if not (first.startswith(piece) or (length >= 3 and _shortens(piece, first))):
            continue
        whole = after_word or piece == first
        if _consume(rest[length:], tuple(others), after_word=whole):
            return True
    return False


def correct(word: str, known: Iterable[str]) -> list[str]:
    """Return the known words that this one is, with one typing error, or two in a long one."""
    if len(word) < 4 or not word.isalpha():
        return []
    most = 1 if len(word) < 8 else 2
    ranked = [
        (distance, each)
        for each in known
        if abs(len(each) - len(word)) <= most
        and len(each) >= 4
        and each[0] == word[0]
        and (distance := _distance(word, each)) <= most
    ]
    best = min((distance for distance, _ in ranked), default=0)
    return [each for distance, each in ranked if distance == best]


def _distance(one: str, other: str) -> int:
    """Return the number of typing errors: letters left out, added, changed or swapped."""
    before: list[int] = []
    line = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, last, line = line, before, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, line[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            line.append(cost)
    return line[-1]


def usable(name: str) -> bool:
    """Return whether a variable may have this name without hiding something else."""
    if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name):
        return False
    return not (name.startswith("_") or name in _RESERVED or hasattr(builtins, name))


def fresh(name: str, taken: Iterable[str]) -> str:
    """Return a valid, unused variable name like `name`."""
    base = re.sub(r"[^a-z0-9]+", "_", name.casefold()).strip("_")[:60] or "table"
    base = base if usable(base) else f"table_{base}"
    used = set(taken)
    names = chain([base], (f"{base}_{number}" for number in count(2)))
    return next(name for name in names if name not in used)


Rows = list[list[str]]

MAX_ROWS = 60  # of a table in an answer


class UnreadableError(Exception):
    """A tool's output lacks the lines that its call should have printed."""


def block(output: str, heading: Sequence[str]) -> Rows:
    """Return the rows of the CSV block with this heading; raises UnreadableError if missing."""
    lines = output.splitlines(keepends=True)
    for start in range(len(lines)):
        reader = csv.reader(lines[start:])
        with suppress(csv.Error):
            if next(reader, []) == list(heading):
                return list(takewhile(lambda row: len(row) == len(heading), reader))
    raise UnreadableError(f"no block {', '.join(heading)}")


def figures(output: str, pattern: str) -> tuple[str, ...]:
    """Return the groups of the first matching line; raises UnreadableError."""
    if found := re.search(rf"^{pattern}$", output, re.MULTILINE):
        return tuple(found.groups())
    raise UnreadableError(f"no line {pattern}")


def number(text: str, digits: int | None = None) -> str:
    """Format a printed number; other text stays unchanged, nothing becomes a dash."""
    if text in ("", "nan", "NaN", "None", "null"):
        return "n/a"
    if not re.fullmatch(r"-?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", text, re.IGNORECASE):
        return cell(text)
    value = float(text)
    if digits is not None:
        return f"{value:,.{digits}f}" if abs(value) >= 10_000 else f"{value:.{digits}f}"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}" if abs(value) >= 10_000 else str(int(value))
    if abs(value) >= 10_000:
        return f"{value:,.2f}"
    return f"{value:.2f}" if abs(value) >= 10 else f"{value:.4g}"


def format_count(text: str | int) -> str:
    """Format a number of things, which is no year."""
    return f"{int(text):,}"


def numbers(rows: Sequence[Sequence[str]], digits: int | None = None) -> Rows:
    """Format printed numbers, those of one column with as many decimals."""
    columns = [_alike(column, digits) for column in zip(*rows, strict=True)]
    return [list(row) for row in zip(*columns, strict=True)]


def _alike(cells: Sequence[str], digits: int | None) -> list[str]:
    values = [float(c) for c in cells if re.fullmatch(r"-?[\d.]+(e[-+]?\d+)?", c)]
    if not any("." in cell for cell in cells) or len(values) < len(cells) - cells.count(""):
        return [number(each) for each in cells]
    if digits is None and any(value != int(value) for value in values):
        digits = 2 if max(map(abs, values)) >= 10 else 3
    return [number(each, digits) for each in cells]


def percent(part: str | float, whole: str | float = 1) -> str:
    """Format a share in percent."""
    return f"{100 * float(part) / float(whole):.1f} %" if float(whole) else "n/a"


def code(text: str) -> str:
    """Return text as a code span, whatever it contains."""
    flat = " ".join(text.split())
    longest = max((len(run) for run in re.findall("`+", flat)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if longest else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def label(name: str) -> str:
    """Return a column's name for a cell of a table."""
    return code(name).replace("|", "\\|")


def codes(names: Iterable[str]) -> str:
    """Return names as code spans: `a`, `b` and `c`."""
    return join_words(map(code, names))


def cell(text: str) -> str:
    """Return a value as plain text that Markdown leaves alone; nothing is `(missing)`."""
    if text in ("", "nan", "NaN", "null"):
        return "(missing)"
    flat = ellipsize(" ".join(text.split()), 80)
    return re.sub(r"([\\`*_\[\]<>|#~&!$])", r"\\\1", flat)


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return a Markdown table; the first `left` columns are left-aligned, the others right."""
    marks = ["---" if i < left else "---:" for i in range(len(heading))]
    lines = [heading, marks, *rows[:MAX_ROWS]]
    more = f"\n\n… and {len(rows) - MAX_ROWS} more." if len(rows) > MAX_ROWS else ""
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + more


def fence(text: str, language: str = "text", lines: int = 30) -> str:
    """Return text as a code block that it cannot close, cut after so many lines."""
    shown = text.rstrip().splitlines()
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    more = [f"… ({len(shown) - lines} more lines)"] * (len(shown) > lines)
    return "\n".join([f"{ticks}{language}", *shown[:lines], *more, ticks])
