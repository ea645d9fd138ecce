"""Other names and forms of what ipyagent has: other libraries' names, converters, nano-agent.

    from ipyagent.compat import ChatSession, ToolUseContent   # schema.Session, schema.ToolCall

Names are resolved at first use, since `schema` imports the converters. These take OpenAI's chat
format, Anthropic's, and plain text as content: each function takes the data that a class was given
and returns data for the validation of its fields. It leaves unknown data as it is, so that
validation reports it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from ipyagent.json_types import JsonDict, parse_arguments

_HOMES = {
    "AgentState": "schema.Run",
    "ChatSession": "schema.Session",
    "MCP": "config.MCPServerConfig",
    "MCPEndpoint": "schema.Endpoint",
    "MessageRole": "schema.Role",
    "NoTTYError": "errors.NoFrontendError",
    "PlanRun": "schema.Run",
    "Response": "schema.LLMResponse",
    "StepResult": "schema.Step",
    "TaskStatus": "schema.TodoStatus",
    "TodoItem": "schema.Todo",
    "ToolCallResult": "schema.ToolExecution",
    "ToolUseContent": "schema.ToolCall",
    "Usage": "schema.TokenUsage",
    "ValidationError": "errors.PathValidationError",
}
"""Names in other libraries, with the class here."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ipyagent.compat' has no attribute {name!r}")
    module, ours = _HOMES[name].split(".")
    return getattr(import_module(f"ipyagent.{module}"), ours)


def __dir__() -> list[str]:
    return [*_HOMES]


_DATA_URL = re.compile(r"data:(image/[\w.+-]+);base64,(.*)", re.DOTALL)
ARGUMENTS = ("arguments", "input", "args", "parameters")
"""Names under which formats and servers keep the arguments of a call."""
_BESIDE_CONTENT = {"tool_calls", "tool_call_id", "name", "thinking", "thinking_blocks"}


def require_list(value: object, name: str) -> list[object]:
    """Return the value as a list, None as an empty one; raises ValueError for anything else."""
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{name} must be a list, not a {type(value).__name__}")
    return list(value)


def convert_blocks(value: object) -> object:
    """Return content as blocks: a text becomes one block, and so does each text in a list."""
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return ({"type": "text", "text": value},)
    if isinstance(value, (list, tuple)):
        return [{"type": "text", "text": b} if isinstance(b, str) else b for b in value]
    return value


def holds_image(block: Mapping[str, object]) -> bool:
    """Return whether the block carries its image, rather than an address of it."""
    match block:
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            return _DATA_URL.fullmatch(url) is not None
        case {"type": "image", "source": source}:
            return isinstance(source, Mapping) and source.get("type") == "base64"
    return block.get("type") == "image"


def convert_image(data: object) -> object:
    """Convert Anthropic's image source and OpenAI's data URL."""
    match data:
        case {"source": {"type": "base64", "media_type": media_type, "data": base64}, **rest}:
            return rest | {"media_type": media_type, "data": base64}
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url), **rest}:
            if parts := _DATA_URL.fullmatch(url):
                return rest | {"type": "image", "media_type": parts[1], "data": parts[2]}
    return data


def convert_thinking(data: object) -> object:
    """Convert OpenAI's reasoning, and Anthropic's redacted thinking."""
    match data:
        case {"type": "reasoning", **rest}:
            return rest | {"type": "thinking"}
        case {"type": "redacted_thinking", "data": hidden, **rest}:
            return rest | {"type": "thinking", "encrypted_content": hidden}
    return data


def convert_call(data: JsonDict) -> object:
    """Convert OpenAI's nested calls, Anthropic's names, and arguments given as JSON text."""
    if data.get("type") in ("tool_use", "function"):
        data["type"] = "tool_call"
    if isinstance(data.get("function"), Mapping):
        data |= data.pop("function")
    for key in ARGUMENTS:
        if key in data and data[key] is None:
            del data[key]
        elif isinstance(data.get(key), str):
            data[key], problem = parse_arguments(data[key])
            data["parse_error"] = data.get("parse_error") or problem
    return data


def convert_message(data: JsonDict) -> object:
    """Convert a message whose content, thinking, calls and results are not yet blocks."""
    content, role = data.get("content"), data.get("role")
    if isinstance(content, str) and role == "user" and not data.get("synthetic"):
        content = content.strip()  # typed by the user
    content = convert_blocks(content)
    data = dict(data) | {"content": content}
    if not _BESIDE_CONTENT & data.keys() and role != "tool":
        return data
    thinking = _take_thinking(data)
    calls = require_list(data.pop("tool_calls", None), "tool_calls")
    if role == "tool":
        data.pop("name", None)
        result = {"tool_use_id": data.pop("tool_call_id", None), "content": content}
        data["role"], content = "user", [{"type": "tool_result", **result}]
    for key in ("tool_call_id", "name"):
        if data.get(key) is None:
            data.pop(key, None)
    converted = (_convert_separate_call(each, f"call_{n}") for n, each in enumerate(calls, start=1))
    data["content"] = [*thinking, *require_list(content, "content"), *converted]
    return data


