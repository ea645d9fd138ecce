"""The event log: a JSON Lines file with one object for each event of a run."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

from ipyagent import schema as s
from ipyagent.json_types import JsonDict

Record = JsonDict


def record(event: s.Event) -> Record:
    """Return the event's fields: texts and calls, but no images."""
    match event:
        case s.RunStarted(run=run):
            names = ("prompt", "model", "agent", "parent_id", "confirm_mode", "max_steps")
            tools = event.tools and [tool.name for tool in event.tools]
            return {**{name: getattr(run, name) for name in names}, "tools": tools}
        case s.PlanProposed(run=run):
            calls = ({"tool": p.call.name, "arguments": p.call.arguments} for p in run.plan)
            return {"plan_id": run.plan_id, "prompt": run.prompt, "plan": [*calls]}
        case s.MessageFinished(message=message):
            return {
                "step": event.step,
                "text": message and message.text,
                "calls": [call.id for call in message.tool_calls] if message else [],
                "finish_reason": event.finish_reason,
                "usage": event.usage.to_dict(),
                "cost_usd": event.cost_usd,
            }
        case s.ToolStarted(execution=execution):
            shown = {"arguments": execution.call.arguments, "sensitive": execution.sensitive}
            return _call(event.step, execution) | shown
        case s.ToolFinished(execution=execution):
            result, duration = execution.result, execution.duration
            return {
                **_call(event.step, execution),
                "status": execution.status,
                "output": result and result.output,
                "error": result and result.error,
                "duration_ms": None if duration is None else milliseconds(duration),
            }
        case s.Compacted():
            return {"step": event.step, "summary": event.summary.text}
    # Not the id of an approval: whoever has it can give the approval.
    fields = event.model_dump(mode="json", exclude={"type", "approval_id"})
    if isinstance(event, s.RunFinished):
        fields["duration_ms"] = milliseconds(fields.pop("duration"))
    return fields


def milliseconds(seconds: float) -> float:
    """Return seconds in milliseconds, to the microsecond."""
    return round(seconds * 1000, 3)


def _call(step: int, execution: s.ToolExecution) -> Record:
    return {"step": step, "call_id": execution.call.id, "tool": execution.call.name}


log = logging.getLogger("ipyagent")

Mask = Callable[[Record], Record]

# Some readers take these for ends of lines too.
_LINE_ENDS = {ord(end): f"\\u{ord(end):04x}" for end in "\x85\u2028\u2029"}


class EventLog:
    """A listener that appends the events of runs to the file at `path`.

    `mask` removes secrets from a record. Pieces of a reply or of an output are not
    written, only the whole; `request.start` and `request.end` stand around each request to the
    model. A file that cannot be written costs one warning, and the rest of the run is not logged.
    """

    def __init__(self, path: Path, *, mask: Mask) -> None:
        self._path = path
        self._mask = mask
        self._header: Record = {}
        self._request: tuple[int, float] | None = None
        self._asks = True
        """True if steps begin with a request to the model: not in plans."""
        self._lost = False

    def __call__(self, event: s.Event, state: s.RunState) -> None:
        """Write the lines of one event."""
        match event:
            case s.MessageDelta() | s.ToolOutput():
                return
            case s.RunStarted(run=run) | s.PlanProposed(run=run):
                ids = {"run_id": run.id, "session_id": run.session_id}
                self._header = {"trace_id": run.trace_id, **ids}
                self._request, self._lost = None, False
                self._asks = not run.plan
            case s.MessageFinished(finish_reason=reason):
                self._end_request("finish_reason", reason)
            case s.RetryScheduled(reason=reason):
                self._end_request("error", reason)
            case s.RunFinished():
                self._end_request("error", event.error or event.stop_reason)
        self._write(event.type, record(event))
        if isinstance(event, s.StepStarted | s.MessageStarted) and self._asks and not self._request:
            self._request = event.step, time.monotonic()
            self._write("request.start", {"step": event.step})

    def _end_request(self, name: str, value: str | None) -> None:
        if self._request is not None:
            step, since = self._request
            self._request = None
            duration = milliseconds(time.monotonic() - since)
            self._write("request.end", {"step": step, name: value, "duration_ms": duration})

    def _write(self, event: str, fields: Record) -> None:
        if self._lost:
            return
        line = {"time": s.now().isoformat(), **self._header, "event": event, **self._mask(fields)}
        present = {name: value for name, value in line.items() if value is not None}
        text = json.dumps(present, ensure_ascii=False).translate(_LINE_ENDS)
        try:
            _append(self._path, text.encode() + b"\n")
        except OSError as error:
            self._lost = True
            log.warning("the event log %s cannot be written: %s", self._path, error)


def _append(path: Path, line: bytes) -> None:
    """Append in one write, so that lines of several kernels do not mix.

    Links are not followed and pipes not waited for: the folder may be somebody else's.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    links = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | links, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        if os.write(fd, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(fd)
