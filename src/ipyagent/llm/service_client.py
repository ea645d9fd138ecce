"""The common part of the clients of services, whichever way a service is asked, and of replies."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Hashable, Mapping
from contextlib import suppress
from dataclasses import replace
from urllib.parse import quote, urlsplit

from ipyagent import errors
from ipyagent.config import LLMConfig
from ipyagent.json_types import JsonDict, well_formed
from ipyagent.llm import modelmap, start_environ
from ipyagent.llm.client import ModelRequest, ModelSize
from ipyagent.llm.destinations import Destination, destination
from ipyagent.llm.error_mapping import add_advice, hide_keys, map_error, readable
from ipyagent.llm.modelmap import ask_ollama, size_in_name
from ipyagent.llm.service_error import THOUGHTS, find_refused
from ipyagent.plaintext import ellipsize
from ipyagent.schema import TokenUsage, ToolDefinition

_TOOL = re.compile(
    r"(?i)\b(?:tools|function_?declarations)(?:[.\[/]|['\"], ?)(\d{1,3})\b"
    r"(?!\W{1,2}function_?declarations)|schema for function '([\w.-]{1,64})'"
)
"""How services name a tool that they refuse, with which they refuse every request."""
_TOO_MANY = re.compile(r"(?i)'tools'.*maximum length (\d{2,3})\b")
_MOST_TOOLS = 8  # a service that refuses more of them takes none

_FORMAT = re.compile(
    r"(?i)response_?format|output_(config|format)|json_?schema|text\.format|structured.output"
    r"|response.?schema|grammar"
)
"""Words in which services refuse the format of an answer."""

NOT_FOUND = 404  # a whole answer instead of a stream often means another service's address


class ServiceClient:
    """A model of a service: its facts, where it is asked, and what its failures mean.

    Keys and addresses are looked up at each call, in `environ`; see llm/destinations for which key
    may go where. `start` is the environment that the process was started with.
    """

    def __init__(
        self,
        model: str,
        config: LLMConfig | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        start: Mapping[str, str] | None = None,
    ) -> None:
        self.model = model
        self._config = config or LLMConfig()
        self._environ = os.environ if environ is None else environ
        self._start = start
        self._refused: frozenset[str] = frozenset()
        self._refused_tools: tuple[ToolDefinition, ...] = ()
        self._proved: tuple[frozenset[str], tuple[ToolDefinition, ...]] = frozenset(), ()
        """The part of that with which a reply came: the rest may not have helped."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    def is_like(self, other: object) -> bool:
        """Return whether the other one asks the same model in the same way."""
        return isinstance(other, ServiceClient) and self._identity == other._identity

    @property
    def _identity(self) -> tuple[object, ...]:
        return type(self), self.model, self._config, self._environ, self._start

    @property
    def maker(self) -> str:
        """The model and its service, as answers remember them."""
        return self._maker_at(self.destination)

    @property
    def destination(self) -> Destination:
        """The address and key of a request; raises ModelRefusedError if a setting is missing."""
        raise NotImplementedError

    @property
    def vision(self) -> bool:
        """True if the model can see images: as configured, else by the map."""
        if self._config.vision is not None:
            return self._config.vision
        return modelmap.sees(self._facts)

    @property
    def context_window(self) -> int | None:
        """The context window in tokens, by the map."""
        return modelmap.window(self._facts)

    def cost(self, usage: TokenUsage) -> float | None:
        """Return the price in US dollars by the map; may block."""
        return self._price(usage, own_server=self.destination.compatible)

    def _price(self, usage: TokenUsage, *, own_server: bool) -> float | None:
        """Return the price; the map knows none of a server of one's own."""
        return None if own_server else modelmap.price(self._facts, usage)

    def size(self) -> ModelSize:
        """Return the size by Ollama's own word, else by the map and the model's name."""
        provider, _, name = self.model.partition("/")
        served = None
        if provider in ("ollama", "ollama_chat"):
            served = ask_ollama(self._destination(provider).base or "", name)
        return served or ModelSize(size_in_name(self.model), self.context_window)

    @property
    def _facts(self) -> modelmap.Facts:
        return modelmap.facts_of(self.model)

    def _maker_at(self, where: Destination) -> str:
        host = urlsplit(where.base or "").netloc.rpartition("@")[2]
        return f"{self.model} at {host}" if host else self.model

    def _signer_at(self, where: Destination) -> str:
        """Return whose signatures are sent: nobody's, if the service refused its own."""
        return "" if THOUGHTS in self._refused else self._maker_at(where)

    def _takeable(self, request: ModelRequest) -> ModelRequest:
        """Return the request without the tools that the service refused."""
        if not self._refused_tools:
            return request
        kept = tuple(tool for tool in request.tools if tool not in self._refused_tools)
        return replace(request, tools=kept)

    def _leave_out(
        self, error: Exception, request: ModelRequest, items: list[JsonDict], where: Destination
    ) -> errors.HistoryRefusedError | None:
        """Leave out what an error names of a request, as it was sent; None if nothing."""
        text = f"{error} {getattr(error, 'body', '')}"
        words, refused = find_refused(text, items)
        tools = self._find_tools(text, request)
        if not tools and refused <= self._refused:
            self._refused, self._refused_tools = self._proved
            return None
        self._keep_left_out()  # it helped against another error
        if tools:
            count = len(tools)
            words = f"the tool {tools[0].name}" if count == 1 else f"the last {count} tools"
            self._refused_tools += tools
        else:
            self._refused |= refused
        return errors.HistoryRefusedError(
            f"{self.model} refused {words}, left out if that helps: {readable(error, where.key)}"
        )

    def _keep_left_out(self) -> None:
        """Leave out from now on what was left out, since a reply came."""
        self._proved = self._refused, self._refused_tools

    def _find_tools(self, text: str, request: ModelRequest) -> tuple[ToolDefinition, ...]:
        """Return the tools that an error is about, or for which there is no room."""
        if most := _TOO_MANY.search(text):
            return request.tools[int(most[1]) :]
        found = _TOOL.search(text)
        if not found or len(self._refused_tools) >= _MOST_TOOLS:
            return ()
        if found[1]:
            return request.tools[int(found[1]) :][:1]
        return tuple(tool for tool in request.tools if tool.name == found[2])

    def _destination(self, provider: str) -> Destination:
        start = start_environ() if self._start is None else self._start
        return destination(provider, self._config, self._environ, start)

    def _explain(self, error: Exception, where: Destination) -> errors.ModelError:
        """Return the error to raise instead of `error`, once that is not handled any more.

        Raised while it is handled, it would hold it, and that may hold the request and its key.
        """
        if isinstance(error, errors.ModelError):
            status = NOT_FOUND if isinstance(error, errors.ModelRefusedError) else 0
            return add_advice(error, where, self.model, status)
        if isinstance(error, TimeoutError):
            seconds = f"{self._config.timeout:g} s"
            failure = errors.ModelUnavailableError(f"{self.model}: no answer for {seconds}.")
            return add_advice(failure, where, self.model, 0, "timeout")
        return map_error(error, self.model, where.key, where)


