"""From a prompt and the known workspace to the next step.

A prompt is understood first, from the names, types and values that the context tells; code runs
only then. A step may be a look: the columns of a table, or the values that a word may be. With its
result, the prompt is read again from the start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import islice

from ipyagent.explorer import errands
from ipyagent.explorer.builders import two_tables
from ipyagent.explorer.frame import Frame, Token, find_pattern, first_of, has, values_of
from ipyagent.explorer.frame_parser import FrameParser
from ipyagent.explorer.intents import Query
from ipyagent.explorer.lexer import ORDERS, Lexer, chunks
from ipyagent.explorer.markdown import cell, code, codes
from ipyagent.explorer.names import nearest, words
from ipyagent.explorer.reading import Reading, TableReader, turns
from ipyagent.explorer.snippets import touches
from ipyagent.explorer.vocabulary import names_of
from ipyagent.explorer.workspace import (
    UNCLEAR,
    MisfitError,
    Part,
    Say,
    Step,
    Table,
    Task,
    Workspace,
    is_table_file,
)

_MAX_UNSEEN = 3  # tables of unknown columns that are looked at when none is named
_MAX_OFFERS, _MAX_TRIES = 3, 16
_SEPARATOR = "---"
_IT = re.compile(r"\b(?:it|that)\b", re.IGNORECASE)
_FUNCTION_WORDS = frozenset({
    "UNKNOWN", "SIGN", "ENTITY", "AND", "OF", "IS", "WHAT", "WHERE", "NOT",
})  # fmt: skip
_TWO_TABLES = (
    "(COMPARE|DIFFERENCE|JOIN) BETWEEN? OF? (TABLE|FILE) (AND|WITH|TO|VS) (TABLE|FILE) "
    "((BY|ON) (UNKNOWN|AMBIGUOUS|COL|QUOTED|ENTITY|PERIOD)+)?"
)
_AMBIGUOUS = "Some of these words are names as well; put names in backticks."


def next_step(prompt: str, workspace: Workspace, earlier: Sequence[str] = ()) -> Step:
    """Return the next step for this prompt; `earlier` are those before it, the newest first."""
    for before in earlier[:3] if _IT.search(prompt) else ():
        spelled = _IT.sub(before.strip().rstrip(".?!").replace("\\", r"\\"), prompt, count=1)
        step = PromptReader(spelled, workspace, offering=False).step()
        if not isinstance(step, Say):
            return step
    return PromptReader(prompt, workspace).step()


class PromptReader:
    """One prompt in progress."""

    def __init__(self, prompt: str, workspace: Workspace, *, offering: bool = True) -> None:
        self.prompt, self.workspace, self.offering = prompt, workspace, offering
        self.names = names_of(workspace, None)
        self.tokens = {order: Lexer(self.names, order).tokens(prompt) for order in ORDERS}
        self.readings: list[tuple[Table, Reading]] = []

    def step(self) -> Step:
        """Return the call to make, or what to say."""
        found = chunks(self.prompt, self.names.paths)
        if all(each.tag == "SIGN" for each in found):
            return errands.help_out(None, self.workspace)
        try:
            return self.errand() or self.on_tables() or self.decline(found)
        except MisfitError as misfit:
            return errands.decline(self.workspace, [], [str(misfit)])

    # Requests that are not about the inside of one table.

    def errand(self) -> Step | None:
        """Return the step for a request about files, variables, two tables, or the explorer."""
        for order in ORDERS:
            try:
                frame = FrameParser(self.tokens[order], Table("")).parse()
            except MisfitError:
                continue
            if errand := errands.find_errand(frame):
                return errand(frame, self.workspace)
        return self.two_tables()

    def two_tables(self) -> Step | None:
        """Return the step for a comparison or a join of two tables; files are loaded first."""
        tokens = [t for t in self.tokens["names"] if t.tag not in ("NOUN", "SIGN")]
        if find_pattern(_TWO_TABLES, tokens) != (0, len(tokens)):
            return None
        named = list(dict.fromkeys((t.tag, t.value) for t in tokens if t.tag in ("TABLE", "FILE")))
        if len(named) == 1:
            raise MisfitError(f"{code(str(named[0][1]))} is one table; name another beside it.")
        for tag, value in named:
            if tag == "FILE":
                return errands.at_file(value, self.workspace) if is_table_file(value) else None
            if self.workspace.tables[value].columns is None:
                return errands.at_columns(self.workspace.tables[value], self.workspace)
        one, other = (self.workspace.tables[value] for _, value in named)
        if "polars" in (one.library, other.library):
            raise MisfitError("I can compare and join two pandas tables only.")
        own = Lexer(names_of(self.workspace, one), "names").tokens(self.prompt)
        key, joins = first_of(own, "COL"), has(own, "JOIN")
        part = two_tables(Query(Frame(), one, self.workspace), other, key, joins=joins)
        return self.run([part], one, Reading())

    # Requests about one table.

    def candidates(self) -> list[Table]:
        """Return the tables that the prompt may be about, those in files without a name yet."""
        known, in_files = self.workspace.tables, self.workspace.in_files
        named = {(t.tag, t.value) for t in self.tokens["names"] if t.tag in ("TABLE", "FILE")}
        if len(named) == 1:
            ((tag, value),) = named
            table = known.get(value) if tag == "TABLE" else in_files.get(value)
            return [table] if table else []
        return [] if named else list(known.values()) or list(in_files.values())

    def on_tables(self) -> Step | None:
        """Return the step for a request about the named table, or the only possible one."""
        candidates = self.candidates()
        unseen = [each for each in candidates if each.columns is None]
        if 0 < len(unseen) <= _MAX_UNSEEN and (look := self.look_at(unseen[0], len(candidates))):
            return look
        steps = {
            each.path or each.name: step
            for each in candidates
            if each.columns is not None and (step := self.on_table(each))
        }
        if len(steps) > 1:
            what = "table" if self.workspace.tables else "file"
            reasons = [f"That could be about {codes(steps)}: please name the {what}."]
            plain = self.prompt.strip().rstrip(".?!")
            offers = self.understood(f"{plain} in {code(name)}" for name in steps)
            return errands.decline(self.workspace, [], reasons, offers)
        return next(iter(steps.values()), None)

    def look_at(self, table: Table, many: int) -> Step | None:
        """Look at the columns of a table that nobody described, if the prompt may be about them."""
        bare = replace(table, columns={}, values=())
        tokens = Lexer(names_of(self.workspace, bare), "words").tokens(self.prompt)
        may_fit = not turns(tokens) and bool({t.tag for t in tokens} - _FUNCTION_WORDS)
        if table.path:
            return errands.at_file(table.path, self.workspace) if many == 1 and may_fit else None
        return errands.at_columns(table, self.workspace) if may_fit or not table.opaque else None

    def on_table(self, table: Table) -> Step | None:
        """Return the step for a request about this very table."""
        readings = [TableReader(self.prompt, table, self.workspace, o).read() for o in ORDERS]
        understood = [each for each in readings if each.is_understood]
        longer = max(reversed(understood), key=lambda each: len(each.names), default=None)
        if longer and all(each.names <= longer.names for each in understood):
            understood = [longer]  # the other took a name for a word: `average price`, AveragePrice
        if len(understood) == 2 and understood[0].lines != understood[1].lines:
            self.readings.append((table, Reading(reasons=[_AMBIGUOUS])))
            return None
        if understood:
            return self.run(understood[0].parts, table, understood[0])
        best = min(readings, key=lambda each: (len(each.unknown), len(each.reasons)))
        self.readings.append((table, best))
        return self.find_values(table, best)

    def find_values(self, table: Table, reading: Reading) -> Step | None:
        """Look for words among the values of a table, if they are all that is not understood."""
        said = [t.text for t in reading.unknown]
        texts = [c for c in table.of_kind("text") if c not in table.dates]
        if not texts or not 0 < len(said) <= 4 or set(said) <= table.looked_up:
            return None
        if (
            errands.find_language(self.prompt)
            or turns(reading.unknown)
            or not all(map(words, said))
        ):
            return None
        guesses = (TableReader(self.prompt, table, self.workspace, o, texts[-1]) for o in ORDERS)
        if any(each.read().is_understood for each in guesses):
            return errands.at_values(table, said, self.workspace)
        return None

    def run(self, parts: Sequence[Part], table: Table, reading: Reading) -> Step:
        """Return the one call that answers all questions; it loads the file first, if need be."""
        lines = [errands.load_line(table.path, table.name, self.workspace)] if table.path else []
        copy = Query(Frame(), table, self.workspace).data.name
        if copies := any(part.copies for part in parts):
            columns = f"{{c: {table.name}[c].to_numpy() for c in {table.name}.columns}}"
            lines.append(f"{copy} = pd.DataFrame({columns})")
        for number, part in enumerate(parts):
            gone = [*part.drop, *[copy] * (copies and number == len(parts) - 1)]
            lines += [f'print("{_SEPARATOR}")'] * (number > 0)
            lines += [*part.lines, *[f"del {', '.join(dict.fromkeys(gone))}"] * bool(gone)]
        notes = [f"I read {code(a)} as {code(b)}." for a, b in reading.corrected.items()]
        notes += [f"Not taken into account: “{cell(each)}”" for each in reading.ignored]
        if doubt := errands.explain_doubt(table.path, self.workspace):
            known = self.workspace.readings[table.path]
            if touches("\n".join(lines[1:]), table.name, known.columns):
                return doubt
            lines.append(f"del {table.name}")
            notes.append(f"{code(table.path)} is read for this answer only: {cell(known.doubt)}.")
        elif table.path:
            loaded = errands.name_source(table.path, self.workspace)
            notes.append(f"{loaded} is loaded as {code(table.name)}.")

        def answer(output: str) -> str:
            pieces = output.split(f"{_SEPARATOR}\n") if len(parts) > 1 else [output]
            said = [part.answer(piece) for part, piece in zip(parts, pieces, strict=True)]
            return "\n\n".join([*said, *[f"_{' '.join(notes)}_"] * bool(notes)])

        rule = "; ".join(part.rule for part in parts)
        return Task(rule, "run_python", {"code": "\n".join(lines)}, answer)

    # Prompts that are not understood.

    def decline(self, found: Sequence[Token]) -> Say:
        """Decline, with the words that were not understood and what may be meant."""
        workspace = self.workspace
        if missing := values_of(found, "NOFILE"):
            reason = f"I see no file {codes(missing)} in the workspace."
            return errands.decline(workspace, [], [reason])
        if language := errands.find_language(self.prompt):
            return errands.decline_in(language, workspace)
        if not self.readings:
            paths = [] if workspace.tables else workspace.table_files
            reasons = [f"That could be about {codes(paths)}: please name the file."]
            unknown = dict.fromkeys(t.text for t in self.tokens["words"] if t.tag == "UNKNOWN")
            return errands.decline(workspace, list(unknown), reasons * (len(paths) > 1))
        table, reading = min(self.readings, key=lambda e: (len(e[1].unknown), len(e[1].reasons)))
        unknown = dict.fromkeys(t.text for t in reading.unknown if t.text)
        reasons = [e for e in reading.reasons if not (unknown and e == UNCLEAR)]
        if len(self.readings) > 1 and not unknown:
            reasons = []  # they are about tables that the prompt may not mean
        offers = self.understood(self._near(table, reading))
        return errands.decline(workspace, list(unknown), reasons, offers)

    def understood(self, offers: Iterator[str] | Sequence[str]) -> list[str]:
        """Return the first of these prompts that are understood, without a look at values."""
        tries = islice(dict.fromkeys(offers), _MAX_TRIES if self.offering else 0)
        return list(islice(filter(self._is_understood, tries), _MAX_OFFERS))

    def _is_understood(self, offer: str) -> bool:
        step = PromptReader(offer, self.workspace, offering=False).step()
        return not isinstance(step, Say) and "values in" not in step.rule

    def _near(self, table: Table, reading: Reading) -> Iterator[str]:
        """Yield prompts with other words for those that were not understood, or without them."""
        for old, new in reading.swaps:
            yield _with(self.prompt, old, new)
        runs = _runs_of(self.prompt, reading.unknown)
        values = {value: column for column, value in table.values}
        for run in runs:
            for column in nearest(words(run), table.columns or {}):
                yield _with(self.prompt, run, code(column))
            for value in nearest(words(run), values):
                yield _with(self.prompt, run, f"{code(values[value])} {code(value)}")
        tokens = Lexer(names_of(self.workspace, table), "names").tokens(self.prompt)
        for token in (t for t in tokens if t.tag == "ENTITY" and not t.value):
            yield from (_with(self.prompt, token.text, code(c)) for c in table.of_kind("text")[:6])
        yield from (_with(self.prompt, run, "rows") for run in runs)
        yield reduce(lambda prompt, run: _with(prompt, run, ""), runs, self.prompt)
        yield from _from_pieces(table, tokens)


def _with(prompt: str, old: str, new: str) -> str:
    """Return the prompt with other words for some."""
    pattern = r"[\W_]+".join(re.escape(w) for w in re.findall(r"[^\W_]+", old)) or re.escape(old)
    made = re.sub(rf"(?<!\w){pattern}(?!\w)", lambda _: new, prompt, count=1, flags=re.IGNORECASE)
    return re.sub(r"\s+([?.!,])", r"\1", re.sub(r"\s{2,}", " ", made)).strip()


def _runs_of(prompt: str, unknown: Sequence[Token]) -> list[str]:
    """Return unknown words that follow each other as one."""
    runs: list[str] = []
    for token in unknown:
        if runs and f"{runs[-1]} {token.text}" in prompt:
            runs[-1] += f" {token.text}"
        elif token.text not in runs:
            runs.append(token.text)
    return runs


def _from_pieces(table: Table, tokens: Sequence[Token]) -> Iterator[str]:
    """Yield simple requests about the columns and values that a prompt names."""
    columns = list(dict.fromkeys(values_of(tokens, "COL")))
    numbers = [c for c in columns if table.kind(c) == "number"]
    others = [c for c in columns if table.kind(c) in ("text", "bool")]
    pairs = values_of(tokens, "VALUE")
    said = ((c, v if isinstance(v, bool) else f'"{v}"') for c, v in pairs)
    where = " and ".join(f"{code(c)} is {v}" for c, v in said)
    name = code(table.path or table.name)
    stats = [t.text for t in tokens if t.tag == "STAT" and " " not in t.text]
    stat = (stats or ["mean"])[0].capitalize()
    for number in numbers[:2]:
        yield from (f"{stat} {code(number)} by {code(key)} in {name}" for key in others[:1])
        if where:
            yield f"{stat} {code(number)} where {where} in {name}"
        yield f"{stat} of {code(number)} in {name}"
    if where:
        yield f"How many rows of {name} where {where}"
    yield from (f"Count by {code(key)} in {name}" for key in others)
