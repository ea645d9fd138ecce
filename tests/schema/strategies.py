"""Strategies for the classes of the schema, for property tests."""

from __future__ import annotations

import string
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

from ipyagent import schema as s

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


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


def some(strategy: st.SearchStrategy[Any], most: int = 2) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(strategy, max_size=most).map(tuple)


text_blocks = st.builds(s.TextContent, text=texts)
base64 = st.text(string.ascii_letters, min_size=4, max_size=8)
images = st.builds(
    s.ImageContent,
    media_type=st.sampled_from(["image/png", "image/svg+xml"]),
    data=base64,
    width=maybe(counts),
    height=maybe(counts),
)
thinking = st.builds(
    s.ThinkingContent,
    thinking=texts,
    signature=names,
    id=names,
    encrypted_content=names,
    summary=some(json_objects),
)
calls = st.builds(
    s.ToolCall,
    id=names,
    name=names,
    arguments=json_objects,
    parse_error=maybe(texts),
    item_id=maybe(names),
    thought_signature=maybe(names),
)
extras = st.dictionaries(names.map(lambda name: f"x_{name}"), json_values, max_size=2)
opaque_blocks = st.builds(
    lambda kind, extra: s.OpaqueContent(type=f"new_{kind}", **extra), names, extras
)
tool_results = st.builds(
    s.ToolResultContent,
    tool_use_id=names,
    content=some(text_blocks | images | opaque_blocks),
    is_error=flags,
)
usages = st.builds(
    s.TokenUsage,
    prompt_tokens=counts,
    completion_tokens=counts,
    cache_read_tokens=counts,
    cache_creation_tokens=counts,
)
said = st.builds(s.TextContent, text=texts.map(lambda text: f"{text}."))
messages = st.one_of(
    st.builds(
        s.Message,
        role=st.just(s.Role.ASSISTANT),
        content=st.tuples(said | calls | opaque_blocks, thinking | said | calls),
        timestamp=moments,
        usage=maybe(usages),
    ),
    st.builds(
        s.Message,
        role=st.just(s.Role.USER),
        content=st.tuples(said | images | tool_results | opaque_blocks),
        synthetic=flags,
        timestamp=moments,
    ),
    st.builds(s.Message, role=st.just(s.Role.SYSTEM), content=st.tuples(said)),
)
replies = st.builds(
    s.Message,
    role=st.just(s.Role.ASSISTANT),
    content=st.tuples(said, calls),
    timestamp=moments,
)
responses = st.builds(
    s.LLMResponse,
    message=maybe(replies),
    finish_reason=maybe(texts),
    usage=usages,
    model=maybe(names),
    id=names,
    cost_usd=maybe(amounts),
)
chunks = st.builds(
    s.StreamChunk,
    type=st.sampled_from(["content", "thinking", "signature", "tool_call", "usage", "finish"]),
    data=names,
    index=counts,
    id=names,
    name=names,
    usage=maybe(usages),
    cost_usd=maybe(amounts),
)

definitions = st.builds(s.ToolDefinition, name=names, description=texts, input_schema=json_objects)
displays = st.builds(s.Display, data=st.dictionaries(texts, texts, max_size=2))
changes = st.builds(
    s.FileChange, path=names, before=maybe(names), after=maybe(names), mode=maybe(st.just(0o600))
)
touched = st.builds(
    s.VariableChange,
    name=texts,
    change=st.sampled_from(["created", "changed", "deleted"]),
    type=texts,
    summary=texts,
    kept=texts,
)
configs = st.builds(
    s.TruncationConfig,
    max_chars=st.integers(1, 10**6),
    max_lines=st.integers(1, 10**6),
    enabled=flags,
)
truncated = st.builds(
    s.TruncatedOutput,
    tool_name=names,
    path=maybe(names),
    original_chars=counts,
    original_lines=counts,
    created_at=moments,
)
good = st.builds(
    s.ToolResult,
    output=texts,
    images=some(images),
    displays=some(displays),
    files=some(changes),
    variables=some(touched),
    truncated=maybe(truncated),
)
bad = st.builds(s.ToolResult, success=st.just(False), output=texts, error=names.map("E{}".format))
results = good | bad
previews = st.builds(
    s.Preview,
    kind=st.sampled_from(["code", "diff", "arguments"]),
    text=texts,
    language=names,
)


questions = st.builds(s.Question, text=names, choices=some(texts))


