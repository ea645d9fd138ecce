"""Items that one model answers beside each other, with one budget and one circuit breaker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass

from ipyagent.agent.answers import MOST_AGAIN, AnswerType, check_text
from ipyagent.agent.step_machine import StreamedReply
from ipyagent.config import RetryConfig
from ipyagent.errors import AgentError, describe_error, name_and_text
from ipyagent.llm.client import Client, ModelRequest, retrying
from ipyagent.plaintext import dollars, first_line
from ipyagent.redaction import Redactor
from ipyagent.schema import Message, Role, TokenUsage

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
        cost = reply.to_event(TokenUsage(), cost).cost_usd
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
