"""Numbers in an answer, each looked up among the numbers in the results that the model had read.

A number is `found` if a result holds it, also rounded, in percent, or with a unit such as `million`
or `GB`; `derived` if it is a sum, difference, ratio, product, share or percentage change of found
numbers near it, or follows from a table of the results; else `not found`. No model is asked.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, islice
from typing import Literal, NamedTuple

from ipyagent.number_dates import MOMENT, read_moment
from ipyagent.number_tables import CHANGE, PRODUCT, RATIO, SUM, Tables, read_numbers, read_signs

Trace = Literal["found", "derived", "not found"]

MOST = 1_000
"""Numbers of one answer that are looked up."""
LONGEST = 40
"""Characters of a number; nobody reads a longer one."""
HEAD = 10_000
"""Characters of a result in which words about all of its numbers are looked for."""
SMALL = 10
"""Whole numbers up to it are said in passing ("two of 3 columns"), and are no claims."""
TOTALS = 100
"""Numbers of the results that shares may be of."""
CANDIDATES = 20
"""Places of one number in the results that are compared by the words around them."""
FAR = 2_000
"""Characters before a number in which the head of its column is looked for."""
EVIDENCE = 4
"""Digits and common words that a number of an earlier turn takes: of many, one fits by chance."""
MOST_TRIED, LUCK = 2_000, 0.1
"""Numbers that follow from tables and are tried: at most, and for each unit of the last place."""
NEIGHBORS = 16
"""Numbers on each side of another that may lend it their unit, or of which it may be derived."""


@dataclass(frozen=True)
class TracedNumber:
    """A number of an answer, and where it comes from."""

    text: str
    start: int
    """Where it begins in the answer, in characters."""
    trace: Trace
    source: str = ""
    """The id of the call whose result holds it, or a number of its formula; "" for the prompt."""
    line: int = 0
    """The line of that text, from 1; 0 if it is not found."""
    formula: str = ""
    """How it is derived: `5,076 - 3,701`."""


Texts = Sequence[tuple[str, str]]
"""Texts, each after its source: the id of the call whose result it is, or "" for a prompt."""


def trace_numbers(
    answer: str, texts: Texts, earlier: Iterable[tuple[str, str]] = ()
) -> list[TracedNumber]:
    """Look up the numbers of an answer in what the model had read, in the order of the answer.

    The `earlier` texts, of other turns, are only read for numbers that are in none of `texts`.
    """
    index = _Index(texts)
    prose = _blank(_NO_CLAIM, answer)
    moments = [_trace_moment(each, index) for each in islice(MOMENT.finditer(prose), MOST)]
    claims = list(islice(_read_claims(_blank(MOMENT, prose)), MOST))
    for each in claims:
        each.before, each.after = _read_around(each, answer)
    reach = [claims[max(0, n - NEIGHBORS) : n + NEIGHBORS + 1] for n in range(len(claims))]
    for claim, near in zip(claims, reach, strict=True):
        _find(claim, index, {each.unit for each in near if each.paragraph == claim.paragraph})
    missing = [each for each in claims if not (each.traced.line or each.is_small)]
    if missing and (texts := [*earlier]):
        before = _Index(texts)
        for claim in missing:
            _find(claim, before, set(), least=EVIDENCE)
    for claim, near in [*zip(claims, reach, strict=True)] * 2:  # others may follow from it
        is_missing = not (claim.traced.line or claim.traced.formula or claim.is_small)
        if is_missing and (found := next(_derive(claim, near, index), None)):
            formula, value, (source, line) = found
            at = claim.traced
            claim.traced = TracedNumber(at.text, at.start, "derived", source, line, formula)
            if claim.digits > 2:
                claim.value = claim.raw = value
    traced = [each.traced for each in claims if each.traced.line or not each.is_small]
    return sorted(moments + traced, key=lambda each: each.start)


def read_answer(answer: str) -> Iterator[tuple[float, float, tuple[float, ...]]]:
    """Yield each number of an answer, one in its last place, and the factors of its unit.

    A million has the factor 1e6. Dates, numbering and names such as Q3 are left out, code is not.
    """
    prose = _blank(MOMENT, _blank(_NO_CLAIM, answer.replace("`", " ")))
    for each in islice(_read_claims(prose), MOST):
        yield -each.size if each.sign == "-" else each.size, each.step, _factors(each.unit)


# Reading the answer

_NO_CLAIM = re.compile(
    r"""
      ^[ ]*(?P<fence>```|~~~)(?s:.*?)(?:^[ ]*(?P=fence)|\Z) | `+[^`\n]*`+   # code
    | \]\([^()\s]*\) | https?://\S+ | </?[a-z][^<>\n]*>                 # links and tags
    | ^[ >\#*|-]*\(?\d+[.)](?=\s)                                       # numbering of a list
    | (?<![\w-])[^\W\d](?=[\w-]*\d)(?:-?\w)*(?:\.\d+)*                  # a name: Q3, AX-2207, v3.2
    | \b\d+(?:st|nd|rd|th|D|-(?!fold)[^\W\d]\w*)\b | \b\d{3}0s\b        # 3rd, 30-day, 1990s
    | \b\d+:(?:\d|00)\b(?!:) | \b\d+:\d+\ (?:split|ratio)               # 3:1, 9:00
    | \b(?:step|fig\.|figure|table|cell|line|section|chapter|version|python|pandas|part|item|no\.
        |note|phase|question|example|class|type|top|first|last|next)s?\ \#?\d{1,3}(?:\.\d+)*\b
        (?![,.]\d|\s?%)
    | (?:[<>≤≥]|alpha\ =|\u03b1\ =|level\ of)\s?(?:0?\.(?:1|05|01|005|001|0001)|[15]\s?%)(?!\d)
    | \b\d+(?:\.\d+)?\s?(?:\\?%|percent)[- ](?:significance|confidence|credible|level|interval|CI)\b
    """,
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
_NUMBER = re.compile(
    r"""
    (?P<sign>(?<![\w)%°.])[-\u2212\u2013+])? (?P<currency>[$€£¥]\ ?)?
    (?P<digits> \d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)(?:[.,]\d+)?      # 1 234 567,8
      | \d+(?:[.,'\u2019_]\d+)* | (?<![\d.])\.\d+ )
    (?: [eE](?P<exponent>[-+]?[12]?\d{1,2})(?!\d)
      | \s?(?:[\u00d7x*·]|\\times|\\cdot)\s?10\^?\{?
        (?P<power>[-\u2212⁻]?[12¹²]?[\d⁰¹²³⁴⁵⁶⁷⁸⁹]{1,2})\}? )?
    """,
    re.VERBOSE,
)
_GROUPED = re.compile(r"\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d+)?")
_ASCII = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻\u2212\u2013", "0123456789---")
_SENTENCE = re.compile(r"[.!?](?=\s+[^a-z\s\d])|\n")
_VAGUE = re.compile(
    r"(?:(?P<over>over|above|exceed\w*|at least|more than|≥|>)"
    r"|(?P<under>under|below|nearly|almost|up to|(?:less|fewer) than|≤|<)"
    r"|about|around|roughly|approximately|some|just|close to|circa|ca\.|~|≈)[\W_]{0,5}\Z",
    re.IGNORECASE,
)
_UNIT = re.compile(r"[ \u00a0\u202f-]?(percentage point|per cent|[^\W\d_]+|\\?%)")
_PERCENT = {"%", "\\%", "percent", "per cent", "percentage point", "pp", "prozent"}
_SCALES = {
    **dict.fromkeys(("k", "thousand", "tsd"), 1e3),
    **dict.fromkeys(("m", "mn", "mio", "million", "millionen"), 1e6),
    **dict.fromkeys(("b", "bn", "billion", "mrd", "milliarden"), 1e9),
    **dict.fromkeys(("t", "tn", "trillion"), 1e12),
    "lakh": 1e5,
    "crore": 1e7,
}
_MEASURE = re.compile(r"([kKMGTmµn]?)(?:g|m|s|i?B|Wh?|Hz|J|eV|V|L)")
_PREFIXES = dict(zip("kKMGTmµn", (1, 1, 2, 3, 4, -1, -2, -3), strict=True))
"""The powers of a thousand, or of 1,024, that prefixes stand for."""


@dataclass(eq=False)
class _Claim:
    """A number as it is written, and what has been learned about it."""

    traced: TracedNumber
    sentence: int
    paragraph: int
    before: str
    after: str
    """The text of its line behind it."""
    sign: str
    size: float
    """Without its sign, in its unit."""
    step: float
    """One in its last place."""
    vague: str
    """`over` or `under`, as in "over 200"."""
    unit: str
    is_small: bool
    place: tuple[int, int] | None = None
    value: float = 0.0
    """The number that it was rounded from, in its unit, and `raw`: as the result has it."""
    raw: float = 0.0

    @property
    def around(self) -> str:
        return f"{self.before} {self.traced.text}{self.after}"

    @property
    def is_percent(self) -> bool:
        return self.unit in _PERCENT

    @property
    def is_year(self) -> bool:
        return self.traced.text.isdecimal() and 1500 <= self.size <= 2100

    @cached_property
    def digits(self) -> int:
        """Significant digits."""
        return len(f"{self.size / self.step:.0f}")

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest number that it may have been rounded from."""
        below = self.step * {"over": 0.0, "under": 1.0}.get(self.vague, 0.5)
        above = self.step * {"over": 1.0, "under": 0.0}.get(self.vague, 0.5)
        return (self.size - below) * (1 - 1e-9), (self.size + above) * (1 + 1e-9)

    def fits(self, value: float) -> bool:
        """Return whether it is a value, rounded."""
        if self.sign and value and (value < 0) != (self.sign == "-"):
            return False
        return self.bounds[0] <= abs(value) <= self.bounds[1]


def _blank(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def _read_claims(prose: str) -> Iterator[_Claim]:
    commas, points = (len(re.findall(rf"\d{sign}\d\d?(?![,.]?\d)", prose)) for sign in (",", r"\."))
    sentence = paragraph = end = 0
    for found in _NUMBER.finditer(prose):
        sentence += len(_SENTENCE.findall(prose, end, found.start() + 1))
        paragraph += bool(re.search(r"\n\s*\n", prose[end : found.start()]))
        end = found.end()
        digits = _plain_digits(found["digits"], commas > points)
        if digits is not None:
            yield _read_claim(found, digits, sentence, paragraph)


def _plain_digits(digits: str, has_decimal_comma: bool) -> str | None:
    """Return digits as Python writes them; None for what is not one number."""
    if len(digits) > LONGEST:
        return None
    digits = re.sub(r"[\s'\u2019_]", "", digits)
    if has_decimal_comma:
        digits = digits.translate(str.maketrans(".,", ",."))
    if _GROUPED.fullmatch(digits):
        digits = digits.replace(",", "")
    elif "." not in digits:
        digits = re.sub(r",(?=\d\d?\Z)", ".", digits)
    return digits if re.fullmatch(r"\d*\.?\d+", digits) else None


def _read_claim(found: re.Match[str], digits: str, sentence: int, paragraph: int) -> _Claim:
    prose, start, end = found.string, found.start(), found.end()
    before = prose[max(0, start - 60) : start].rpartition("\n")[2]
    vague = _VAGUE.search(before[-20:])
    unit = match[1] if (match := _UNIT.match(prose, end, end + 30)) else ""
    unit = next((u for u in (unit, unit.lower(), unit.lower().rstrip("s")) if _factors(u)), "")
    power = found["exponent"] or found["power"]
    scale = float("1e" + power.translate(_ASCII)) if power else 1.0
    whole, _, decimals = digits.partition(".")
    zeros = 0 if decimals else len(whole) - len(whole.rstrip("0"))
    # 18,000 and "about 120" say that they are rounded; 120 does not.
    rounded = min(zeros, len(whole) - 1) if zeros >= 3 or vague else 0
    is_plain = not (decimals or found["sign"] or found["currency"] or power or unit)
    return _Claim(
        TracedNumber(found[0], start, "not found"),
        sentence,
        paragraph,
        before=before,
        after=prose[end : end + 60].partition("\n")[0],
        sign=(found["sign"] or "").translate(_ASCII),
        size=float(digits) * scale,
        step=max(scale * 10.0 ** (rounded - len(decimals)), 1e-320),
        vague=(vague and vague.lastgroup) or "",
        unit=unit,
        is_small=is_plain and float(digits) <= SMALL,
    )


def _factors(unit: str) -> tuple[float, ...]:
    """Return the factors that may lead from a unit to that of a result; () if it is unknown."""
    if unit in _PERCENT:
        return (0.01, 1.0)
    scale = (_SCALES[unit],) if unit in _SCALES else ()
    if measure := _MEASURE.fullmatch(unit):
        base = 1024.0 if "i" in unit else 1e3
        return (1.0, base ** _PREFIXES.get(measure[1], 1), base, *scale)
    return scale


def _read_around(claim: _Claim, answer: str) -> tuple[str, str]:
    """Return what names a number: the words around it, also code, and the head of its column."""
    start, end = claim.traced.start, claim.traced.start + len(claim.traced.text)
    before, after = answer[start - len(claim.before) : start], answer[end : end + len(claim.after)]
    line = answer[max(0, start - FAR) : start].rpartition("\n")[2]
    if line.lstrip().startswith("|"):
        paragraph = answer[max(0, start - FAR) : start].rpartition("\n\n")[2]
        heads = paragraph.partition("\n")[0].split("|")
        after += " " + "".join(heads[line.count("|") :][:1])
    return before, after


# Finding

_SAYS = {
    0.01: re.compile(r"%|percent|pct|prozent", re.I),
    1e3: re.compile(r"thousand|'000|_k\b|\(k\)|in k\b", re.I),
    1e6: re.compile(r"million|\bmio\b|_m\b|_m(?:usd|eur|gbp)|\(m\)", re.I),
}
"""Words of a result that say that its numbers are in percent, thousands or millions."""
_TOTAL = re.compile(r"^[\d., ()]+$|\b(?:total|all|count|entries|rows|n|size|valid|sum)\b", re.I)


class _Index:
    """The numbers of all texts by their size, with their places."""

    def __init__(self, texts: Sequence[tuple[str, str]]) -> None:
        self.sources = [source for source, _ in texts]
        self.lines = [text.split("\n") for _, text in texts]
        heads = "\n".join(text[:HEAD] for _, text in texts)
        self.says = {factor for factor, words in _SAYS.items() if words.search(heads)}
        self.values: list[float] = []
        self.places: list[tuple[int, int]] = []
        for where, lines in enumerate(self.lines):
            for number, line in enumerate(lines):
                values = read_numbers(line)
                self.values += values
                self.places += [(where, number)] * len(values)
        sizes = [abs(value) for value in self.values]
        self.order = sorted(range(len(sizes)), key=sizes.__getitem__)
        self.sizes = [sizes[each] for each in self.order]

    @cached_property
    def totals(self) -> list[float]:
        """The first numbers that shares may be of."""
        lines = (line for lines in self.lines for line in lines if _TOTAL.search(line))
        return list(islice((number for line in lines for number in read_numbers(line)), TOTALS))

    @cached_property
    def tables(self) -> Tables:
        """The tables of the texts."""
        return Tables(self.lines)

    @cached_property
    def moments(self) -> dict[tuple[str | int, ...], tuple[int, int]]:
        """The places of dates and times, also without the year or the last part."""
        places = {}
        for where, lines in enumerate(self.lines):
            for number, line in enumerate(lines):
                for moment in map(read_moment, MOMENT.findall(line)):
                    keys = ("", *moment[1:]), *(moment[:length] for length in (2, 3, 4))
                    places.update(dict.fromkeys(keys, (where, number)))
        return places

    def find(self, claim: _Claim, factor: float) -> Iterator[tuple[float, int, int]]:
        """Yield the values, in the claim's unit, that are rounded to it, with text and line."""
        low = bisect_left(self.sizes, claim.bounds[0] * factor)
        high = bisect_right(self.sizes, claim.bounds[1] * factor, low)
        for index in self.order[low : min(high, low + CANDIDATES)]:
            if claim.fits(self.values[index] / factor):
                yield self.values[index] / factor, *self.places[index]


def _find(claim: _Claim, index: _Index, units_near: set[str], least: int = 0) -> None:
    """Find a claim; one without a unit may have the unit of another near it.

    Its digits, and the words around it that the line has too, are at `least` so many.
    """
    places = list(_find_places(claim, claim.unit, index))
    if not places and not claim.unit and not claim.is_small:
        for unit in units_near | ({"%"} if "%" in claim.around else set()):
            if unit not in _PERCENT or claim.step < 1:
                places += _find_places(claim, unit, index)
    places = [each for each in places if claim.digits + each[0][1] >= least]
    if places:
        _, where, line, claim.value, claim.raw, claim.unit = max(places)
        source, claim.place = index.sources[where], None if least else (where, line)
        claim.traced = replace(claim.traced, trace="found", source=source, line=line + 1)


def _find_places(
    claim: _Claim, unit: str, index: _Index
) -> Iterator[tuple[tuple[bool, int], int, int, float, float, str]]:
    """Yield where a claim is, read with a unit, beginning with how well it suits."""
    words = _stems(claim.around)
    for scale in _factors(unit) or (1.0,):
        for given in (1.0, 1e3, 1e6, scale) if unit in _SCALES else (1.0,):
            for value, where, line in index.find(claim, scale / given):
                raw = value * scale / given
                if unit in _PERCENT and scale < 1:  # 0.36 is 36 %, a growth of 10.51 is 1,051 %
                    is_said = abs(raw) <= 1 or (abs(raw) < 20 and raw % 1 != 0)
                elif unit in _PERCENT:  # 0.36 in a result is not 0.36 %
                    is_said = abs(raw) > 1 or 0.01 in index.says
                else:
                    is_own = given == scale and claim.digits > 2  # 608 million, from 608.02
                    is_said = given == 1 or given in index.says or is_own
                if is_said:
                    is_exact = abs(abs(value) - claim.size) < 1e-9 * claim.size
                    common = len(words & _stems(index.lines[where][line][:1000]))
                    yield (is_exact, common), where, line, value, raw, unit


def _stems(text: str) -> set[str]:
    return {word[:4].lower() for word in re.findall(r"[^\W\d_]{2,}", text)}


# Deriving

_Rule = tuple[str, Callable[[float, float], float], re.Pattern[str] | None]
_COMPARISONS: tuple[_Rule, ...] = (
    ("{1} / {0}", lambda x, y: y / x * 100, None),
    ("({0} - {1}) / {0}", lambda x, y: (x - y) / x * 100, CHANGE),
    ("({0} - {1}) / {1}", lambda x, y: (x - y) / y * 100, CHANGE),
    ("{0} / {1}", lambda x, y: x / y * 100, CHANGE),
)
"""Percentages that follow from a larger and a smaller number: how, and the words around them."""
# In CHANGE, SUM and RATIO, words: two numbers of few digits give any third one by chance.
_COMBINATIONS: tuple[_Rule, ...] = (
    ("{0} - {1}", lambda x, y: x - y, CHANGE),
    ("{0} + {1}", lambda x, y: x + y, SUM),
    ("{0} / {1}", lambda x, y: x / y, RATIO),
    ("{1} / {0}", lambda x, y: y / x, RATIO),
)
_BY_PRODUCT: _Rule = ("{0} \u00d7 {1}", lambda x, y: x * y, PRODUCT)


class _Derived(NamedTuple):
    """A way in which a number follows from others: its value, and the place of one of them."""

    formula: str
    value: float
    place: tuple[str, int]


def _derive(claim: _Claim, neighbors: Sequence[_Claim], index: _Index) -> Iterator[_Derived]:
    """Yield the ways in which a claim follows from others near it, the nearest first, or tables."""
    near = [each for each in neighbors if each.raw]
    near.sort(key=lambda each: abs(each.traced.start - claim.traced.start))
    same = [each for each in near if 0 <= claim.sentence - each.sentence <= 1]
    in_reach = any if claim.is_percent or claim.digits > 3 else all
    for pair in combinations([each for each in near if not each.is_small], 2):
        if in_reach(each in same for each in pair):
            yield from _combine(claim, *pair)
    for each in same if claim.is_percent else ():
        text, place = each.traced.text, _cite(each)
        if not each.is_percent:
            wholes = (n for n in index.totals if n > each.raw and claim.fits(each.raw / n * 100))
            yield from (_Derived(f"{text} / {n:,.10g}", each.raw / n * 100, place) for n in wholes)
        elif claim.fits(100 - each.value) and CHANGE.search(claim.around):
            yield _Derived(f"100 - {text}", 100 - each.value, place)
    yield from _derive_from_tables(claim, same, index)
    if claim.digits > 3 or (not claim.is_percent and SUM.search(claim.around)):
        same.sort(key=lambda each: each.traced.start)
        for begin, end in combinations(range(len(same) + 1), 2):
            terms = same[begin:end]
            is_alike = len(terms) > 2 and len({each.step for each in terms}) == 1
            if is_alike and claim.fits(total := sum(each.raw for each in terms)):
                yield _Derived(" + ".join(e.traced.text for e in terms), total, _cite(*terms))


def _cite(*claims: _Claim) -> tuple[str, int]:
    """Return the source and the line of the first claim that is of a result."""
    cited = ((each.traced.source, each.traced.line) for each in claims if each.traced.source)
    return next(cited, ("", 0))


def _derive_from_tables(
    claim: _Claim, neighbors: Sequence[_Claim], index: _Index
) -> Iterator[_Derived]:
    """Yield how a claim follows from tables; the fewer digits it has, the fewer ways are tried."""
    places = frozenset(each.place for each in neighbors if each.place)
    signs = read_signs(
        (claim.before, claim.traced.text, claim.after),
        places,
        digits=claim.digits,
        is_negative=claim.sign == "-",
        is_percent=claim.is_percent,
    )
    tried = min(MOST_TRIED, int(LUCK * claim.size / claim.step))
    for each in islice(index.tables.follow(signs), tried):
        if claim.fits(each.value):
            text, line = each.terms[0].place
            yield _Derived(str(each), each.value, (index.sources[text], line + 1))


def _combine(claim: _Claim, first: _Claim, second: _Claim) -> Iterator[_Derived]:
    """Yield how a claim follows from two numbers, in the order that gives its sign."""
    if first.is_percent != second.is_percent or first.is_year != second.is_year:
        return
    numbers = [(n.value if first.unit == second.unit else n.raw, n) for n in (first, second)]
    numbers.sort(key=lambda each: abs(each[0]), reverse=claim.sign != "-")
    (x, high), (y, low) = numbers
    is_comparison = claim.is_percent and not first.is_percent
    is_exact = claim.digits > 3 and min(first.digits, second.digits) >= claim.digits - 1
    is_alike = claim.digits > 3 or first.step == second.step
    rules = _COMPARISONS if is_comparison else _COMBINATIONS
    rules += (_BY_PRODUCT,) if claim.digits > 2 and not claim.is_percent else ()
    if claim.is_percent and first.is_percent:  # "from 4 % to 5 %, by 25 %"
        rules += _COMPARISONS[1:3]
    for formula, function, words in rules:
        if is_comparison or words in (RATIO, PRODUCT) or (is_alike and 0.01 <= abs(x / y) <= 100):
            is_free = words is None or (is_exact and words not in (RATIO, PRODUCT))
            is_said = is_free or (words and words.search(claim.around))
            if is_said and claim.fits(value := function(x, y)):
                text = formula.format(high.traced.text, low.traced.text)
                yield _Derived(text, value, _cite(high, low))


# Dates and times


def _trace_moment(found: re.Match[str], index: _Index) -> TracedNumber:
    text, start = found[0], found.start()
    if place := index.moments.get(read_moment(text)):
        return TracedNumber(text, start, "found", index.sources[place[0]], place[1] + 1)
    return TracedNumber(text, start, "not found")
