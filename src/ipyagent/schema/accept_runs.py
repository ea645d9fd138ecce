"""Other formats of what happened, turned into ours before it is checked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ipyagent.json_types import JsonDict
from ipyagent.schema import accept

SILENT = "The tool failed and did not say why."


def result(data: Any) -> Any:
    """A result whose content is a list of blocks; a failure must say something."""
    match data:
        case {"success": False} if not any(map(data.get, ("error", "output", "content"))):
            raise ValueError("a failed result needs an error or an output")
        case {"content": list() | tuple() as content, **rest}:
            text, images = _parted(content)
            return rest | {"output": text, "images": images}
    return data


def _parted(content: Iterable[object]) -> tuple[str, tuple[Any, ...]]:
    """The text in a list of blocks, joined, and the blocks that are no text."""
    texts = [(accept.text_of(block), block) for block in content]
    joined = "\n".join(text for text, _ in texts if text is not None)
    return joined, tuple(block for text, block in texts if text is None)


def execution(data: object) -> Any:
    """A record of one call with the call's fields beside what came of it."""
    if not isinstance(data, Mapping):
        return data
    data = dict(data)
    if data.get("type") == "tool_execution":
        del data["type"]
    if "call" in data:
        return data
    arguments = data.pop("parameters", data.pop("args", None))
    data["call"] = {
        "id": data.pop("tool_use_id", None) or "call_1",
        "name": data.pop("tool_name", None),
        "arguments": arguments,
    }
    if (confirmed := data.pop("was_confirmed", None)) is not None:
        data.setdefault("decision", "approved" if _flag(confirmed, "was_confirmed") else "auto")
    data["result"] = came = _came_of(data)
    if "status" not in data and came is not None:
        data["status"] = "success" if _succeeded(came) else "failed"
    return data


def _came_of(data: JsonDict) -> Any:
    """The result of a flat record, whose parts are taken out of it."""
    came, error = data.pop("result", None), data.pop("error_message", None)
    is_error = _flag(data.pop("is_error", False), "is_error")
    status = data.get("status")
    if status == "failed" and not error and not is_error and not _is_result(came):
        raise ValueError("error_message is required when the status is failed")
    if _is_result(came) or (came is None and not error and not is_error):
        return came
    text, images = _parted([came] if isinstance(came, str) else accept.listed(came, "result"))
    success = not (is_error or error or status in ("denied", "cancelled"))
    if not success:
        error = error or text or SILENT
    return {"success": success, "output": text, "error": error, "images": images}


def _is_result(came: object) -> bool:
    if isinstance(came, Mapping):
        return "success" in came
    return hasattr(came, "success")


def _succeeded(came: Any) -> bool:
    success = came.get("success") if isinstance(came, Mapping) else came.success
    return success is not False


def _flag(value: object, key: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{key} must be true or false, not {value!r}")
    return value


def step(data: object) -> Any:
    """A step whose executions are flat: each answers a call of the reply, in order."""
    if not isinstance(data, Mapping) or "tool_calls_made" not in data:
        return data
    data = dict(data)
    made = accept.listed(data.pop("tool_calls_made"), "tool_calls_made")
    open_calls = list(getattr(data.get("message"), "tool_calls", ()))
    data["executions"] = [_answering(open_calls, each, n) for n, each in enumerate(made, start=1)]
    return data


def _answering(open_calls: list[Any], made: object, number: int) -> Any:
    """The execution with the id of the first open call of its tool."""
    if not isinstance(made, Mapping) or "call" in made or made.get("tool_use_id"):
        return made
    call = next((call for call in open_calls if call.name == made.get("tool_name")), None)
    if call is not None:
        open_calls.remove(call)
    return {**made, "tool_use_id": call.id if call else f"call_{number}"}


_OUTCOMES = {
    "success": {"status": "done", "stop_reason": "finished"},
    "partial": {"status": "done"},
    "failed": {"status": "error", "stop_reason": "error"},
}


def run(data: object) -> Any:
    """A run whose status is an outcome, whose plan is JSON text or whose answer stands apart.

    `messages` belong to the conversation: only the newest prompt is taken from them.
    """
    if not isinstance(data, Mapping):
        return data
    data = dict(data)
    status = data.get("status")
    if isinstance(status, str) and status in _OUTCOMES:
        data = _OUTCOMES[status] | data | {"status": _OUTCOMES[status]["status"]}
    if "plan_json" in data:
        plan = _plan(data.pop("plan_json"))
        data = plan | data
    asked = [_prompt(each) for each in accept.listed(data.pop("messages", None), "messages")]
    if any(asked) and not {"prompt", "goal"} & data.keys():
        data["prompt"] = [prompt for prompt in asked if prompt][-1]
    return data


def _prompt(message: object) -> str | None:
    match message:
        case {"role": "user", "content": str(prompt)}:
            return prompt
    return None


def _plan(plan: object) -> JsonDict:
    """A plan's steps, from JSON text, from a list, or from an object that holds the list."""
    if isinstance(plan, str):
        try:
            plan = json.loads(plan)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"plan_json is not JSON: {error}") from None
    fields = dict(plan) if isinstance(plan, Mapping) else {"steps": plan}
    steps = accept.listed(fields.pop("steps", None), "the steps of a plan")
    fields["plan"] = [_numbered(each, n) for n, each in enumerate(steps, start=1)]
    return fields


def _numbered(each: object, number: int) -> Any:
    if isinstance(each, Mapping) and "mcp_id" in each:
        return {"id": f"step_{number}", **each}
    return each


def plan_step(data: object) -> Any:
    """A request to a service, as a call of `api_SERVICE` with method, path, query and body."""
    if not isinstance(data, Mapping) or "mcp_id" not in data:
        return data
    data = dict(data)
    parts = {key: data.pop(key, None) for key in ("method", "path", "query", "body")}
    arguments = {key: part for key, part in parts.items() if part is not None}
    name, call_id = f"api_{data.pop('mcp_id')}", data.pop("id", "step_1")
    return data | {"call": {"id": call_id, "name": name, "arguments": arguments}}


def session(data: object) -> Any:
    """A session with its history as an object and its agent's configuration, of which the name."""
    if not isinstance(data, Mapping):
        return data
    data = dict(data)
    if isinstance(data.get("history"), Mapping):
        data["history"] = data["history"].get("messages", ())
    if (agent := data.pop("agent_config", None)) is not None:
        name = agent.get("name") if isinstance(agent, Mapping) else agent
        if not isinstance(name, str):
            raise ValueError("agent_config must be the name of a profile, or have a name")
        metadata = data.get("metadata", {})
        data["metadata"] = (
            {"agent": name, **metadata} if isinstance(metadata, Mapping) else metadata
        )
    return data
