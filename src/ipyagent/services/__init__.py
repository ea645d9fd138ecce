"""Tools from elsewhere: MCP servers, OpenAPI services, skills; and what all of them share.

Tools get unique names. Those that are too many to be sent with each request are hidden, and found
by a search: what a model is offered stays the same, however many tools there are, so a provider's
cache knows the requests. Servers get credentials, and report failures:

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
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

from pydantic import SecretStr

from ipyagent.config import MCPServerConfig
from ipyagent.digests import digest_bytes
from ipyagent.errors import MCPConnectionError, ToolNotFoundError
from ipyagent.json_types import JsonDict, object_of, parse_json
from ipyagent.plaintext import ellipsize
from ipyagent.tools.base import Tool, Where, tool


def notebook_note(on: bool | None) -> list[str]:
    """Return the note on a switch for this notebook alone; `on` is None without a switch."""
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


MAX_OFFERED = 20_000
"""Characters of the schemas of MCP servers' tools that go with each request."""

_DETAILED = 5
_MAX_DETAILS = 15_000  # characters of all tools that are found
_MAX_TEXT = 600
_MOST = 40


def rank(query: str, texts: Sequence[str]) -> list[int]:
    """Return the indices of the texts with words of the query, the best first.

    By BM25 without regard to lengths: schemas make texts long, not vague.
    """
    documents = [Counter(_list_words(each)) for each in texts]
    scores: dict[int, float] = {}
    for word in dict.fromkeys(_list_words(query)):
        stem = word.removesuffix("s") if len(word) > 3 else word
        times = {
            n: found
            for n, each in enumerate(documents)
            if (found := sum(each[known] for known in each if _matches(stem, known)))
        }
        rarity = math.log(1 + (len(texts) - len(times) + 0.5) / (len(times) + 0.5))
        for n, found in times.items():
            scores[n] = scores.get(n, 0.0) + rarity * found * 2.2 / (found + 1.2)
    return sorted(scores, key=lambda n: (-scores[n], n))


def _list_words(text: str) -> list[str]:
    parts = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", text).lower()
    return re.findall(r"[^\W\d_]+|\d+", parts)


def _matches(stem: str, word: str) -> bool:
    return word.startswith(stem) if len(stem) > 2 else word == stem


def hide_surplus(groups: Iterable[Sequence[Tool]]) -> list[Tool]:
    """Return the tools of all servers; a server for which no room is left has them hidden."""
    tools, room = list[Tool](), MAX_OFFERED
    for group in groups:
        size = sum(len(json.dumps(each.to_schema(), ensure_ascii=False)) for each in group)
        fits = size <= room
        room -= size if fits else 0
        tools += (replace(each, hidden=not fits) for each in group)
    return tools


def add_search(tools: Sequence[Tool], unoffered: Sequence[Tool] = ()) -> list[Tool]:
    """Return the tools, and those that find and call the hidden ones, if there are any.

    `unoffered` are found then, too: tools of other kinds that the model is not offered.
    """
    hidden = [each for each in tools if each.hidden]
    if not hidden:
        return [*tools]
    found = [*hidden, *unoffered]
    called = [_call_tool()] if any(each.part_of is None for each in found) else []
    sources = Counter(each.source() or "" for each in hidden if each.source)
    named = [f"{number} of {source}" for source, number in sources.items()]
    about = ", ".join([*named, *[each.name for each in unoffered]])
    return [_find_tools(found, about), *called, *tools]


def _find_tools(hidden: Sequence[Tool], about: str) -> Tool:
    texts = [f"{each.name} {each.name} {each.description[:_MAX_TEXT]}" for each in hidden]

    def search(query: str) -> str:
        found = [hidden[n] for n in rank(query, texts)]
        described = [_describe_tool(each) for each in found[:_DETAILED]]
        sizes = accumulate(map(len, described))
        parts = [each for each, size in zip(described, sizes, strict=True) if size <= _MAX_DETAILS]
        parts = parts or described[:1]  # a schema that is cut is of no use
        names = ", ".join(each.name for each in found[len(parts) : _MOST])
        return "\n\n".join([*parts, *([f"also: {names}"] if names else [])]) or (
            "no tool has one of these words"
        )

    search.__doc__ = (
        f"Find more tools by words for the task: {ellipsize(about, _MAX_TEXT)}.\n\n"
        "Operations of services are called by api_request, others by call_tool."
    )
    make = tool(name="find_tools", where=Where.THREAD, source=lambda **_: "descriptions of tools")
    return make(search)


def _describe_tool(each: Tool) -> str:
    """Return a tool with its arguments; an operation has them in its description."""
    arguments = "" if each.part_of else f"\n{json.dumps(each.definition().input_schema)}"
    return f"{each.name}: {each.definition().description}{arguments}"


def _call_tool() -> Tool:
    """Return the tool that calls a hidden one by its name."""

    @tool(where=Where.THREAD, redirect=lambda name, arguments: (name, arguments))
    def call_tool(name: str, arguments: JsonDict) -> str:
        """Call a tool that find_tools found."""
        raise ToolNotFoundError(f"no tool is named {name!r}; find_tools finds them")

    return call_tool


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
    top = object_of(answer)
    for body in filter(None, map(object_of, (top, *map(top.get, _ENVELOPES)))):
        names = map(str, body)
        is_record = any(each in _IDENTITIES or each.endswith(_IDENTITY_ENDS) for each in names)
        if reads and is_record:
            return None
        codes = (body.get(key) for key in _EXIT_CODES)
        # True and False are integers, too, and no codes.
        if code := next((each for each in codes if type(each) is int and each), None):
            return _describe_failure(f"exit code {code}", body)
        status = body.get("status")
        if not reads and isinstance(status, str) and status.strip().lower() in _FAILED:
            return _describe_failure(f"status {status.strip()}", body)
        flag = next((key for key in _FLAGS if body.get(key) is False), None)
        if flag is not None and _reason(body):
            return _describe_failure(f"{flag} is false", body)
    return None


def parse_object(text: str) -> JsonDict | None:
    """Return the JSON object in a text; None for any other text."""
    if text.lstrip()[:1] != "{" or len(text) > _MAX_PARSED:
        return None
    parsed = parse_json(text)
    return parsed if isinstance(parsed, dict) else None


def _reason(body: JsonDict) -> str:
    """Return the first reason that the answer gives, in one line."""
    for key in _REASONS:
        match body.get(key):
            case str(text) if text.strip():
                return " ".join(text.split())[:_MAX_REASON]
            case (dict() | list()) as details if details:
                return json.dumps(details, ensure_ascii=False)[:_MAX_REASON]
    return ""


def _describe_failure(problem: str, body: JsonDict) -> str:
    reason = _reason(body)
    return f"{problem}: {reason}" if reason else problem
