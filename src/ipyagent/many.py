"""`ipyagent.map`: one prompt for thousands of items, which are answered beside each other.

They share one budget and one circuit breaker.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import re
import sys
import time
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from inspect import signature
from numbers import Real
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ipyagent.agent.answers import MOST_AGAIN, AnswerType, check_text
from ipyagent.agent.prompts import VALIDATORS, Context, validate
from ipyagent.agent.session.sessions import Sessions
from ipyagent.agent.step_machine import StreamedReply
from ipyagent.api import Agent
from ipyagent.config import Layer, RetryConfig
from ipyagent.config.sources import read_user_secret
from ipyagent.digests import digest_json, digest_text
from ipyagent.errors import AgentError, ConfigError, JournalError, describe_error, name_and_text
from ipyagent.json_types import JsonDict
from ipyagent.kernel.drivers import Cell, drive_async_in_any_task, drive_sync, stoppable
from ipyagent.kernel.shell import Frontend, Surface, running_shell
from ipyagent.llm.client import Client, LimitedClient, ModelRequest, maker_of, retrying
from ipyagent.plaintext import dollars, first_line, join_some
from ipyagent.redaction import Redactor, known_secrets
from ipyagent.schema import NO_TOKENS, Message, Outcome, Role
from ipyagent.store.answers import AnswerStore
from ipyagent.store.sessions import ITEM
from ipyagent.tools.base import BaseTool, Tool, tool
from ipyagent.ui.views import SilentView
from ipyagent.values.variables.tables import loading_call
from ipyagent.wiring import RunFactory, RunFunction, RunRequest, extra_validators
from ipyagent.wiring.workers import RemoteClient, dashboard_of

if TYPE_CHECKING:
    import pandas


log = logging.getLogger("ipyagent")

IN_A_ROW = 10
"""Failures of the same kind, one after the other, after which no more items are asked about."""


@dataclass(frozen=True, slots=True)
class ItemAnswer:
    """The answer to one item, as text and as a value, or why there is none."""

    text: str = ""
    value: object = None
    error: str | None = None
    cost_usd: float | None = None
    run_id: str = ""


Ask = Callable[[str], Awaitable[ItemAnswer]]


class Batch:
    """Asks about items, `at_once` beside each other; `done` gets each key with its answer.

    The cost of the next item is estimated as the mean of those before it. `stopped` is the reason
    why no more items are asked about.
    """

    def __init__(
        self,
        done: Callable[[str, ItemAnswer], object],
        at_once: int,
        max_usd: float | None = None,
    ) -> None:
        self.stopped = ""
        self.spent = 0.0
        self._done, self._at_once, self._max_usd = done, at_once, max_usd
        self._open = self._priced = self._in_a_row = 0
        self._kind: str | None = None
        self._changed = asyncio.Condition()

    async def run(self, ask: Ask, items: Iterable[tuple[str, str]]) -> None:
        """Ask about all items, given as keys with prompts."""
        shared = iter(items)
        async with asyncio.TaskGroup() as group:
            for _ in range(self._at_once):
                group.create_task(self._work(ask, shared))

    async def _work(self, ask: Ask, items: Iterator[tuple[str, str]]) -> None:
        for key, prompt in items:
            async with self._changed:
                await self._changed.wait_for(self._may_ask)
                self._open += 1
            try:
                if self.stopped:
                    answer = ItemAnswer(error=f"not asked: {self.stopped}")
                else:
                    answer = await _try(ask, prompt)
                    self._judge(answer)
                self._done(key, answer)
            finally:
                self._open -= 1
                async with self._changed:
                    self._changed.notify(2)

    def _may_ask(self) -> bool:
        """Return whether the next item can be decided on: asked about, or left out."""
        if self._max_usd is None or self.stopped:
            return True
        each = self.spent / self._priced if self._priced else None
        if each is not None and self.spent + each * (self._open + 1) <= self._max_usd:
            return True
        if not self._open and each is not None:
            self.stopped = f"the budget of {dollars(self._max_usd)} is used up"
        return not self._open

    def _judge(self, answer: ItemAnswer) -> None:
        """Count the cost and the failures in a row."""
        if answer.cost_usd is not None:
            self.spent += answer.cost_usd
            self._priced += 1
        elif self._max_usd is not None and not answer.error:
            self.stopped = "the price of this model is not known, so max_usd cannot be kept to"
        kind = answer.error and answer.error.partition(":")[0]
        self._in_a_row = self._in_a_row + 1 if kind == self._kind else 1
        self._kind = kind
        if answer.error and self._in_a_row >= IN_A_ROW:
            self.stopped = self.stopped or f"{IN_A_ROW} in a row failed: {first_line(answer.error)}"


async def _try(ask: Ask, prompt: str) -> ItemAnswer:
    try:
        return await ask(prompt)
    except AgentError as error:
        return ItemAnswer(error=describe_error(error))
    except Exception as error:  # one item never ends the others
        log.exception("an item failed")
        return ItemAnswer(error=name_and_text(error))


async def ask_item(
    client: Client, prompt: str, answer: AnswerType | None, retry: RetryConfig, redactor: Redactor
) -> ItemAnswer:
    """Return the answer to a prompt without tools, asked for again if it is not of its type."""
    # An item is data, which may be longer than what a user types.
    messages = [Message.of(Role.USER, prompt, synthetic=True)]
    receive = retrying(retry, lambda *_: None)
    cost: float | None = None
    for _ in range(1 + MOST_AGAIN):
        request = ModelRequest((*messages,), answer=answer.format if answer else None)
        reply: StreamedReply
        try:
            reply = await receive(_receive, client, request, redactor)
        except AgentError as error:
            return ItemAnswer(error=describe_error(error), cost_usd=cost)
        cost = reply.to_event(NO_TOKENS, cost).cost_usd
        text = reply.message.text if reply.message else ""
        if reply.is_withheld:
            return ItemAnswer(text, error="withheld by the model or its service", cost_usd=cost)
        check = answer.read if answer else check_text
        try:
            value = check(text, is_cut=reply.is_truncated)
            return ItemAnswer(text, value, cost_usd=cost)
        except ValueError as error:
            name, problem = answer.name if answer else "a text", str(error)
        if answer is None:
            break
        messages.append(Message.of(Role.ASSISTANT, text or "[no answer]"))
        messages.append(Message.of(Role.USER, answer.ask_again(problem)))
    return ItemAnswer(error=f"The answer is not {name}: {problem}", cost_usd=cost)


async def _receive(client: Client, request: ModelRequest, redactor: Redactor) -> StreamedReply:
    reply = StreamedReply(1, "call_1", redactor, client)
    async with aclosing(client.stream(request)) as chunks:
        async for chunk in chunks:
            reply.add(chunk)
    reply.complete()
    if request.answer:
        reply.take_answer()
    return reply


STORE = "answers.db"
"""The file of the answers that are kept, in the workspace's state."""

