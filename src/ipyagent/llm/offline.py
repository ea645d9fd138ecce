"""`offline/explorer` as a LiteLLM provider that lives in this process."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

PROVIDER = "offline"

Explore = Callable[[list[dict[str, Any]], list[dict[str, Any]]], Any]


def register(litellm: Any, explore: Explore | None = None) -> None:
    """Make `offline/…` known to LiteLLM, beside whatever providers the person has added."""
    known = [entry for entry in litellm.custom_provider_map if entry["provider"] == PROVIDER]
    if known and explore is None:
        return
    for entry in known:
        litellm.custom_provider_map.remove(entry)
    handler = _handler(litellm, explore or _explorer())
    litellm.custom_provider_map.append({"provider": PROVIDER, "custom_handler": handler})


def _explorer() -> Explore:
    from ipyagent.llm import explorer

    explore: Explore = explorer.reply
    return explore


def _handler(litellm: Any, explore: Explore) -> Any:
    """The provider; a class made here because its base comes from LiteLLM."""

    class Offline(litellm.CustomLLM):  # type: ignore[misc]
        async def astreaming(
            self, *args: Any, messages: list[dict[str, Any]], **settings: Any
        ) -> AsyncIterator[Any]:
            tools = settings.get("optional_params", {}).get("tools") or []
            try:
                deltas = list(_deltas(explore(messages, tools), messages))
            except Exception as error:
                # 400: a bug of ours must not look like an outage that is worth a retry.
                raise litellm.BadRequestError(
                    message=f"the explorer failed: {type(error).__name__}: {error}",
                    model="explorer",
                    llm_provider=PROVIDER,
                ) from error
            for finish, delta in deltas:
                choice = litellm.types.utils.StreamingChoices(
                    index=0,
                    delta=litellm.types.utils.Delta(**delta),
                    finish_reason=finish,
                )
                yield litellm.ModelResponseStream(choices=[choice])

    return Offline()


def _deltas(reply: Any, messages: list[dict[str, Any]]) -> list[tuple[str | None, dict[str, Any]]]:
    """The reply in small pieces. Ids count turns, so that they are unique in a conversation."""
    deltas: list[dict[str, Any]] = [{"reasoning_content": w} for w in _words(reply.thinking)]
    deltas += [{"content": word} for word in _words(reply.text)]
    turn = 1 + sum(message["role"] == "assistant" for message in messages)
    for index, (name, arguments) in enumerate(reply.calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"index": index, "id": f"call_{turn}_{index + 1}", "type": "function"}
        deltas.append({"tool_calls": [call | {"function": function}]})
    finish = "tool_calls" if reply.calls else "stop"
    return [*((None, delta) for delta in deltas), (finish, {})]


def _words(text: str) -> list[str]:
    """The text in words with the space that follows them."""
    return re.findall(r"\s*\S+\s*", text) or ([text] if text else [])
