"""The loop: ask the model, run what it calls, until it answers.

The loop's only output is its event stream; the only thing that travels in is a person's answer to
an approval.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
import time
import uuid
from dataclasses import dataclass, field
from functools import cached_property

from ipyagent.agent import limits
from ipyagent.agent.dispatch import Calls, Dispatcher
from ipyagent.agent.session import Session, remember
from ipyagent.agent.stream import EventStream
from ipyagent.config import Config
from ipyagent.errors import AgentError, ModelUnavailableError
from ipyagent.llm.client import Client, ModelRequest, StreamChunk
from ipyagent.llm.retry import delay
from ipyagent.llm.wire import ReplyBuilder
from ipyagent.schema import (
    Message,
    MessageDelta,
    MessageFinished,
    MessageStarted,
    Notice,
    RetryScheduled,
    Role,
    Run,
    RunFinished,
    RunStarted,
    RunStatus,
    StepFinished,
    StepStarted,
    StopReason,
    TextContent,
    ToolCall,
    ToolDefinition,
)

log = logging.getLogger("ipyagent")


@dataclass
class Loop:
    """One run of the agent."""

    config: Config
    session: Session
    client: Client
    system_prompt: str
    dispatcher: Dispatcher
    stream: EventStream
    _unfinished: Reply | None = field(default=None, init=False)

    @cached_property
    def _definitions(self) -> tuple[ToolDefinition, ...]:
        return self.dispatcher.toolbox.definitions()

    async def run(self, prompt: str, context: str, notices: tuple[str, ...] = ()) -> Run:
        """Answer `prompt`; `context` is what the model is told beside it. Never raises."""
        begun = time.monotonic()
        self._begin(prompt, context, notices)
        status, reason, error = await self._conclusion()
        self._keep_unfinished()
        self.session.close_turn(error or f"ended: {reason}")
        duration = time.monotonic() - begun
        self.stream.emit(
            RunFinished(status=status, stop_reason=reason, error=error, duration=duration)
        )
        self.session.runs.append(self.stream.run)
        remember(self.stream.run)
        return self.stream.run

    def _begin(self, prompt: str, context: str, notices: tuple[str, ...]) -> None:
        run = Run(
            id=uuid.uuid4().hex[:12],
            session_id=self.session.id,
            trace_id=uuid.uuid4().hex,
            prompt=prompt,
            context=context,
            model=self.client.model,
            confirm_mode=self.config.agent.confirm_mode,
            max_steps=self.config.agent.max_steps,
        )
        self.stream.emit(RunStarted(run=run))
        for text in notices:
            self.stream.emit(Notice(text=text))
        said = (prompt, context) if context else (prompt,)
        blocks = tuple(TextContent(text=text) for text in said)
        self.session.add(Message(role=Role.USER, content=blocks))

    async def _conclusion(self) -> tuple[RunStatus, StopReason, str | None]:
        """Work until the run is over, and say how it ended."""
        try:
            async with asyncio.timeout(self.config.agent.max_seconds) as clock:
                return RunStatus.DONE, await self._work(), None
        except asyncio.CancelledError:
            return RunStatus.CANCELLED, StopReason.INTERRUPTED, None
        except AgentError as error:
            return RunStatus.ERROR, StopReason.ERROR, str(error)
        except Exception as error:
            if isinstance(error, TimeoutError) and clock.expired():
                return RunStatus.DONE, StopReason.MAX_SECONDS, None
            log.exception("the loop failed")
            return RunStatus.ERROR, StopReason.ERROR, f"ipyagent itself failed: {error!r}"

    async def _work(self) -> StopReason:
        for step in itertools.count(1):
            if spent := limits.reached(self.stream.run, self.config.agent):
                return spent
            self.stream.emit(StepStarted(step=step))
            reply = await self._ask(step)
            calls = reply.builder.message().tool_calls
            if calls:
                await self._act(step, calls)
            self.stream.emit(StepFinished(step=step))
            if not calls:
                return _reason(reply)
        raise AssertionError("count() never ends")

    async def _ask(self, step: int) -> Reply:
        """The model's reply to the conversation so far; transient failures are tried again."""
        retry = self.config.llm.retry
        for attempt in itertools.count(1):
            try:
                return await self._stream_reply(step)
            except ModelUnavailableError as error:
                if attempt > retry.max_retries:
                    raise
                wait = delay(attempt - 1, retry, error.retry_after, random.random)
                self.stream.emit(
                    RetryScheduled(
                        step=step,
                        attempt=attempt,
                        of=retry.max_retries,
                        delay=wait,
                        reason=str(error),
                    )
                )
                await asyncio.sleep(wait)
        raise AssertionError("count() never ends")

    async def _stream_reply(self, step: int) -> Reply:
        system = Message.of(Role.SYSTEM, self.system_prompt)
        request = ModelRequest((system, *self.session.messages), self._definitions)
        reply = self._unfinished = Reply(step, f"{self.stream.run.id}_{step}")
        self.stream.emit(MessageStarted(step=step))
        async with contextlib.aclosing(self.client.stream(request)) as chunks:
            async for chunk in chunks:
                reply.add(chunk)
                if chunk.type in ("text", "thinking"):
                    self.stream.emit(MessageDelta(step=step, kind=chunk.type, text=chunk.text))
        self._keep(reply, reply.builder.message())
        return reply

    def _keep_unfinished(self) -> None:
        """What a model had said when it was cut off is kept: its text, but none of its calls."""
        reply = self._unfinished
        if reply is not None and (text := reply.builder.message().text):
            self._keep(reply, Message.of(Role.ASSISTANT, text))

    def _keep(self, reply: Reply, message: Message) -> None:
        self._unfinished = None
        if message.content:
            self.session.add(message)
        self.stream.emit(
            MessageFinished(
                step=reply.step,
                message=message,
                finish_reason=reply.builder.finish_reason,
                usage=reply.builder.usage,
                cost_usd=reply.builder.cost_usd,
                thinking_seconds=reply.thinking_seconds,
            )
        )

    async def _act(self, step: int, calls: tuple[ToolCall, ...]) -> None:
        """Run the calls; their results are in the conversation whatever happens meanwhile."""
        work = Calls(self.dispatcher, step, calls)
        try:
            await work.run()
        finally:
            self.session.add(work.close())


def _reason(reply: Reply) -> StopReason:
    """Why a reply without calls ends the run."""
    match reply.builder.finish_reason:
        case "length":
            return StopReason.LENGTH
        case "content_filter":
            return StopReason.CONTENT_FILTER
    said = reply.builder.message().text.strip()
    return StopReason.FINISHED if said else StopReason.EMPTY


class Reply:
    """A reply as it streams in, and how long its thinking took."""

    def __init__(self, step: int, prefix: str) -> None:
        self.step = step
        # For calls that come without an id: unique in the session.
        self.builder = ReplyBuilder(prefix)
        self.thinking_seconds: float | None = None
        self._thinking_since: float | None = None

    def add(self, chunk: StreamChunk) -> None:
        """Take in one chunk."""
        self.builder.add(chunk)
        if chunk.type != "thinking":
            return
        moment = time.monotonic()
        self._thinking_since = self._thinking_since or moment
        self.thinking_seconds = moment - self._thinking_since
