"""Convert other formats of results, runs and sessions into ours, before they are validated."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ipyagent.compat.messages import block_text, require_list
from ipyagent.json_types import JsonDict

SILENT = "The tool failed and did not say why."


def convert_result(data: Any) -> object:
    """Convert a result whose content is a list of blocks; a failure must have a message."""
    match data:
        case {"success": False} if not any(map(data.get, ("error", "output", "content"))):
            raise ValueError("a failed result needs an error or an output")
        case {"content": list() | tuple() as content, **rest}:
            text, images = _split_blocks(content)
            return rest | {"output": text, "images": images}
    return data


def _split_blocks(content: Iterable[object]) -> tuple[str, tuple[object, ...]]:
    """Return the joined text of a list of blocks, and its other blocks."""
    texts = [(block_text(block), block) for block in content]
    joined = "\n".join(text for text, _ in texts if text is not None)
    return joined, tuple(block for text, block in texts if text is None)


def convert_execution(data: JsonDict) -> object:
    """Convert a flat record of a call, whose result is not an object of its own."""
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
        data.setdefault(
            "decision", "approved" if _require_bool(confirmed, "was_confirmed") else "auto"
        )
    data["result"] = result = _take_result(data)
    if "status" not in data and result is not None:
        data["status"] = "success" if _is_success(result) else "failed"
    return data


def _take_result(data: JsonDict) -> object:
    """Remove the result from a flat record and return it."""
    result, error = data.pop("result", None), data.pop("error_message", None)
    is_error = _require_bool(data.pop("is_error", False), "is_error")
    status = data.get("status")
    if status == "failed" and not error and not is_error and not _is_result(result):
        raise ValueError("error_message is required when the status is failed")
    if _is_result(result) or (result is None and not error and not is_error):
        return result
    text, images = _split_blocks(
        [result] if isinstance(result, str) else require_list(result, "result")
    )
    success = not (is_error or error or status in ("denied", "cancelled"))
    if not success:
        error = error or text or SILENT
    return {"success": success, "output": text, "error": error, "images": images}


def _is_result(value: object) -> bool:
    if isinstance(value, Mapping):
        return "success" in value
    return hasattr(value, "success")


def _is_success(result: Any) -> bool:
    success = result.get("success") if isinstance(result, Mapping) else result.success
    return success is not False


def _require_bool(value: object, key: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{key} must be true or false, not {value!r}")
    return value


def convert_step(data: JsonDict) -> object:
    """Convert a step with flat executions: each answers a call of the reply, in order."""
    if "tool_calls_made" not in data:
        return data
    records = require_list(data.pop("tool_calls_made"), "tool_calls_made")
    open_calls = list(getattr(data.get("message"), "tool_calls", ()))
    data["executions"] = [
        _match_call(open_calls, each, n) for n, each in enumerate(records, start=1)
    ]
    return data


def _match_call(open_calls: list[Any], record: object, number: int) -> object:
    """Return the execution with the id of the first open call of its tool."""
    if not isinstance(record, Mapping) or "call" in record or record.get("tool_use_id"):
        return record
    call = next((call for call in open_calls if call.name == record.get("tool_name")), None)
    if call is not None:
        open_calls.remove(call)
    return {**record, "tool_use_id": call.id if call else f"call_{number}"}


_OUTCOMES = {
    "success": {"status": "done", "stop_reason": "finished"},
    "partial": {"status": "done"},
    "failed": {"status": "error", "stop_reason": "error"},
}


def convert_run(data: JsonDict) -> JsonDict:
    """Convert a run whose status is an outcome, whose plan is JSON, or whose prompt is a message.

    `messages` belong to the conversation: only the newest prompt is taken from them.
    """
    status = data.get("status")
    if isinstance(status, str) and status in _OUTCOMES:
        data = _OUTCOMES[status] | data | {"status": _OUTCOMES[status]["status"]}
    if "plan_json" in data:
        plan = _parse_plan(data.pop("plan_json"))
        data = plan | data
    prompts = [_user_prompt(each) for each in require_list(data.pop("messages", None), "messages")]
    if any(prompts) and not {"prompt", "goal"} & data.keys():
        data["prompt"] = [prompt for prompt in prompts if prompt][-1]
    return data


def _user_prompt(message: object) -> str | None:
    match message:
        case {"role": "user", "content": str(prompt)}:
            return prompt
    return None


def _parse_plan(plan: object) -> JsonDict:
    """Return a plan's steps, from JSON text, from a list, or from an object that holds the list."""
    if isinstance(plan, str):
        try:
            plan = json.loads(plan)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"plan_json is not JSON: {error}") from None
    fields = dict(plan) if isinstance(plan, Mapping) else {"steps": plan}
    steps = require_list(fields.pop("steps", None), "the steps of a plan")
    fields["plan"] = [_number_step(each, n) for n, each in enumerate(steps, start=1)]
    return fields


def _number_step(each: object, number: int) -> object:
    if isinstance(each, Mapping) and "mcp_id" in each:
        return {"id": f"step_{number}", **each}
    return each


def convert_plan_step(data: JsonDict) -> object:
    """Convert a request to a service to a call of `api_SERVICE`."""
    if "mcp_id" not in data:
        return data
    parts = {key: data.pop(key, None) for key in ("method", "path", "query", "body")}
    arguments = {key: part for key, part in parts.items() if part is not None}
    name, call_id = f"api_{data.pop('mcp_id')}", data.pop("id", "step_1")
    return data | {"call": {"id": call_id, "name": name, "arguments": arguments}}


def convert_session(data: JsonDict) -> object:
    """Convert a session whose history is an object and whose agent is a configuration."""
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
