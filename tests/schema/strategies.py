"""Strategies for the classes of the schema, for property tests: made from the fields' types."""

from __future__ import annotations

import string
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, MinLen
from hypothesis import strategies as st
from pydantic import AfterValidator, AwareDatetime
from pydantic.fields import FieldInfo

from ipyagent import schema as s
from ipyagent.json_types import as_json, well_formed
from ipyagent.numbers import Trace, TracedNumber

Strategy = st.SearchStrategy[Any]

# Escapes, hidden characters and lone surrogates are what text is made of in the wild.
texts = st.text(st.one_of(st.characters(), st.sampled_from("\x1b[31m\x9b\r\n\ud800\udfff\u202e")))
names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)
counts = st.integers(0, 10**9)
amounts = st.floats(0, 1e12)
flags = st.booleans()
zones = st.integers(-86_399, 86_399).map(lambda seconds: timezone(timedelta(seconds=seconds)))
moments = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=zones)
past = st.datetimes(datetime(1971, 1, 1), datetime(2025, 1, 1), timezones=st.just(UTC))

scalars = st.none() | flags | st.integers(-(2**70), 2**70) | texts
scalars |= st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)
PLAIN: dict[Any, Strategy] = {
    str: names,
    int: counts,
    float: amounts,
    bool: flags,
    datetime: moments,
    AwareDatetime: moments,
    type(None): st.none(),
    TracedNumber: st.builds(
        TracedNumber, names, counts, st.sampled_from(get_args(Trace)), names, counts, names
    ),
}


def some(strategy: Strategy, most: int = 2) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=most).map(tuple)


def of_type(kind: Any, *marks: Any) -> Strategy:
    """The values of a type; `marks` are what it is annotated with."""
    validators = [mark.func for mark in marks if isinstance(mark, AfterValidator)]
    if as_json in validators:
        return json_objects if get_origin(kind) is dict else json_values
    if well_formed in validators:
        return names if any(isinstance(mark, MinLen) for mark in marks) else texts
    if any(isinstance(mark, Ge) and mark.ge == 1 for mark in marks):
        return st.integers(1, 10**6)
    match get_origin(kind), get_args(kind):
        case origin, (inner, *more) if origin is Annotated:
            return of_type(inner, *more, *marks)
        case origin, kinds if origin in (Union, UnionType):
            return st.one_of([of_type(each) for each in kinds])
        case origin, words if origin is Literal:
            return st.sampled_from(words)
        case origin, (inner, last) if origin is tuple and last is ...:
            return some(of_type(inner))
        case origin, kinds if origin is tuple:
            return st.tuples(*map(of_type, kinds))
        case origin, (key, value) if origin is dict:
            return st.dictionaries(of_type(key), of_type(value), max_size=2)
    if issubclass(kind, s.Model):
        return st.deferred(lambda: records[kind])
    return st.sampled_from(kind) if issubclass(kind, Enum) else PLAIN[kind]


def made(cls: type[s.Model], **own: Strategy) -> Strategy:
    """The records of a class; those of its fields that are not written have their defaults."""
    fields = {name: field for name, field in cls.model_fields.items() if not field.exclude}
    return st.builds(cls, **{name: of_field(each) for name, each in fields.items()} | own)


def of_field(field: FieldInfo) -> Strategy:
    return of_type(field.annotation, *field.metadata)


def opaque(cls: type[s.Model]) -> Strategy:
    extras = st.dictionaries(names.map(lambda name: f"x_{name}"), json_values, max_size=2)
    return st.builds(lambda kind, extra: cls(type=f"new_{kind}", **extra), names, extras)


calls = made(s.ToolCall)
said = st.builds(s.TextContent, text=texts.map(lambda text: f"{text}."))
assistant = st.just(s.Role.ASSISTANT)
images = made(
    s.ImageContent,
    media_type=st.sampled_from(["image/png", "image/svg+xml"]),
    data=st.text(string.ascii_letters, min_size=4, max_size=8),
)
opaque_blocks = opaque(s.OpaqueContent)
messages = st.one_of(
    made(
        s.Message,
        role=assistant,
        content=st.tuples(said | calls | opaque_blocks, made(s.ThinkingContent) | said | calls),
        synthetic=st.just(False),
    ),
    made(
        s.Message,
        role=st.just(s.Role.USER),
        content=st.tuples(said | images | made(s.ToolResultContent) | opaque_blocks),
    ),
    made(s.Message, role=st.just(s.Role.SYSTEM), content=st.tuples(said)),
)
replies = made(s.Message, role=assistant, content=st.tuples(said, calls), synthetic=st.just(False))
usages = made(s.TokenUsage)
good = made(s.ToolResult, success=st.just(True), output=texts, error=st.none())
bad = made(s.ToolResult, success=st.just(False), output=texts, error=names.map("E{}".format))
results = good | bad

STATUS = s.ToolStatus
OPEN = [STATUS.PENDING, STATUS.AWAITING_APPROVAL, STATUS.RUNNING]
BROKEN = [STATUS.FAILED, STATUS.DENIED, STATUS.CANCELLED, STATUS.UNKNOWN]


def ended_calls(**own: Strategy) -> Strategy:
    """The calls that have their result."""
    went_well = made(s.ToolExecution, status=st.just(STATUS.SUCCESS), result=good, **own)
    return went_well | made(s.ToolExecution, status=st.sampled_from(BROKEN), result=bad, **own)


executions = ended_calls() | made(s.ToolExecution, status=st.sampled_from(OPEN), result=st.none())
steps = made(s.Step, message=st.none() | replies, executions=some(executions, 1))
runs = made(s.Run, verbose=st.integers(0, 3), rehearsals=st.just(()), steps=some(steps, 1))
ended = st.sampled_from([s.RunStatus.DONE, s.RunStatus.ERROR, s.RunStatus.CANCELLED])

own: dict[type[s.Model], Strategy] = {
    s.ImageContent: images,
    s.OpaqueContent: opaque_blocks,
    s.OpaqueData: opaque(s.OpaqueData),
    s.Message: messages,
    s.LLMResponse: made(s.LLMResponse, message=st.none() | replies),
    s.ToolResult: results,
    s.ToolExecution: executions,
    s.Step: steps,
    s.Run: runs,
    s.Session: made(s.Session, id=st.uuids(), started_at=past),
    s.MessageFinished: made(s.MessageFinished, message=st.none() | replies),
    s.RunFinished: made(s.RunFinished, status=ended),
}
"""The classes with rules that their types do not tell."""

records: dict[type[s.Model], Strategy] = {
    cls: own[cls] if cls in own else made(cls)
    for cls in vars(s).values()
    if isinstance(cls, type) and issubclass(cls, s.Model) and cls is not s.Model
}
events = {cls: records[cls] for cls in get_args(get_args(s.Event)[0])}
nodes = records[s.Node]
