"""`offline/explorer` as a client: from a conversation and the known workspace to the next step.

A prompt is understood first, from the names, types and values that the context tells; code runs
only then. A step may be a look: the columns of a table, or the values that a word may be. With its
result, the prompt is read again from the start. The reply is streamed word by word.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby, islice
from typing import Any

from ipyagent.errors import ModelRefusedError
from ipyagent.explorer import errands
from ipyagent.explorer.builders import two_tables
from ipyagent.explorer.frame import (
    Frame,
    Token,
    find_pattern,
    first_of,
    has,
    touches,
    values_of,
    with_imports,
)
from ipyagent.explorer.frame_parser import FrameParser
from ipyagent.explorer.intents import Query
from ipyagent.explorer.lexer import ORDERS, Lexer, chunks, names_of
from ipyagent.explorer.reading import Reading, TableReader, turns
from ipyagent.explorer.text import UnreadableError, cell, code, codes, fence, nearest, words
from ipyagent.explorer.workspace import (
    UNCLEAR,
    Look,
    MisfitError,
    Part,
    Say,
    Step,
    Table,
    Task,
    Workspace,
    choose_sheets,
    is_table_file,
    of_context,
)
from ipyagent.llm.client import ModelRequest
from ipyagent.schema import (
    Message,
    Role,
    StreamChunk,
    TextContent,
    ToolCall,
    ToolResultContent,
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


_CONTEXT = re.compile(r"\n?<context>\n(.*)\n</context>\s*\Z", re.DOTALL)

_REASON = re.compile(
    r"Their reason: (.*?)(?: Do not repeat it; ask or find another way\.)?$"
    r"|^\w+ was not run: (.*)$",
    re.DOTALL,
)
_DENIED = re.compile(r"\b(denied|not run|not approved)\b", re.IGNORECASE)
_ABSENT = re.compile(r"No module named '([\w.]+)'|Missing optional dependency '([\w.]+)'")

_DATA = ("duckdb", "matplotlib", "pandas")
"""The packages of the extra `data`: who lacks one for the explorer will soon need the other."""

_STRANGE = "This conversation holds a call that I did not ask for; please ask again."


@dataclass(frozen=True)
class ExplorerReply:
    """One reply: the rule as `thinking`, and either calls or an answer."""

    thinking: str
    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


class ExplorerClient:
    """A client whose answers follow fixed rules, in this process: no key, no network, no cost."""

    gives_up = True
    """It ends at the first failed call, and the run counts as failed."""

    reads_whole_context = True
    """It takes the workspace from the newest context alone."""

    context_window = None

    def __init__(self, model: str = "offline/explorer") -> None:
        self.model = model

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Yield the reply to `request` word by word; raises ModelRefusedError for a bug of ours."""
        offered = {tool.name for tool in request.tools} if request.may_call else set[str]()
        try:
            answer = reply(request.messages, offered)
        except Exception as error:
            # Final: another attempt would meet the same bug.
            raise ModelRefusedError(
                f"{self.model}: the explorer failed: {type(error).__name__}: {error}"
            ) from error
        turn = 1 + sum(message.role is Role.ASSISTANT for message in request.messages)
        for chunk in chunks_of(answer, turn):
            yield chunk
            await asyncio.sleep(0)  # for others to have their turn, and for a stop


def chunks_of(answer: ExplorerReply, turn: int) -> Iterator[StreamChunk]:
    """Yield the pieces of a reply; the turn makes the ids of its calls unique."""
    for word in _words(answer.thinking):
        yield StreamChunk(type="thinking", data=word)
    for word in _words(answer.text):
        yield StreamChunk(type="content", data=word)
    for index, (name, arguments) in enumerate(answer.calls):
        id_ = f"call_{turn}_{index + 1}"
        text = json.dumps(arguments)
        yield StreamChunk(type="tool_call", data=text, index=index, id=id_, name=name)
    yield StreamChunk(type="finish", data="tool_calls" if answer.calls else "stop")


def _words(text: str) -> list[str]:
    """Split into words, each with the space around it."""
    return re.findall(r"\s*\S+\s*", text) or ([text] if text else [])