WHOLE = Layer("ipyagent.map", {"llm": {"stream": False, "timeout": 300}})
"""Replies come in one piece, which costs less, and have the time for it."""

_FIELD = re.compile(r"\{([^{}\n]+)\}")
_SPEC = re.compile(r"\s*(\w+)\s*(?:[:!.\[]\S.*)?")
_MISSING = ("None", "nan", "NaN", "NaT", "<NA>")
_NULLABLE = {frozenset({bool, type(None)}): "boolean", frozenset({int, type(None)}): "Int64"}
"""Types of pandas for columns in which values are missing: numbers stay whole, bools a mask."""
_DRAW_SECONDS = 0.1

_NOTHING = ItemAnswer(error="not asked: a value of this item is missing (None or NaN) or empty")


def map(prompt: str, items: object, **options: object) -> pandas.DataFrame:  # noqa: A001
    """Ask the prompt about each item; return a table of the answers in the order of the items.

    `items` is a DataFrame, whose columns fill the prompt's `{column}`; or a Series, list or other
    iterable: of dicts, or of values for the one field of the prompt. The table is pandas', or
    polars' for polars: the fields of `result`, else the column `value`; `error` and `cost_usd`; and
    with tools `run_id`. An item that fails never ends the others. Without pandas it is a list.

    `result` is the type of an answer, as in `Agent.ask`. With `tools` (functions, or names of
    built-in tools) each item is a run of an agent; calls that need approval are denied, unless a
    rule allows them. `at_once`, `requests_per_minute` and `tokens_per_minute` limit the requests.
    No more items are asked about once `max_usd` is used up, or once ten in a row have failed in the
    same way. Other arguments are those of `Agent`.

    `on` is a `dask.distributed.Client` or an `Executor`, whose workers send the requests and call
    the functions of `tools`. They take keys from their own environment; `send_key=True` sends this
    process's key to workers that have none.

    Answers are kept in the workspace: after a stop or a crash, or for a longer list, only what is
    missing is asked. Raises ConfigError, and AgentInterrupted when it is stopped.
    """
    mapping = _prepare(prompt, items, options)
    with stoppable(mapping.cell), mapping.show_progress():
        drive_sync(mapping.cell, mapping.run)
    return mapping.to_table()