changed = st.sampled_from(["created", "changed", "deleted"])
file_effects = st.builds(s.FileEffect, path=names, change=changed, diff=texts)
rehearsals = st.builds(
    s.Rehearsal,
    outcome=st.sampled_from(s.RehearsalOutcome),
    reason=texts,
    variables=some(touched),
    files=some(file_effects),
    texts=some(texts),
    result=maybe(results),
    duration=amounts,
)


def executions_of(
    statuses: list[s.ToolStatus], came: st.SearchStrategy[Any]
) -> st.SearchStrategy[s.ToolExecution]:
    return st.builds(
        s.ToolExecution,
        call=calls,
        proposed=maybe(json_objects),
        sensitive=flags,
        status=st.sampled_from(statuses),
        preview=maybe(previews),
        question=maybe(questions),
        concern=maybe(texts),
        scopes=some(st.sampled_from(s.Scope)),
        source=maybe(texts),
        decision=maybe(st.sampled_from(s.Decision)),
        decided_by=maybe(st.sampled_from(s.DecidedBy)),
        reason=maybe(texts),
        rehearsal=maybe(rehearsals),
        dry_run=flags,
        result=came,
        started_at=maybe(moments),
        duration=maybe(amounts),
    )


STATUS = s.ToolStatus
executions = st.one_of(
    executions_of([STATUS.PENDING, STATUS.AWAITING_APPROVAL, STATUS.RUNNING], st.none()),
    executions_of([STATUS.SUCCESS], good),
    executions_of([STATUS.FAILED, STATUS.DENIED, STATUS.CANCELLED, STATUS.UNKNOWN], bad),
)
user_texts = st.builds(s.UserText, id=names, text=texts)
steps = st.builds(
    s.Step,
    number=counts,
    closing=flags,
    message=maybe(replies),
    finish_reason=maybe(texts),
    usage=usages,
    cost_usd=maybe(amounts),
    thinking_seconds=maybe(amounts),
    executions=some(executions, 1),
    notes=some(texts),
    user_texts=some(user_texts),
)
plan_steps = st.builds(s.PlanStep, call=calls, note=texts)
runs = st.builds(
    s.Run,
    id=names,
    session_id=names,
    trace_id=names,
    parent_id=maybe(names),
    agent=maybe(names),
    prompt=texts,
    context=texts,
    model=names,
    confirm_mode=names,
    max_steps=counts,
    verbose=st.integers(0, 3),
    plan_id=maybe(names),
    plan=some(plan_steps),
    unsent=some(user_texts),
    current_step_path=maybe(names),
    last_event=maybe(names),
    status=st.sampled_from(s.RunStatus),
    stop_reason=maybe(st.sampled_from(s.StopReason)),
    error=maybe(texts),
    steps=some(steps, 1),
    notes=some(texts),
    started_at=moments,
    duration=maybe(amounts),
)
sessions = st.builds(
    s.Session,
    id=st.uuids(),
    name=names,
    state=st.sampled_from(s.SessionState),
    started_at=past,
    messages=some(messages),
    metadata=json_objects,
    origin=maybe(st.tuples(names, names)),
    pending_run_id=maybe(names),
    active_run_id=maybe(names),
    last_run_id=maybe(names),
    last_run_status=maybe(st.sampled_from(s.RunStatus)),
    last_run_at=maybe(moments),
)

prompts = st.builds(s.SystemPrompt, content=texts)
tool_sets = st.builds(s.ToolDefinitions, tools=some(definitions))
stops = st.builds(
    s.Stop,
    reason=maybe(st.sampled_from(s.StopReason)),
    finish_reason=maybe(texts),
    usage=usages,
)
opaque_data = st.builds(
    lambda kind, extra: s.OpaqueData(type=f"new_{kind}", **extra), names, extras
)
nodes = st.builds(
    s.Node,
    id=names,
    parent_ids=some(names),
    data=prompts | tool_sets | messages | executions | stops | opaque_data,
    timestamp=moments,
    metadata=json_objects,
)

todos = st.builds(s.Todo, content=names, status=st.sampled_from(s.TodoStatus), active_form=names)
notes = st.builds(s.Note, content=names, category=maybe(names), created_at=moments)
skills = st.builds(
    s.Skill,
    name=names,
    description=texts,
    content=names,
    license=maybe(names),
    allowed_tools=maybe(some(names)),
    metadata=json_objects,
    skill_path=maybe(names),
)
endpoints = st.builds(s.Endpoint, method=names, path=names)
edits = st.builds(
    s.PendingEdit,
    file_path=names,
    old_string=names,
    new_string=names,
    match_line=st.integers(1, 10**6),
    context_before=some(names),
    context_after=some(names),
    created_at=moments,
    replace_all=flags,
    match_count=st.integers(1, 10**6),
)
scripts = st.builds(
    s.PythonScript,
    file_id=names,
    file_path=names,
    content=names,
    created_at=moments,
    last_run_at=maybe(moments),
    run_count=counts,
)