def reply(messages: Iterable[Message], offered: Collection[str]) -> ExplorerReply:
    """Return the explorer's reply to a conversation; `offered` are the names of the tools.

    Pure: the same conversation gives the same reply. The calls made since the newest prompt are
    followed from the start, so nothing has to be remembered between replies.
    """
    asked, calls, results = list[str](), list[ToolCall](), dict[str, ToolResultContent]()
    for role, turn in groupby(messages, key=lambda message: message.role):
        blocks = [block for message in turn for block in message.content]
        said = "\n".join(b.text for b in blocks if isinstance(b, TextContent)).strip()
        if role is Role.USER and said:
            asked.insert(0, said)
            calls.clear()
        calls += [b for b in blocks if isinstance(b, ToolCall)]
        results |= {b.tool_use_id: b for b in blocks if isinstance(b, ToolResultContent)}
    newest = asked or [""]
    prompts = [_CONTEXT.sub("", each).strip() for each in newest]
    contexts = [found and found[1] for found in map(_CONTEXT.search, newest)]
    workspace = of_context(contexts[0] or "", *filter(None, contexts[1:]))
    prompts[0], workspace = choose_sheets(prompts[0], workspace)
    unseen = [] if contexts[0] is not None else [errands.at_variables, errands.at_files]
    for call in (each for each in calls if each.id in results):
        result, step = results[call.id], _step(prompts, workspace, unseen)
        if isinstance(step, Say) or (step.tool, step.arguments) != (call.name, call.arguments):
            return ExplorerReply("a call that I did not ask for", _STRANGE)
        if result.is_error:
            return _explain_stop(call, result)
        try:
            if isinstance(step, Task):
                text = step.answer(result.text)
                return ExplorerReply("Put what the tool returned into words.", text)
            workspace = step.learn(result.text)
        except (UnreadableError, ValueError, KeyError):
            return _explain_stop(call, result)
        unseen = [see for see in unseen if see(workspace).tool != step.tool]
    return _next(_step(prompts, workspace, unseen), offered)


def _step(
    prompts: Sequence[str], workspace: Workspace, unseen: Sequence[Callable[[Workspace], Look]]
) -> Step:
    """Return the next step; a look at the workspace, if it was not shown, before it is needed."""
    step = next_step(prompts[0], workspace, prompts[1:])
    if isinstance(step, Say):
        return unseen[0](workspace) if unseen and step.declined else step
    if step.tool == "run_python" and errands.at_variables in unseen:
        return errands.at_variables(workspace)
    if step.tool == "run_python":
        return replace(step, arguments={"code": with_imports(step.arguments["code"], workspace)})
    return step


def _next(step: Step, offered: Collection[str]) -> ExplorerReply:
    """Return the call that a step needs, if its tool is available, or its words."""
    if isinstance(step, Say):
        return ExplorerReply(f"Rule: {step.rule}.", step.text)
    if step.tool not in offered:
        text = (
            f"**I would need {code(step.tool)}**, which is not on offer here, so I did nothing. "
            f"Allow that tool (for example by leaving out `--tools`) and ask again."
        )
        return ExplorerReply(f"Rule: {step.rule}. The tool is not on offer.", text)
    kind = "Look first" if isinstance(step, Look) else "Rule"
    return ExplorerReply(f"{kind}: {step.rule}.", "", ((step.tool, step.arguments),))


def _explain_stop(call: ToolCall, result: ToolResultContent) -> ExplorerReply:
    """End honestly: the call was denied, it failed, or its result is unreadable."""
    output = result.text.removeprefix("Error: ")
    if "dry run" in output[:200].lower():
        return ExplorerReply("a dry run", "This was a dry run: the call is shown, nothing was run.")
    called, reason = code(call.name), fence(output, lines=15)
    if not result.is_error:
        text = f"**{called} returned something that I can't read**, so I draw no conclusion:"
        return ExplorerReply("unreadable output", f"{text}\n\n{reason}")
    if _DENIED.search(output[:400]):
        known = _REASON.search(output)  # without the words that are meant for a model
        why = next(filter(None, known.groups()), "").strip() if known else ""
        text = f"**The call of {called} was not approved, so I stopped;** it was not run."
        return ExplorerReply("denied", "\n\n".join([text, *[fence(why, lines=15)] * bool(why)]))
    parts = [f"**{called} failed, so I stopped.**", reason]
    if absent := _ABSENT.search(output):
        package = absent[1] or absent[2]
        wanted = "'ipyagent[data]'" if package.partition(".")[0] in _DATA else package
        parts.append(f"Install it with {code(f'%pip install {wanted}')}, then ask again.")
    return ExplorerReply("the call failed", "\n\n".join(parts))