def _take_thinking(data: JsonDict) -> list[object]:
    """Remove thinking given beside the content, and return it as blocks."""
    blocks = require_list(data.pop("thinking_blocks", None), "thinking_blocks")
    if thought := data.pop("thinking", None):
        blocks.append({"type": "thinking", "thinking": thought})
    return blocks


def _convert_separate_call(each: object, default_id: str) -> object:
    """Convert a call given beside the content; only the call of an execution is used."""
    if not isinstance(each, Mapping):
        return getattr(each, "call", each)
    if isinstance(each.get("call"), Mapping):
        return {"type": "tool_call", **each["call"]}
    if "tool_name" not in each:
        return {"type": "tool_call", "id": default_id, **each}
    return {
        "type": "tool_call",
        "id": each.get("tool_use_id") or each.get("id") or default_id,
        "name": each["tool_name"],
        "arguments": each.get("parameters", each.get("args")),
    }


def convert_response(data: JsonDict) -> object:
    """Convert a reply of OpenAI or Anthropic whose parts are not yet a message."""
    if data.get("usage", ...) is None:
        del data["usage"]
    if "message" in data:
        return data
    if data.get("type") == "message":
        del data["type"]
    if (role := data.pop("role", "assistant")) != "assistant":
        raise ValueError(f"a reply must have the role assistant, not {role}")
    parts = ("content", "thinking", "thinking_blocks", "tool_calls")
    reply_parts = {key: data.pop(key) for key in parts if key in data}
    if any(map(_has_content, reply_parts.values())):
        data["message"] = {"role": role, **reply_parts}
    return data


def _has_content(part: object) -> bool:
    if isinstance(part, str):
        return bool(part.strip())
    if not isinstance(part, (list, tuple)):
        return part is not None
    return any(text is None or text.strip() for text in map(block_text, part))


def block_text(block: object) -> str | None:
    """Return the text of a block of text in any shape; None for other blocks."""
    match block:
        case str():
            return block
        case {"type": "text", "text": str(text)}:
            return text
    return getattr(block, "text", None) if getattr(block, "type", None) == "text" else None


def convert_definition(data: object) -> object:
    """Convert OpenAI's definition of a tool."""
    match data:
        case {"type": "function", "function": {**function}, **rest}:
            return rest | function
        case {"type": "function", **rest}:
            return rest
    return data


_OURS = {"prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_creation_tokens"}
_DETAILS = (
    "prompt_tokens_details",
    "input_tokens_details",
    "completion_tokens_details",
    "output_tokens_details",
    "reasoning_tokens",  # part of the output tokens
)


def convert_usage(data: JsonDict) -> object:
    """Convert OpenAI's, Anthropic's and LiteLLM's counts; a total must be the sum of its parts.

    Anthropic's `input_tokens` exclude cached tokens; all others' prompt tokens include them.
    """
    if data.keys() <= _OURS:
        return data
    details = [data.pop(key, None) for key in _DETAILS]
    cached = (
        _take_count(data, "cached_tokens")
        or _cached_tokens(details[0])
        or _cached_tokens(details[1])
    )
    read = _take_count(data, "cache_read_input_tokens")
    created = _take_count(data, "cache_creation_input_tokens")
    anthropic = not _OURS & data.keys()
    if anthropic:
        uncounted = 0 if cached else read + created
        data["prompt_tokens"] = _take_count(data, "input_tokens") + uncounted
        data["completion_tokens"] = _take_count(data, "output_tokens")
    if read or cached:
        data.setdefault("cache_read_tokens", read or cached)
    if created:
        data.setdefault("cache_creation_tokens", created)
    if problem := _take_total(data, check_zero=not anthropic):
        raise ValueError(problem)
    return data


def _take_count(data: JsonDict, key: str) -> int:
    """Remove a count from the data and return it; None counts as 0."""
    return _check_count(data.pop(key, None), key)


def _cached_tokens(details: object) -> int:
    if isinstance(details, Mapping):
        return _check_count(details.get("cached_tokens"), "cached_tokens")
    return 0


def _check_count(value: object, key: str) -> int:
    if value is None:
        return 0
    if type(value) is not int or value < 0:
        raise ValueError(f"{key} must be a whole number and not negative, not {value!r}")
    return value


def _take_total(data: JsonDict, *, check_zero: bool) -> str | None:
    """Remove the total from the data; return an error message if it is wrong."""
    if data.get("total_tokens") is None:
        data.pop("total_tokens", None)
        return None
    total = _take_count(data, "total_tokens")
    prompt, completion = data.get("prompt_tokens", 0), data.get("completion_tokens", 0)
    if type(prompt) is not int or type(completion) is not int:
        return None  # the validation of the fields reports it
    if total == prompt + completion or not (total or check_zero):
        return None
    return (
        f"total_tokens ({total}) must equal prompt_tokens ({prompt}) + "
        f"completion_tokens ({completion}) = {prompt + completion}"
    )


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
