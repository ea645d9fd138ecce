"""Tools from elsewhere: MCP servers, OpenAPI services, skills; names and failures of all of them.

A successful answer may report a failure: a command that failed. An answer is a JSON object. These
count, at its top or below `result` or `data`:

- an exit code (`exit_code`, `returncode`, …) that is an integer other than 0;
- `status` with the value error, failed or failure;
- `ok` or `success` with the value false, beside an error or a message that gives the reason.

An operation that only reads returns a description of something. If that is a record with an id, a
name or a time, its `status` and its other fields describe the record, not the operation. Lists are
data, whatever they contain.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TypeVar

from pydantic import SecretStr

from ipyagent.config import MCPServerConfig
from ipyagent.digests import digest_bytes
from ipyagent.errors import MCPConnectionError
from ipyagent.json_types import JsonDict, parse_json


def notebook_note(on: bool | None) -> list[str]:
    """Return the note on a switch for this notebook alone; `on` is None if there is no switch."""
    if on is None:
        return []
    return ["active in this notebook" if on else "off in this notebook"]


_MAX_NAME = 64
_MARK_LENGTH = 9  # "_" and eight digits of a hash

Key = TypeVar("Key", bound=tuple[str, ...])


def name_tools(wanted: Mapping[Key, str]) -> dict[Key, str]:
    """Return a valid name for each tool, independent of their order; its key identifies a tool.

    A name that is changed, or wanted twice, gets a mark of its key: a name that was allowed once
    must not pass to another tool later.
    """
    times = Counter(map(str.lower, wanted.values()))
    names = {}
    for key, name in wanted.items():
        valid = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:_MAX_NAME]
        if valid != name or times[name.lower()] > 1:
            identity = f"{len(key[0])}:{':'.join(key)}".encode("utf-8", "surrogatepass")
            mark = digest_bytes(identity)[: _MARK_LENGTH - 1]
            valid = f"{valid[: _MAX_NAME - _MARK_LENGTH]}_{mark}"
        names[key] = valid
    return names


HEADER_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
"""A valid value of a header."""


def secret_headers(config: MCPServerConfig) -> dict[str, SecretStr]:
    """Return the headers that the settings give in full."""
    if config.token is None:
        return config.headers
    token = SecretStr(f"Bearer {config.token.get_secret_value()}")
    return {**config.headers, "Authorization": token}


def find_credentials(
    secrets: Mapping[str, SecretStr],
    header_env: Mapping[str, str],
    token_env: str | None,
    environ: Mapping[str, str],
) -> dict[str, str]:
    """Return the headers to send, with the current values of their variables.

    Raises MCPConnectionError for a variable that is not set, and a value that no header can have.
    """
    headers = {name: value.get_secret_value() for name, value in secrets.items()}
    bearer = {"Authorization": token_env} if token_env else {}
    for name, variable in {**bearer, **header_env}.items():
        value = environ.get(variable, "").strip()
        if not value:
            raise MCPConnectionError(
                f"the environment variable {variable} is not set; set it, for instance with "
                f"os.environ[{variable!r}] = getpass.getpass()"
            )
        headers[name] = f"Bearer {value}" if bearer.get(name) == variable else value
    for name, value in headers.items():
        if not HEADER_VALUE.fullmatch(value):
            raise MCPConnectionError(f"the value for the header {name} is not valid in a header")
    return headers


_EXIT_CODES = (
    "exit_code",
    "exitCode",
    "exitcode",
    "exit_status",
    "returncode",
    "return_code",
    "returnCode",
)
_FAILED = frozenset({"error", "failed", "failure"})
_FLAGS = ("ok", "success")
_REASONS = ("stderr", "error", "errors", "message", "error_message", "detail", "description")
_ENVELOPES = ("result", "data")
_IDENTITIES = frozenset({"id", "_id", "uuid", "name", "key"})
_IDENTITY_ENDS = ("_id", "Id", "_at", "At")

_MAX_REASON = 300
_MAX_PARSED = 1_000_000


def find_failure(answer: object, *, reads: bool) -> str | None:
    """Return the failure that an answer reports, in one line; None if it reports none.

    `reads`: the operation only reads, so the answer may describe something that failed once.
    """
    for body in _bodies(answer):
        if reads and _is_record(body):
            return None
        code = next((body[key] for key in _EXIT_CODES if _is_failing(body.get(key))), None)
        if code is not None:
            return _describe(f"exit code {code}", body)
        status = body.get("status")
        if not reads and isinstance(status, str) and status.strip().lower() in _FAILED:
            return _describe(f"status {status.strip()}", body)
        flag = next((key for key in _FLAGS if body.get(key) is False), None)
        if flag is not None and _reason(body):
            return _describe(f"{flag} is false", body)
    return None


def parse_object(text: str) -> JsonDict | None:
    """Return the JSON object in a text; None for any other text."""
    if text.lstrip()[:1] != "{" or len(text) > _MAX_PARSED:
        return None
    parsed = parse_json(text)
    return parsed if isinstance(parsed, dict) else None


def _bodies(answer: object) -> Iterator[JsonDict]:
    """Yield the answer, and the objects that it wraps."""
    if isinstance(answer, dict):
        yield answer
        yield from (body for key in _ENVELOPES if isinstance(body := answer.get(key), dict))


def _is_record(body: JsonDict) -> bool:
    return any(key in _IDENTITIES or str(key).endswith(_IDENTITY_ENDS) for key in body)


def _is_failing(code: object) -> bool:
    return isinstance(code, int) and not isinstance(code, bool) and code != 0


def _reason(body: JsonDict) -> str:
    """Return the first reason that the answer gives, in one line."""
    for key in _REASONS:
        match body.get(key):
            case str(text) if text.strip():
                return " ".join(text.split())[:_MAX_REASON]
            case (dict() | list()) as details if details:
                return json.dumps(details, ensure_ascii=False)[:_MAX_REASON]
    return ""


def _describe(problem: str, body: JsonDict) -> str:
    reason = _reason(body)
    return f"{problem}: {reason}" if reason else problem