def refuses_format(request: ModelRequest, error: str) -> bool:
    """Return whether an error is about the format that a request asks its answer in."""
    return request.answer is not None and _FORMAT.search(error) is not None


def trace_headers(request: ModelRequest) -> dict[str, str]:
    """Return the header with the request's trace id, if it has one."""
    return {"X-Trace-Id": quote(request.trace_id, safe=" :/=,;+@")} if request.trace_id else {}


_READ = ("cache_read_input_tokens", "prompt_cache_hit_tokens", "cached_tokens")
"""Anthropic's name for tokens read from a cache, DeepSeek's, and Moonshot's."""


def count_tokens(usage: object) -> TokenUsage:
    """Return a service's count in ours: prompts include cached tokens, totals are recomputed.

    `usage` has OpenAI's names, as a mapping or as an object of LiteLLM's; its prompt tokens include
    the cached ones.
    """
    details = _field(usage, "prompt_tokens_details") or _field(usage, "input_tokens_details")
    read = _count(details, "cached_tokens") or _count(usage, *_READ)
    created = _count(details, "cache_creation_tokens")
    created = created or _count(usage, "cache_creation_input_tokens")
    names = ("prompt_tokens", "input_tokens", "prompt_eval_count", "promptTokenCount")
    prompt = _count(usage, *names)
    names = ("completion_tokens", "output_tokens", "eval_count", "candidatesTokenCount")
    return TokenUsage(
        prompt_tokens=max(prompt, read + created),
        completion_tokens=_count(usage, *names),
        cache_read_tokens=read,
        cache_creation_tokens=created,
    )


