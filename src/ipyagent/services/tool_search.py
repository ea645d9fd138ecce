"""Search over the tools of services that are too many to be sent with each request.

What a model is offered stays the same, however many tools there are, so a provider's cache knows
the requests.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from ipyagent.errors import ToolNotFoundError
from ipyagent.json_types import JsonDict
from ipyagent.phrases import ellipsize
from ipyagent.tools.base import Tool, Where, tool

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
    """Return the tools of all servers; those of a server for which there is no room are hidden."""
    tools, room = list[Tool](), MAX_OFFERED
    for group in groups:
        size = sum(len(json.dumps(each.to_schema(), ensure_ascii=False)) for each in group)
        fits = size <= room
        room -= size if fits else 0
        tools += (replace(each, hidden=not fits) for each in group)
    return tools


def add_search(tools: Sequence[Tool]) -> list[Tool]:
    """Return the tools, and those that find and call the hidden ones, if there are any."""
    hidden = [each for each in tools if each.hidden]
    called = [_call_tool()] if any(each.part_of is None for each in hidden) else []
    return [*([_find_tools(hidden)] if hidden else []), *called, *tools]


def _find_tools(hidden: Sequence[Tool]) -> Tool:
    texts = [f"{each.name} {each.name} {each.description[:_MAX_TEXT]}" for each in hidden]
    sources = Counter(each.source() or "" for each in hidden if each.source)
    named = ", ".join(f"{number} of {source}" for source, number in sources.items())

    def search(query: str) -> str:
        found = [hidden[n] for n in rank(query, texts)]
        described = [_describe(each) for each in found[:_DETAILED]]
        sizes = accumulate(map(len, described))
        parts = [each for each, size in zip(described, sizes, strict=True) if size <= _MAX_DETAILS]
        parts = parts or described[:1]  # a schema that is cut is of no use
        names = ", ".join(each.name for each in found[len(parts) : _MOST])
        return "\n\n".join([*parts, *([f"also: {names}"] if names else [])]) or (
            "no tool has one of these words"
        )

    search.__doc__ = (
        f"Find more tools by words for the task: {ellipsize(named, _MAX_TEXT)}.\n\n"
        "Operations of services are called by api_request, others by call_tool."
    )
    make = tool(name="find_tools", where=Where.THREAD, source=lambda **_: "descriptions of tools")
    return make(search)


def _describe(each: Tool) -> str:
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
