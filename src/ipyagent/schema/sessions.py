"""A session: a conversation that continues across cells and kernels."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    TypeAdapter,
    model_validator,
)

from ipyagent.compat import convert_session
from ipyagent.schema.messages import Count, JsonObject, Message, Model, Moment, Text, now
from ipyagent.schema.runs import RunStatus

CLOCK_SKEW = timedelta(seconds=5)


class SessionState(StrEnum):
    """Lifecycle of a session; STEPS has the legal transitions."""

    INITIALIZING = "initializing"
    ACTIVE = "active"
    TERMINATED = "terminated"


STEPS: dict[SessionState, frozenset[SessionState]] = {
    SessionState.INITIALIZING: frozenset({SessionState.ACTIVE, SessionState.TERMINATED}),
    SessionState.ACTIVE: frozenset({SessionState.TERMINATED}),
    SessionState.TERMINATED: frozenset(),
}


def _uuid(value: object) -> str:
    if not isinstance(value, (str, uuid.UUID)):
        raise ValueError("the id of a session is a UUID")
    return str(uuid.UUID(str(value)))


def _past(moment: datetime) -> datetime:
    if moment > now() + CLOCK_SKEW:
        raise ValueError("started_at is in the future")
    return moment


class Session(Model):
    """A session's record. `messages` is filled for export; the journal has the events.

    `origin` names the session, and its node, from which this one was branched.
    """

    id: Annotated[str, BeforeValidator(_uuid)] = Field(
        default_factory=lambda: str(uuid.uuid4()),
        validation_alias=AliasChoices("id", "session_id"),
    )
    name: Text = ""
    state: SessionState = SessionState.INITIALIZING
    started_at: Annotated[Moment, AfterValidator(_past)] = Field(default_factory=now)
    messages: tuple[Message, ...] = Field(
        default=(), validation_alias=AliasChoices("messages", "history")
    )
    metadata: JsonObject = Field(default_factory=dict)
    origin: tuple[str, str] | None = None
    pending_run_id: str | None = None
    active_run_id: str | None = None
    last_run_id: str | None = None
    last_run_status: RunStatus | None = None
    last_run_at: Moment | None = Field(
        default=None, validation_alias=AliasChoices("last_run_at", "last_run_ts")
    )

    @model_validator(mode="wrap")
    @classmethod
    def _accept(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        data = convert_session(dict(data)) if isinstance(data, Mapping) else data
        if not isinstance(data, Mapping) or "message_count" not in data:
            return handler(data)
        count = TypeAdapter(Count).validate_python(data["message_count"])
        session = handler({key: data[key] for key in data if key != "message_count"})
        if {"messages", "history"} & data.keys() and count != session.message_count:
            raise ValueError(
                f"message_count is {count}, but there are {session.message_count} messages"
            )
        return session

    @property
    def message_count(self) -> int:
        """The number of prompts and answers, without context, summaries and reminders."""
        return sum(not message.synthetic for message in self.messages)

    def move(self, state: SessionState) -> Self:
        """Return the session in its next state; raises ValueError for an illegal transition."""
        if state not in STEPS[self.state]:
            raise ValueError(f"a session that is {self.state} cannot become {state}")
        return self.model_copy(update={"state": state})