async def amap(prompt: str, items: object, **options: object) -> pandas.DataFrame:
    """Return the same table as `map`, with its options, for async code."""
    mapping = _prepare(prompt, items, options)
    with mapping.show_progress():
        await drive_async_in_any_task(mapping.cell, mapping.run)
    return mapping.to_table()


def _prepare(prompt: str, items: object, options: JsonDict) -> ItemMap:
    return ItemMap(prompt, items, **options)


class ItemMap(Agent):
    """One call of `map`: its items by the digests of what is asked, and their answers."""

    def __init__(
        self,
        prompt: str,
        items: Any,
        *,
        result: object = None,
        tools: Iterable[str | Tool | BaseTool | Callable[..., object]] = (),
        at_once: int = 64,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        max_usd: float | None = None,
        on: object = None,
        send_key: bool = False,
        **agent: object,
    ) -> None:
        settings: JsonDict = {**agent}
        if isinstance(tools, str | Tool) or callable(tools):
            tools = [tools]
        own = [each if isinstance(each, str) else tool(each) for each in tools]
        self._names = [each if isinstance(each, str) else each.name for each in own]
        if own:
            settings["allowed_tools"] = self._names
        settings["tools"] = [each for each in own if not isinstance(each, str)]
        settings["layers"] = (WHOLE, *settings.get("layers", ()))
        super().__init__(**settings)
        self.cell, self._items = Cell(), items
        self._answer = None if result is None else AnswerType(result)
        self._columns = [*self._answer.format.schema["properties"]] if self._answer else ["value"]
        if taken := {"error", "cost_usd", "run_id"} & {*self._columns}:
            raise ConfigError(f"a column of the table is called {min(taken)}: rename that field")
        self._model = self.environment.connect()
        self._dashboard = dashboard_of(on)
        self._workers: RemoteClient | None = None
        if on is not None:
            config = None if self._client else self.config.llm
            folder = self.environment.workspace.root
            self._workers = RemoteClient(on, self._model, config, folder, send_key)
            self._model = self._workers
            self.tools = [self._workers.carry(each) for each in self.tools]
        self._render, count = read_items(prompt, items)
        self._limits = at_once, requests_per_minute, tokens_per_minute
        for limit in (at_once or 0, *self._limits[1:], max_usd):
            if limit is not None and not (isinstance(limit, Real) and limit > 0):
                raise ConfigError(f"ipyagent.map: a limit is {limit!r}: give a number above 0")
        self._batch = Batch(self._keep, max(1, int(min(at_once, count))), max_usd)
        schema = self._answer and self._answer.format.schema
        asked = maker_of(self._model), schema, self._names, self.config.agent.system_prompt
        shared = _sign(_find_secret(), digest_json(asked))
        prompts = (self._render(number) for number in range(count))
        self._keys = [each and _sign(shared, digest_text(each)).hex() for each in prompts]
        root = self.environment.workspace.state_folder().root if self.config.chat.persist else None
        self._store = AnswerStore(root and root / STORE)
        self._answers = {"": _NOTHING, **dict(self._find_kept())}
        self._bar: Any = None
        self._due = 0.0

    async def run(self) -> None:
        """Ask about the items that have no answer yet."""
        client = LimitedClient(self._model, *self._limits)
        ask = self._run_of_agent(client) if self._names else self._request_to_model(client)
        missing = {key: n for n, key in enumerate(self._keys) if key not in self._answers}
        if missing and self._workers:
            await self._workers.check()
        await self._batch.run(ask, ((key, self._render(n)) for key, n in missing.items()))

    def _request_to_model(self, client: Client) -> Ask:
        """Return a function that asks the model itself about an item."""
        checks = [*extra_validators(self.environment, self.config)]
        secrets = {*known_secrets(os.environ), *self.config.secrets()}
        redactor, retry = self.environment.toolset.redactor(secrets), self.config.llm.retry

        async def ask(prompt: str) -> ItemAnswer:
            validate(prompt, checks)
            return await ask_item(client, redactor.text(prompt), self._answer, retry, redactor)

        return ask

    def _run_of_agent(self, client: Client) -> Ask:
        """Return a function that lets an agent with a session of its own work on an item."""
        nobody = Frontend(Surface.TERMINAL, can_input=False)
        view = partial(SilentView, self.cell, self.environment.approvals, nobody)

        def build(prompt: str, sessions: Sessions) -> RunFunction:
            session = sessions.begin(ITEM)
            runs = RunFactory(self.environment, session, client, self.cell, view)
            return runs.build(
                RunRequest(prompt, self.config, answer=self._answer), VALIDATORS, Context()
            )

        async def ask(prompt: str) -> ItemAnswer:
            sessions = self._sessions()
            begun = self.cell.main.post(partial(build, prompt, sessions))
            try:
                run = await (await asyncio.wrap_future(begun))()
            finally:  # nothing of it stays in memory, or open, also if a stop came while it began
                begun.add_done_callback(lambda _: sessions.close())
            error = None if run.outcome is Outcome.SUCCESS else run.error or str(run.stop_reason)
            value = run.value if self._answer else run.output
            return ItemAnswer(run.output, value, error, run.cost_usd, run.id)

        return ask

    def _find_kept(self) -> Iterator[tuple[str, ItemAnswer]]:
        """Yield the answers that are here from before; one that is not valid now is left out."""
        for key in self._keys:
            if row := self._store.find(key):
                text, cost, run_id = row
                with suppress(ValueError):
                    value = self._answer.read(text) if self._answer else check_text(text)
                    yield key, ItemAnswer(text, value, None, cost, run_id)

    def _keep(self, key: str, answer: ItemAnswer) -> None:
        self._answers[key] = answer
        if answer.error is None:
            try:
                self._store.add(key, answer.text, answer.cost_usd, answer.run_id)
            except JournalError as error:  # what cannot be kept would be paid for again
                self._batch.stopped = describe_error(error)
        if (moment := time.monotonic()) >= self._due:
            self._due = moment + _DRAW_SECONDS
            self.cell.main.post(self._draw, alone=False)

    @contextmanager
    def show_progress(self) -> Iterator[None]:
        """Show a bar meanwhile, if tqdm is installed; warn of items that were not asked about."""
        with suppress(ImportError):
            # A script whose output goes elsewhere shows none.
            disable = None if running_shell() is None else False
            bar = import_module("tqdm.auto").tqdm
            self._bar = bar(total=len(set(self._keys)), disable=disable, unit=" items")
            if self._dashboard and not self._bar.disable:
                self._bar.write(f"Dask's dashboard: {self._dashboard}")
        try:
            self._draw()
            yield
        finally:
            self._draw()
            if self._bar is not None:
                self._bar.close()
            self._store.close()
        if self._batch.stopped:
            warnings.warn(f"Not all items were asked about: {self._batch.stopped}", stacklevel=3)

    def _draw(self) -> None:
        """Draw the bar; on the main thread."""
        if self._bar is not None:
            failed = sum(each.error is not None for each in [*self._answers.values()])
            cost = dollars(self._batch.spent) if self._batch.spent else ""
            words = ", ".join(filter(None, (f"{failed} failed" if failed else "", cost)))
            self._bar.set_postfix_str(words, refresh=False)
            self._bar.update(len(self._answers) - self._bar.n)

    def to_table(self) -> pandas.DataFrame:
        """Return the answers as a table like that of the items, or as a list of dicts."""
        rows = [self._row(self._answers[key]) for key in self._keys]
        names = dict.fromkeys(name for row in [self._row(_NOTHING), *rows] for name in row)
        data: JsonDict = {name: [row.get(name) for row in rows] for name in names}
        if (polars := sys.modules.get("polars")) and _is_of(polars, self._items):
            return polars.DataFrame([_make_series(polars, *each) for each in data.items()])
        try:
            pandas = import_module("pandas")
        except ImportError:
            return rows
        for name, values in data.items():
            if dtype := _NULLABLE.get(frozenset(type(each) for each in values)):
                with suppress(Exception):  # a number may be too large
                    data[name] = pandas.array(values, dtype)
        return pandas.DataFrame(
            data, index=self._items.index if _is_of(pandas, self._items) else None
        )

    def _row(self, answer: ItemAnswer) -> JsonDict:
        row: JsonDict = dict.fromkeys(self._columns)
        if answer.error is None:
            row |= self._answer.to_row(answer.value) if self._answer else {"value": answer.value}
        row |= {"error": answer.error, "cost_usd": answer.cost_usd}
        return row | ({"run_id": answer.run_id} if self._names else {})


