"""`offline/explorer` as a client: from the prompts and the facts of the workspace to one step.

A prompt is understood first, from the facts; code runs only then, in one call that also loads the
file, if need be. With the call's result, the prompt is read again. The reply is streamed word by
word.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from ipyagent.errors import ModelRefusedError, name_and_text
from ipyagent.explorer import steps
from ipyagent.explorer.answers import Query, UnreadableError, find_query, join_conditions
from ipyagent.explorer.frame import Frame, FrameParser, MisfitError
from ipyagent.explorer.lexer import ORDERS, Lexer, Names, Token
from ipyagent.explorer.steps import Call, Say, Step
from ipyagent.explorer.text import code, codes, fresh
from ipyagent.json_types import JsonDict
from ipyagent.llm.client import ModelRequest
from ipyagent.schema import Message, Role, StreamChunk, ToolCall, ToolResultContent
from ipyagent.schema.tables import TableFacts, WorkspaceFacts

_BEFORE = 8
"""Prompts before the newest one that it may continue."""
_NAMES_AS_WELL = "Some of these words are names as well; put names in backticks."


@dataclass
class Reading:
    """A prompt that is read about one table, in one order: a query, or why there is none."""

    table: TableFacts
    query: Query | None = None
    unknown: list[str] = field(default_factory=list)
    reason: str = ""


class PromptReader:
    """One prompt; `before` is the frame of the prompt before it, if that was understood."""

    def __init__(
        self,
        prompt: str,
        facts: WorkspaceFacts,
        before: Frame | None,
        names: dict[int, Names],
        loaded: Mapping[str, TableFacts],
    ) -> None:
        self.prompt, self.facts, self.before, self.names = prompt, facts, before, names
        self.loaded = loaded
        """The tables in which files are, by their paths."""

    def read(self) -> tuple[Step, Frame | None]:
        """Return the step, and the frame that the next prompt may continue."""
        plain = [self._lexer(None, order).read(self.prompt) for order in ORDERS]
        for tokens in plain:
            try:
                errand = steps.find_errand(tokens, self.facts)
            except MisfitError as misfit:
                return steps.decline(self.facts, [], [str(misfit)]), None
            if errand:
                return errand, self._frame_of_errand(tokens)
        lost = [t.text for t in plain[0] if t.tag == "NOFILE"]
        if lost and not any(t.tag == "SAVE" for t in plain[0]):
            return steps.decline(self.facts, [], [f"I see no file {codes(lost)}."]), None
        return self._on_tables(self._as_loaded(plain[0]))

    def _lexer(self, table: TableFacts | None, order: str) -> Lexer:
        """Return a lexer; the names of a table are put together once."""
        if id(table) not in self.names:
            self.names[id(table)] = Names(self.facts, table)
        return Lexer(self.names[id(table)], order)

    def _as_loaded(self, tokens: Sequence[Token]) -> list[Token]:
        """Return tokens that name the tables in which files are, in place of the files."""
        tables = {("FILE", path): table.variable for path, table in self.loaded.items()}
        named = [(each, tables.get((each.tag, each.value))) for each in tokens]
        return [Token("TABLE", name, each.text) if name else each for each, name in named]

    def _frame_of_errand(self, tokens: Sequence[Token]) -> Frame | None:
        """Return a frame without a question, about the table that is loaded."""
        paths = [t.value for t in tokens if t.tag == "FILE"]
        table = next((t for t in self.facts.tables if t.path in paths and t.path), None)
        return Frame(self.loaded.get(table.path, table)) if table else None

    def _candidates(self, tokens: Sequence[Token]) -> list[TableFacts]:
        """Return the tables that the prompt may be about, those in files without a name yet."""
        tables = self.facts.tables
        named = {(t.tag, t.value) for t in tokens if t.tag in ("TABLE", "FILE")}
        if named:
            mine = [t for t in tables if {("TABLE", t.variable), ("FILE", t.path)} & named]
            return mine if len(named) == 1 else []
        return [t for t in tables if t.variable] or [t for t in tables if t.path]

    def _on_tables(self, tokens: Sequence[Token]) -> tuple[Step, Frame | None]:
        candidates = self._candidates(tokens)
        readings = [self._on_table(each) for each in candidates]
        found = [each for each in readings if each.query]
        if len(found) > 1:
            names = codes(each.table.variable or each.table.path for each in found)
            reason = f"That could be about {names}: please name one."
            return steps.decline(self.facts, [], [reason]), None
        if found and found[0].query:
            try:
                return self._run(found[0], found[0].query), found[0].query.frame
            except MisfitError as misfit:
                return steps.decline(self.facts, [], [str(misfit)]), None
        return self._decline(readings, tokens, candidates), None

    def _decline(
        self, readings: Sequence[Reading], tokens: Sequence[Token], tables: Sequence[TableFacts]
    ) -> Say:
        unseen = [t.variable or t.path for t in tables if t.columns is None]
        best = min(readings, key=lambda each: len(each.unknown), default=None)
        unknown = best.unknown if best else [t.text for t in tokens if t.tag == "UNKNOWN"]
        is_clear = best and best.reason and (len(readings) == 1 or not unknown)
        reasons = [best.reason] if best and is_clear else []
        if unseen and not reasons:
            reasons = [f"I don't know the columns of {codes(unseen)} yet: load it first."]
        return steps.decline(self.facts, list(dict.fromkeys(unknown)), reasons)

    def _on_table(self, table: TableFacts) -> Reading:
        """Read the prompt about this very table, in both orders, which must not differ."""
        readings = [self._in_order(table, order) for order in ORDERS]
        understood = [each for each in readings if each.query]
        if len({each.query.rule for each in understood if each.query}) > 1:
            return Reading(table, reason=_NAMES_AS_WELL)
        return (understood or sorted(readings, key=lambda each: len(each.unknown)))[0]

    def _in_order(self, table: TableFacts, order: str) -> Reading:
        tokens = self._as_loaded(self._lexer(table, order).read(self.prompt))
        reading = Reading(table, unknown=[t.text for t in tokens if t.tag == "UNKNOWN"])
        if reading.unknown:
            return reading
        try:
            frame = FrameParser(tokens, table).parse(self.before)
            name = steps.name_for(table, self.facts)
            reading.query = find_query(frame, name, self.facts)
        except MisfitError as misfit:
            reading.reason = str(misfit)
        return reading

    def _run(self, reading: Reading, query: Query) -> Call:
        """Return the one call that answers; it loads the file first, if need be."""
        table, name, lines, drop = reading.table, query.name, list[str](), list[str]()
        where = query.frame.where
        query.about = code(name) + (f", where {join_conditions(where)}" if where else "")
        note = ""
        if table.path:
            lines.append(steps.load_line(table, name))
            note = f"\n\n_{code(table.path)} is loaded as {code(name)}._"
        if table.library == "polars":
            query.name = fresh(f"{name}_pandas", self.facts.variables)
            lines.append(f"{query.name} = pd.DataFrame({name}.to_dict(as_series=False))")
            drop = [f"del {query.name}"]
        source = "\n".join([*lines, query.code(), *drop])
        return steps.run_code(query.rule, source, lambda o: f"{query.say(o)}{note}", self.facts)


def _find_loaded(messages: Sequence[Message], facts: WorkspaceFacts) -> dict[str, TableFacts]:
    """Return the tables that earlier calls loaded from files, if these have not changed since."""
    asked = max((n for n, each in enumerate(messages) if each.is_from_user), default=0)
    failed = {each.tool_use_id for m in messages for each in m.tool_results if each.is_error}
    ran: dict[str, float] = {}
    for message in messages[:asked]:
        for call in message.tool_calls:
            if call.name == "run_python" and call.id not in failed:
                lines = str(call.arguments.get("code")).splitlines()
                ran |= dict.fromkeys(lines, message.timestamp.timestamp())
    return {
        file.path: table
        for file in facts.tables
        for table in facts.tables
        if file.path and table.variable
        if ran.get(steps.load_line(file, table.variable), -inf) > file.changed
    }


def next_step(
    prompts: Sequence[str], facts: WorkspaceFacts, loaded: Mapping[str, TableFacts]
) -> Step:
    """Return the step for the newest prompt; those before it are the questions it may continue."""
    before: Frame | None = None
    names: dict[int, Names] = {}
    for prompt in prompts[-_BEFORE:-1]:
        _, before = PromptReader(prompt, facts, before, names, loaded).read()
    return PromptReader(prompts[-1], facts, before, names, loaded).read()[0]


# The client --------------------------------------------------------------------------------------

_ABSENT = re.compile(
    r"No module named '([\w.]+)'|Missing optional dependency '([\w.]+)'|(matplotlib) is required"
)
_DATA = ("duckdb", "matplotlib", "pandas")
"""The packages of the extra `data`: who lacks one for the explorer will soon need the other."""
_STRANGE = "This conversation holds a call that I did not ask for; please ask again."


@dataclass(frozen=True)
class ExplorerReply:
    """One reply: the rule as `thinking`, and either calls or an answer."""

    thinking: str
    text: str = ""
    calls: tuple[tuple[str, JsonDict], ...] = ()


class ExplorerClient:
    """A client whose answers follow fixed rules, in this process: no key, no network, no cost."""

    gives_up = True
    """It ends at the first failed call, and the run counts as failed."""

    reads_facts = True
    """It takes the workspace from the request's facts."""

    context_window = None

    def __init__(self, model: str = "offline/explorer") -> None:
        self.model = model

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """Yield the reply to `request` word by word; raises ModelRefusedError for a bug of ours."""
        if request.answer:
            advice = "choose a language model (`%agent model ID`)"
            raise ModelRefusedError(f"{self.model} cannot answer as a type: {advice}")
        offered = {tool.name for tool in request.tools} if request.may_call else set[str]()
        try:
            answer = reply(request.messages, request.facts or WorkspaceFacts(), offered)
        except Exception as error:
            # Final: another attempt would meet the same bug.
            raise ModelRefusedError(
                f"{self.model}: the explorer failed: {name_and_text(error)}"
            ) from error
        turn = 1 + sum(message.role is Role.ASSISTANT for message in request.messages)
        for chunk in chunks_of(answer, turn):
            yield chunk
            await asyncio.sleep(0)  # for others to have their turn, and for a stop