events: dict[type[s.Model], st.SearchStrategy[Any]] = {
    s.RunStarted: st.builds(
        s.RunStarted, run=runs, system_prompt=maybe(texts), tools=maybe(some(definitions))
    ),
    s.PlanProposed: st.builds(s.PlanProposed, run=runs, approval_id=maybe(names)),
    s.PlanWaiting: st.just(s.PlanWaiting()),
    s.PlanRehearsed: st.builds(s.PlanRehearsed, rehearsals=some(maybe(rehearsals))),
    s.StepStarted: st.builds(
        s.StepStarted,
        step=counts,
        closing=flags,
        nudge=maybe(texts),
        user_texts=some(user_texts),
    ),
    s.Compacted: st.builds(
        s.Compacted, step=counts, summary=messages, before=some(names), after=some(names)
    ),
    s.RetryScheduled: st.builds(
        s.RetryScheduled, step=counts, attempt=counts, of=counts, delay=amounts, reason=texts
    ),
    s.MessageStarted: st.builds(s.MessageStarted, step=counts),
    s.MessageDelta: st.builds(
        s.MessageDelta, step=counts, kind=st.sampled_from(["text", "thinking"]), text=names
    ),
    s.MessageFinished: st.builds(
        s.MessageFinished,
        step=counts,
        message=maybe(replies),
        finish_reason=maybe(texts),
        usage=usages,
        cost_usd=maybe(amounts),
        thinking_seconds=maybe(amounts),
    ),
    s.ToolStarted: st.builds(s.ToolStarted, step=counts, execution=executions),
    s.ApprovalRequested: st.builds(
        s.ApprovalRequested, step=counts, call_id=names, approval_id=names
    ),
    s.ApprovalDecided: st.builds(
        s.ApprovalDecided,
        step=counts,
        call_id=names,
        decision=st.sampled_from(s.Decision),
        by=st.sampled_from(s.DecidedBy),
        reason=maybe(texts),
    ),
    s.ToolEdited: st.builds(s.ToolEdited, step=counts, execution=executions),
    s.ToolRehearsed: st.builds(s.ToolRehearsed, step=counts, call_id=names, rehearsal=rehearsals),
    s.ToolRunning: st.builds(s.ToolRunning, step=counts, call_id=names),
    s.ToolOutput: st.builds(s.ToolOutput, step=counts, call_id=names, text=texts),
    s.ToolFinished: st.builds(s.ToolFinished, step=counts, execution=executions),
    s.StepFinished: st.builds(s.StepFinished, step=counts),
    s.Notice: st.builds(s.Notice, text=texts),
    s.UserTextsChanged: st.builds(s.UserTextsChanged, texts=some(user_texts)),
    s.RunFinished: st.builds(
        s.RunFinished,
        status=st.sampled_from([s.RunStatus.DONE, s.RunStatus.ERROR, s.RunStatus.CANCELLED]),
        stop_reason=st.sampled_from(s.StopReason),
        error=maybe(texts),
        duration=amounts,
    ),
}

records: dict[type[s.Model], st.SearchStrategy[Any]] = {
    s.TextContent: text_blocks,
    s.ImageContent: images,
    s.ThinkingContent: thinking,
    s.ToolCall: calls,
    s.OpaqueContent: opaque_blocks,
    s.ToolResultContent: tool_results,
    s.TokenUsage: usages,
    s.Message: messages,
    s.LLMResponse: responses,
    s.StreamChunk: chunks,
    s.ToolDefinition: definitions,
    s.Display: displays,
    s.FileChange: changes,
    s.VariableChange: touched,
    s.TruncationConfig: configs,
    s.TruncatedOutput: truncated,
    s.ToolResult: results,
    s.Preview: previews,
    s.Question: questions,
    s.FileEffect: file_effects,
    s.Rehearsal: rehearsals,
    s.ToolExecution: executions,
    s.Step: steps,
    s.PlanStep: plan_steps,
    s.UserText: user_texts,
    s.Run: runs,
    s.Session: sessions,
    s.SystemPrompt: prompts,
    s.ToolDefinitions: tool_sets,
    s.Stop: stops,
    s.OpaqueData: opaque_data,
    s.Node: nodes,
    s.Todo: todos,
    s.Note: notes,
    s.Skill: skills,
    s.Endpoint: endpoints,
    s.PendingEdit: edits,
    s.PythonScript: scripts,
    **events,
}