def _make_series(polars: ModuleType, name: str, values: list[object]) -> object:
    """Return a column of polars: of objects, if the values have no type of polars' in common."""
    dtype = {"error": polars.String, "cost_usd": polars.Float64}.get(name)
    with suppress(Exception):
        rows = [{name: each} for each in values]
        return polars.DataFrame(rows, {name: dtype}, infer_schema_length=None)[name]
    return polars.Series(name, values, polars.Object)


def _is_of(library: ModuleType, items: object) -> bool:
    return isinstance(items, library.DataFrame | library.Series)


def _sign(secret: bytes, digest: str) -> bytes:
    return hmac.digest(secret, digest.encode(), "sha256")


def _find_secret() -> bytes:
    """Return what answers are signed with: those that came with a folder are not found."""
    try:
        return read_user_secret().encode()
    except ConfigError:  # the user's own folder cannot be used
        return os.urandom(32)


def read_items(prompt: str, items: Any) -> tuple[Callable[[int], str], int]:
    """Return a function that fills the prompt for an item by its number, and the count of items.

    It returns "" for an item with a missing value. Raises ConfigError for what cannot be filled.
    """
    if not isinstance(prompt, str):
        raise ConfigError("ipyagent.map: the prompt is not a text; it comes first, then the items")
    _check_items(items)
    found = [*dict.fromkeys(_FIELD.findall(prompt))]
    names = [each for each in found if each.isidentifier()]
    known: list[str] = []
    if hasattr(items, "columns"):
        labels, count = {str(each): each for each in items.columns}, len(items)
        known = [str(each) for each in items.columns]
        if double := next((each for each in found if known.count(each) > 1), None):
            raise ConfigError(f"ipyagent.map: several columns are called {double}: rename them")
        columns = {each: items[labels[each]].to_list() for each in found if each in labels}
    else:
        values = items.to_list() if hasattr(items, "to_list") else [*items]
        count = len(values)
        if any(isinstance(each, Mapping) for each in values):
            values = [each if isinstance(each, Mapping) else {} for each in values]
            known = [*dict.fromkeys(key for each in values for key in each)]
            columns = {name: [each.get(name) for each in values] for name in found if name in known}
        else:
            columns = dict.fromkeys(names[:1], values)
    missing = [each for each in found if each not in columns and _names_one(each, names, columns)]
    if missing or not columns:
        what = f"'s {{{missing[0]}}}" if missing else ", which has no {field}"
        of = f"there are {join_some(known, 20)}" if known else "several need a table or dicts"
        raise ConfigError(
            f"ipyagent.map: no item fills the prompt{what}: a field is a name alone; {of}"
        )

    def render(number: int) -> str:
        item = {name: column[number] for name, column in columns.items()}
        texts = {name: str(value) for name, value in item.items()}
        if any(texts[name] in _MISSING and not isinstance(item[name], str) for name in item):
            return ""
        filled = _FIELD.sub(lambda field: texts.get(field[1], field[0]), prompt)
        return filled if filled.strip() else ""

    return render, count


def _check_items(items: object) -> None:
    """Refuse one item that is not in a list, and a table that is not in memory."""
    cls = type(items)
    if any(
        _is_of(sys.modules[each], items) for each in ("pandas", "polars") if each in sys.modules
    ):
        return
    load = loading_call(items)
    is_iterable = hasattr(cls, "__iter__") or hasattr(cls, "__getitem__")
    if load or isinstance(items, str | bytes | Mapping) or not is_iterable:
        wanted = f"items{load}" if load else "a table or a list"
        raise ConfigError(f"ipyagent.map: the items are a {cls.__name__}: give {wanted}")


def _names_one(field: str, names: list[str], columns: Mapping[str, object]) -> bool:
    """Return whether a field is a name, or a name of a column with a format or spaces."""
    spec = _SPEC.fullmatch(field)
    return field in names or (spec is not None and spec[1] in columns)


map.__signature__ = signature(ItemMap).replace(return_annotation="pandas.DataFrame")  # type: ignore[attr-defined]  # for help and completion
