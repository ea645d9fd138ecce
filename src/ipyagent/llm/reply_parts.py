"""Parts of services' replies: token counts in all shapes, cut characters, what is no stream."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from ipyagent.json_types import well_formed
from ipyagent.llm.error_mapping import hide_keys
from ipyagent.phrases import ellipsize
from ipyagent.schema import TokenUsage

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


def describe(kind: str, body: str, key: str | None = None) -> str:
    """Describe what arrived instead of a stream, without the key."""
    type_text = f"of type {kind}" if kind else "without a content type"
    words = hide_keys(body[:MOST_BODY], key)
    if not words:
        return f"answered with an empty body, or one that is no stream, {type_text}"
    beginning = ellipsize(words, WORDS)
    return f"answered with a body {type_text} instead of a stream; it begins: {beginning}"
