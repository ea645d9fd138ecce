"""Convert a tool's value or error into a `ToolResult` that a model can read.

Long outputs are cut: beginning and end for the model, the full text in a file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable, Collection

import pydantic_core
from pydantic import BaseModel

from ipyagent import errors, schema
from ipyagent.digests import digest_bytes
from ipyagent.plaintext import strip_escapes
from ipyagent.tools.path_rules import STATE
from ipyagent.tools.workspace import MAX_BYTES, Workspace
from ipyagent.values.describe import describe

_BETWEEN = "\n…\n\n"  # the line breaks around the cut, and before the footer
_BREAKS = "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # what str.splitlines splits at


class OutputStore:
    """Full texts of long outputs, in `.ipyagent/outputs/`, where read_file can read them."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def save(self, text: str) -> str:
        """Write a text and return its path in the workspace; equal texts share one file.

        Raises AgentError if the workspace cannot be written.
        """
        data = text.encode("utf-8", "backslashreplace")
        if len(data) > MAX_BYTES:
            # A character that is cut in two would make the file unreadable.
            data = data[:MAX_BYTES].decode("utf-8", "ignore").encode()
        name = f"outputs/{digest_bytes(data)[:12]}.txt"
        state = self._workspace.state_folder()
        if state.stat(name) is None:
            state.write_atomic(name, data)
        return f"{STATE}/{name}"


def truncate(
    text: str,
    *,
    tool: str,
    save: Callable[[str], str] | None,
    limits: schema.TruncationConfig = schema.STANDARD,
) -> tuple[str, schema.TruncatedOutput | None]:
    """Return the text if it fits, else beginning, end and a footer within the limits.

    `save` saves the full text and returns its path; if it cannot, the footer says so.
    """
    lines = text.splitlines(keepends=True)
    max_chars, max_lines = limits.max_chars, limits.max_lines
    if not limits.enabled or (len(text) <= max_chars and len(lines) <= max_lines):
        return text, None
    cut = schema.TruncatedOutput(
        tool_name=tool,
        original_chars=len(text),
        original_lines=len(lines),
        path=_save_full_text(text, save),
    )
    # All of it missing makes the longest footer, so the real one fits where that does.
    brief = len(_format_footer(cut, len(text))) > max_chars // 2
    footer = _format_footer(cut, len(text), brief=brief)
    room = max(0, max_chars - len(footer) - len(_BETWEEN))
    rows = max(0, max_lines - 2)
    head = "".join(lines[: rows - rows // 2])[: room - room // 2].rstrip(_BREAKS)
    tail = "".join(lines[max(0, len(lines) - rows // 2) :])
    tail = tail[max(0, len(tail) - room // 2) :].rstrip(_BREAKS)
    footer = _format_footer(cut, len(text) - len(head) - len(tail), brief=brief)
    parts = (head, "…", tail, footer) if max_lines > 1 else (footer,)
    return "\n".join(part for part in parts if part)[-max_chars:], cut


def _save_full_text(text: str, save: Callable[[str], str] | None) -> str | None:
    try:
        return save(text) if save else None
    except (errors.AgentError, OSError):
        return None


def _format_footer(cut: schema.TruncatedOutput, missing: int, *, brief: bool = False) -> str:
    where = f"read_file {cut.path} has all" if cut.path else "the full text could not be saved"
    if brief:
        return f"[cut; {where}]"
    return (
        f"[{missing:,} of {cut.original_chars:,} characters ({cut.original_lines:,} lines) "
        f"are left out at the …; {where}]"
    )


OWN_ERRORS = (
    errors.InvalidArgumentsError,
    errors.PathTraversalError,
    errors.PathValidationError,
    errors.PageError,
    errors.ConfigError,
)
"""Errors that our own code raises before anything is read, so without foreign text."""

LOCALE_ADVICE = (
    "This kernel's locale cannot write such names of files; start it with PYTHONUTF8=1 or "
    "LC_ALL=C.UTF-8 in its environment"
)

_ERRORS = schema.TruncationConfig(max_chars=2_000)
_BLOCKS = (schema.TextContent, schema.ImageContent)


def as_result(value: object) -> schema.ToolResult:
    """Return a tool's return value as a result; objects are described, and kept in `value`."""
    match value:
        case schema.ToolResult():
            return value
        case None:
            return schema.ToolResult(output="Done.")
        case str():
            return schema.ToolResult(output=value, value=value)
        case bool() | int() | float():
            return schema.ToolResult(output=str(value), value=value)
        case schema.TextContent() | schema.ImageContent():
            return _result_of_blocks([value])
        case list() | tuple() if value and all(isinstance(each, _BLOCKS) for each in value):
            return _result_of_blocks(value)
    if (converted := _convert_own_result(value)) is not None:
        return converted
    output = _dump_records(value) or describe("result", value, detail=True)
    return schema.ToolResult(output=output, value=value)


def error_result(error: BaseException) -> schema.ToolResult:
    """Return an exception as a result; our own errors are already written for the reader."""
    text = ""
    with contextlib.suppress(BaseException):  # the text of a stranger's error is code, too
        text = strip_escapes(str(error))
    if not text or not isinstance(error, errors.AgentError):
        text = errors.name_and_text(error, text)
    if isinstance(error, UnicodeEncodeError) and error.encoding == sys.getfilesystemencoding():
        text += f". {LOCALE_ADVICE}"
    advice = error.advice if isinstance(error, errors.AgentError) else ""
    result = schema.ToolResult.failure(text, advice)
    return result.model_copy(update={"source": ""}) if isinstance(error, OWN_ERRORS) else result


def truncate_result(
    result: schema.ToolResult,
    *,
    tool: str,
    save: Callable[[str], str] | None,
    limits: schema.TruncationConfig = schema.STANDARD,
) -> schema.ToolResult:
    """Return the result cut to a size that a model should read at once; `full_output` stays whole.

    `save` saves a text that is cut and returns its path.
    """
    output, cut = truncate(result.output, tool=tool, save=save, limits=limits)
    error = result.error and truncate(result.error, tool=tool, save=None, limits=_ERRORS)[0]
    changes = {"output": output, "error": error, "truncated": cut}
    if result.for_model is not None:
        changes["for_model"] = truncate(result.for_model, tool=tool, save=save, limits=limits)[0]
    return result.model_copy(update=changes)


def _result_of_blocks(blocks: Collection[object]) -> schema.ToolResult:
    return schema.ToolResult(
        output="\n".join(block.text for block in blocks if isinstance(block, schema.TextContent)),
        images=tuple(block for block in blocks if isinstance(block, schema.ImageContent)),
    )


def _dump_records(value: object) -> str | None:
    """Return records in full: a description would name only their first items."""
    if not isinstance(value, dict | list | tuple | BaseModel) and not _is_record(value):
        return None
    try:
        return pydantic_core.to_json(value, inf_nan_mode="constants").decode()
    except (ValueError, TypeError, RecursionError):  # holds what JSON cannot say
        return None


def _convert_own_result(value: object) -> schema.ToolResult | None:
    """Return the result in a tool's own result class: `success`, `content` and `error`."""
    if not (isinstance(value, BaseModel) or _is_record(value)):
        return None
    match value:
        case object(success=bool(success), content=str(output), error=str() | None as error):
            return schema.ToolResult(
                success=success,
                output=output,
                value=value,
                error=None if success else error or output or "failed",
            )
    return None


def _is_record(value: object) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)