def update_tokens(known: TokenUsage | None, usage: object) -> TokenUsage | None:
    """Return the counts after another report: a later one may leave some out, or send zeroes."""
    counts = {name: n for name, n in count_tokens(usage).model_dump().items() if n}
    return TokenUsage(**{**(known.model_dump() if known else {}), **counts}) if counts else known


def read_cost(value: object, known: float | None = None) -> float | None:
    """Return a price that a service sends, as a number or a text; `known` if it is not one."""
    with suppress(ValueError):
        if isinstance(value, (int, float, str)) and 0 <= (cost := float(value)) < math.inf:
            return cost
    return known


def _field(source: object, name: str) -> object:
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


def _count(source: object, *names: str) -> int:
    """Return the first count that there is under one of these names; 0 for none."""
    return next((count for name in names if (count := to_count(_field(source, name)))), 0)


def to_count(value: object) -> int:
    """Return a number, also of one that is sent as a text; 0 for anything that is no count."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return 0
    try:
        return max(0, value if isinstance(value, int) else int(float(value)))
    except (ValueError, OverflowError):
        return 0


class Joiner:
    """Joins characters that were cut in two; each `place` is a text of its own."""

    def __init__(self) -> None:
        self._halves: dict[Hashable, str] = {}
        self._texts: dict[Hashable, list[str]] = {}

    def __call__(self, place: Hashable, piece: str) -> str:
        """Return the text that is complete after `piece`: half a character is held back."""
        self._texts.setdefault(place, []).append(piece)
        if piece.isascii() and not self._halves:
            return piece
        text = self._halves.pop(place, "") + piece
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._halves[place], text = text[-1], text[:-1]
        return well_formed(text)

    def rest(self, place: Hashable, whole: str) -> str:
        """Return the part of a text that has not come yet, of one that a service sends whole."""
        so_far = well_formed("".join(self._texts.get(place, ())))
        return well_formed(whole)[len(so_far) :] if well_formed(whole).startswith(so_far) else ""

    def has(self, place: Hashable) -> bool:
        """Return whether any of a text has come."""
        return any(self._texts.get(place, ()))


_PAGES = {"text/html", "application/xhtml+xml", "application/xml", "text/xml"}

_FIELDS = ("data:", "event:", "id:", "retry:", "error:", ":")

WORDS = 100
"""Characters of a body that are shown."""

MOST_BODY = 1_000_000
"""Characters of a body that are read."""


def may_be_stream(kind: str) -> bool:
    """Return whether an answer of that type may be a stream, without looking at its body."""
    return kind not in _PAGES and kind != "application/json"


def is_stream(body: str) -> bool:
    """Return whether a body consists of server-sent events, or is cut off in the first."""
    start = body.lstrip("\ufeff \t\r\n")
    return start.startswith(_FIELDS) or any(start and each.startswith(start) for each in _FIELDS)


def describe_answer(kind: str, body: str, key: str | None = None) -> str:
    """Describe what arrived instead of a stream, without the key."""
    type_text = f"of type {kind}" if kind else "without a content type"
    words = hide_keys(body[:MOST_BODY], key)
    if not words:
        return f"answered with an empty body, or one that is no stream, {type_text}"
    beginning = ellipsize(words, WORDS)
    return f"answered with a body {type_text} instead of a stream; it begins: {beginning}"
