"""One prompt about one table: its sentences, their questions, and the parts that answer them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ipyagent.explorer.builders import make_part
from ipyagent.explorer.frame import Frame, Token, compile_pattern, first_of, has, values_of
from ipyagent.explorer.frame_parser import FrameParser
from ipyagent.explorer.intents import INTENTS, Query
from ipyagent.explorer.lexer import MEASUREMENTS, TURNING, Lexer, names_of
from ipyagent.explorer.text import code, singular, words
from ipyagent.explorer.workspace import UNCLEAR, MisfitError, Part, Table, Workspace, refuse_if

_SENTENCES = re.compile(r"(?<=[.?!])(?<!\bvs\.)\s+|\n+")
_LABEL = re.compile(
    r"^\s*(?:question|constraints?|task|file(?: name)?|data|note)\s*:\s*", re.IGNORECASE
)
_STATEMENT = re.compile(
    r"(?:the|these|this|it|i|we|each|my|our|there|here|a|an|\S+\.\w+)\b", re.IGNORECASE
)
_INSTRUCTIONS = frozenset({
    "KEEP", "NOT", "WITHOUT", "IGNORE", "ROUND", "DROP", "FILL", "OUTLIERS", "METHOD", "LIBRARY",
    "PLOT", "CHART", "SAVE", "SORT", "ALPHA", "THRESHOLD", "SHOW", "COMPARE", "TTEST", "CHI2",
})  # fmt: skip
_ASKING = (
    "STAT", "EXTREME", "COUNT", "SHARE", "MISSING", "MOST", "MODE", "BEST", "HIGHER", "SHOW",
    "PLOT", "OUTLIERS", "CORR", "UNIQUE", "DUPLICATES", "TOP", "DROP", "FILL", "CHART", "LOAD",
    "KEEP",
)  # fmt: skip
_LINKS = ("IN", "FROM", "ON", "OF", "FOR", "TO", "SHOW")
_ASKS = ("WHAT", "WHEN", "COUNT", "HOWMUCH", "SAVE", "PLOT", "CHART")
_ONLY_NAMES = frozenset(["FILES", "IS", "FILE", "TABLE", "AS", "IN", "NOUN", "BY"])
_LED = ("IN", "ON", "FOR", "OF", "BY", "IS", "WHERE", "EQ", "WITH", "AND", "OR", "NOT")
_SAME_ROWS = "Does the second question mean the same rows as the first?"


@dataclass
class Reading:
    """One way to read a prompt about a table: its parts, or why there are none."""

    parts: list[Part] = field(default_factory=list)
    unknown: list[Token] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    swaps: list[tuple[str, str]] = field(default_factory=list)  # words, and what they may mean
    ignored: list[str] = field(default_factory=list)
    corrected: dict[str, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)  # columns and conditions

    @property
    def is_understood(self) -> bool:
        """True if every question of the prompt has its part, and no word is left."""
        return bool(self.parts) and not self.unknown and not self.reasons

    @property
    def lines(self) -> list[tuple[str, ...]]:
        """The code of its parts."""
        return [part.lines for part in self.parts]

    def refuse(self, misfit: MisfitError, tokens: Sequence[Token]) -> None:
        """Note why a sentence is not understood."""
        self.reasons.append(str(misfit))
        self.swaps += misfit.offers
        unknown = [t for t in tokens if t.tag in ("UNKNOWN", "QUOTED")]
        self.unknown += [t for t in unknown if t not in self.unknown]


class TableReader:
    """Reads a prompt about a table; `guess` is a column that unknown words may be values of."""

    def __init__(
        self, prompt: str, table: Table, workspace: Workspace, order: str, guess: str = ""
    ) -> None:
        self.table, self.workspace, self.guess = table, workspace, guess
        self.lexer = Lexer(names_of(workspace, table), order)
        parts = (_LABEL.sub("", each).strip() for each in _SENTENCES.split(prompt))
        self.sentences = [each for each in parts if words(each)]
        self.questions: list[Frame] = []
        self.modifiers: list[Frame] = []

    def read(self) -> Reading:
        """Return the reading."""
        reading = Reading()
        for number, sentence in enumerate(self.sentences, 1):
            tokens = self.lexer.tokens(sentence)
            tokens = _guess_values(tokens, self.guess) if self.guess else tokens
            introduces = number < len(self.sentences) and _introduces(sentence, tokens)
            if introduces and {t.tag for t in tokens} & {"IS", "HAS", "UNKNOWN"}:
                reading.ignored.append(sentence)
                continue
            try:
                self._read_sentence(tokens, reading)
            except MisfitError as misfit:
                if not introduces:
                    reading.refuse(misfit, tokens)
                reading.ignored += [sentence] * introduces
        if not self.questions and not reading.reasons:
            reading.reasons.append(UNCLEAR)
        for question in self.questions:
            _modify(question, self.modifiers)
            named = values_of(question.core, "COL")
            reading.names |= {*question.by, *map(str, question.where), *named}
        self._answer(reading)
        reading.corrected = self.lexer.corrected
        return reading

    def _read_sentence(self, tokens: list[Token], reading: Reading) -> None:
        for token in (t for t in tokens if t.tag == "AMBIGUOUS"):
            pairs = [each if isinstance(each, tuple) else (each,) for each in token.value]
            names = [" ".join(code(str(name)) for name in pair) for pair in pairs]
            reading.swaps += [(token.text, name) for name in names]
            raise MisfitError(f"{code(token.text)} may be {', '.join(names[:4])}.")
        tags = {t.tag for t in tokens}
        if "FILE" in tags <= _ONLY_NAMES:
            return
        if {"WHERE", "PVALUE", "OP"} <= tags:  # if the p-value is less than 0.05, …
            level = first_of(tokens, "NUMBER", default=0.05)
            self.modifiers.append(Frame(options={"ALPHA": level}))
            return
        made: list[Frame] = []
        for segment in _split_asks(tokens):
            frame = FrameParser(segment, self.table).parse()
            frame.path = _take_path(frame, self.table)
            fills = frame.core or frame.slots or frame.options or frame.digits is not None
            if not fills and frame.named and not made:
                continue
            before = bool(made or self.questions)
            if frame.only_modifies and (before or len(self.sentences) > 1):
                self.modifiers.append(frame)
                continue
            short = frame.tags in ("COUNT ", "SHARE ", "WHEN ", "STAT ")
            frame.follows = bool(made) or (before and short)
            made += _split_statistics(frame)
        self.questions += made

    def _answer(self, reading: Reading) -> None:
        """Find the parts that answer the questions, the second ones after their first ones."""
        first: Query | None = None
        for question in self.questions:
            query = Query(question, self.table, self.workspace)
            try:
                if question.follows and first and reading.parts:
                    if (part := _follow(query, first, reading.parts[-1])) is not None:
                        reading.parts[-1] = part
                        continue
                    if first.where and not query.where and not query.frame.pronoun:
                        raise MisfitError(_SAME_ROWS)
                    query.frame.where = list(query.where or first.where)
                part, first = first_part(query), query
                if part.lines not in reading.lines:
                    reading.parts.append(part)
            except MisfitError as misfit:
                reading.refuse(misfit, question.core)


def first_part(query: Query) -> Part:
    """Return the part of the first intent that fits; raises MisfitError if there is none."""
    why: MisfitError | None = None
    for row in INTENTS.values():
        if row.fits(query.frame):
            try:
                return make_part(row, query)
            except MisfitError as misfit:
                why = why or misfit
    raise why or MisfitError(UNCLEAR)


def _follow(query: Query, first: Query, part: Part) -> Part | None:
    """Return the part that answers a second question as well; None if it stands for itself."""
    tags, rule = query.frame.tags, part.rule
    if query.where or query.by:
        return None
    gives_share = rule.startswith(("missing", "rows", "duplicate", "share"))
    said = str(query.frame.core[0].value) if query.frame.core else ""
    if (
        tags in ("COUNT ", "", "COUNT ROWS ", "COUNT MISSING ")
        or (tags == "UNKNOWN " and singular(said.casefold()) in MEASUREMENTS)
        or (tags in ("SHARE ", "SHARE ROWS ", "COUNT SHARE ") and gives_share)
        or (tags == "STAT " and f"{said} of" in rule)
    ):
        return part
    if rule.startswith("row ") and re.fullmatch(r"(?:(?:COL|WHEN|PERIOD|AND) )+", tags):
        for token in (t for t in query.frame.core if t.tag != "AND"):
            own = [c for c in first.table.columns or {} if words(c) == (token.value,)]
            is_column = token.tag == "COL"
            first.also.append(token.value if is_column else own[0] if own else first.date_column)
        return first_part(first)
    return None


def _modify(frame: Frame, modifiers: Sequence[Frame]) -> None:
    """Add the conditions, rounding and methods of other sentences."""
    for other in modifiers:
        frame.where += [c for c in other.where if c not in frame.where]
        frame.options |= other.options
        frame.digits = frame.digits if other.digits is None else other.digits
        frame.order = frame.order or other.order


def _split_asks(tokens: list[Token]) -> list[list[Token]]:
    """Split a sentence at `and how many …`, `, and which …`: each is a question of its own."""
    segments: list[list[Token]] = [[]]
    at = 0
    while at < len(tokens):
        ahead = [t.tag for t in tokens[at : at + 4]]
        joins = next((i for i, tag in enumerate(ahead) if tag not in ("AND", "COMMA")), len(ahead))
        asks = [tag for tag in ahead[joins:] if tag not in _LINKS][:1]
        if joins and {*asks} & {*_ASKS} and has(segments[-1], *_ASKING):
            segments.append([])
            at += joins
        else:
            segments[-1].append(tokens[at])
            at += 1
    return [each for each in segments if each]


def _split_statistics(frame: Frame) -> list[Frame]:
    """Split `the mean of a and the median of b` into two questions about the same rows."""
    statistic = "(STAT|EXTREME) (AND (STAT|EXTREME))* COL (AND COL)*"
    if not compile_pattern(f"{statistic} (AND {statistic})+").fullmatch(frame.tags):
        return [frame]
    cores: list[list[Token]] = [[]]
    for token in frame.core:
        if token.tag in ("STAT", "EXTREME") and has(cores[-1], "COL"):
            cores[-1].pop()  # the `and` before it
            cores.append([])
        cores[-1].append(token)
    return [replace(frame, core=core, by=list(frame.by)) for core in cores]


def _take_path(frame: Frame, table: Table) -> str:
    """Take the file that a request saves to."""
    if not has(frame.core, "SAVE"):
        return ""
    paths = values_of(frame.core, "NOFILE") or values_of(frame.named, "FILE")[-1:]
    frame.named = [t for t in frame.named if t.value not in paths]
    dropped = ("TO", "NOFILE") if paths else ("TO", "NOFILE", "ENDING", "FILES")
    frame.core = [t for t in frame.core if t.tag not in dropped]
    refuse_if(not paths and not frame.by, "Save to which file? Say “save … to name.csv”.")
    return str(paths[0]) if paths else f"{table.name}_by_{'_'.join(words(frame.by[0]))}.csv"


def _guess_values(tokens: list[Token], column: str) -> list[Token]:
    """Return the tokens with unknown words, where a value may stand, as values of a column."""
    made: list[Token] = []
    for token in tokens:
        is_name = token.tag == "QUOTED" or (token.text[:1].isupper() and made)
        if token.tag not in ("UNKNOWN", "QUOTED"):
            made.append(token)
        elif made and made[-1].tag == "VALUE" and made[-1].text == "?":
            continue
        elif is_name or has(made[-1:], *_LED):
            beside = made[-3:] if has(made[-1:], "IS", "EQ", "COL") else []
            named = first_of(beside, "COL", default=column)
            made.append(Token("VALUE", (named, "?"), "?"))
        else:
            made.append(token)
    return made


def _introduces(sentence: str, tokens: Sequence[Token]) -> bool:
    """Return whether a sentence only tells what the data is about."""
    states = _STATEMENT.match(sentence) and not sentence.endswith("?")
    return bool(states) and not turns(tokens) and not has(tokens, *_INSTRUCTIONS)


def turns(tokens: Sequence[Token]) -> bool:
    """Return whether an unknown word may turn the meaning of a sentence around."""
    return any(t.tag == "UNKNOWN" and t.text.casefold() in TURNING for t in tokens)