def chunks_of(answer: ExplorerReply, turn: int) -> Iterator[StreamChunk]:
    """Yield the pieces of a reply; the turn makes the ids of its calls unique."""
    for word in _split_words(answer.thinking):
        yield StreamChunk(type="thinking", data=word)
    for word in _split_words(answer.text):
        yield StreamChunk(type="content", data=word)
    for index, (name, arguments) in enumerate(answer.calls):
        id_ = f"call_{turn}_{index + 1}"
        text = json.dumps(arguments)
        yield StreamChunk(type="tool_call", data=text, index=index, id=id_, name=name)
    yield StreamChunk(type="finish", data="tool_calls" if answer.calls else "stop")


def _split_words(text: str) -> list[str]:
    """Split into words, each with the space around it."""
    return re.findall(r"\s*\S+\s*", text) or ([text] if text else [])


def reply(
    messages: Sequence[Message], facts: WorkspaceFacts, offered: Collection[str]
) -> ExplorerReply:
    """Return the explorer's reply to a conversation; `offered` are the names of the tools.

    Pure: the same conversation gives the same reply.
    """
    prompts, calls, results = list[str](), list[ToolCall](), dict[str, ToolResultContent]()
    for message in messages:
        if message.is_from_user:
            prompts.append(message.text.strip())
            calls.clear()
        calls += message.tool_calls
        results |= {each.tool_use_id: each for each in message.tool_results}
    known = (each for each in facts.tables if each.variable or steps.loading_call(each))
    facts = replace(facts, tables=tuple(known))
    loaded = _find_loaded(messages, facts)
    step = next_step(prompts, facts, loaded) if prompts else steps.help_out(facts)
    done = [each for each in calls if each.id in results]
    if not done:
        return _begin(step, offered)
    call, result = done[0], results[done[0].id]
    if isinstance(step, Say) or (step.tool, step.arguments) != (call.name, call.arguments):
        return ExplorerReply("a call that I did not ask for", _STRANGE)
    if result.is_error:
        return _explain_failure(call, result)
    try:
        said = step.answer(result.text)
    except (UnreadableError, ValueError, LookupError, TypeError):
        text = f"**{code(call.name)} returned no rows that I can read**, so I draw no conclusion."
        return ExplorerReply("unreadable output", f"{text} In a dry run nothing runs.")
    return ExplorerReply("Put what the tool returned into words.", said)


def _begin(step: Step, offered: Collection[str]) -> ExplorerReply:
    """Return the call that a step needs, if its tool is available, or its words."""
    if isinstance(step, Say):
        return ExplorerReply(f"Rule: {step.rule}.", step.text)
    if step.tool not in offered:
        text = (
            f"**I would need {code(step.tool)}**, which is not on offer here, so I did nothing. "
            f"Allow that tool (for example by leaving out `--tools`) and ask again."
        )
        return ExplorerReply(f"Rule: {step.rule}. The tool is not on offer.", text)
    return ExplorerReply(f"Rule: {step.rule}.", "", ((step.tool, step.arguments),))


def _explain_failure(call: ToolCall, result: ToolResultContent) -> ExplorerReply:
    """End honestly: the call was denied, or it failed. Its result says why."""
    text = f"**{code(call.name)} was not run, or failed, so I stopped:** its result says why."
    if absent := _ABSENT.search(result.text):
        package = next(filter(None, absent.groups()))
        wanted = "'ipyagent[data]'" if package.partition(".")[0] in _DATA else package
        text += f"\n\nInstall it with {code(f'%pip install {wanted}')}, then ask again."
    return ExplorerReply("the call did not succeed", text)
