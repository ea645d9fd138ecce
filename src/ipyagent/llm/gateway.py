"""The only door to LiteLLM: one streamed call, its chunks in our words, its failures as ours."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ipyagent.config import LLMConfig
from ipyagent.errors import ModelError, ModelRefusedError, ModelUnavailableError
from ipyagent.llm import offline, warmup
from ipyagent.llm.client import ModelRequest, StreamChunk
from ipyagent.llm.environment import start_environ
from ipyagent.llm.faults import CUT_OFF, fault
from ipyagent.llm.origins import Destination, destination, is_compatible
from ipyagent.llm.wire import to_openai, tools_to_openai, well_formed
from ipyagent.schema import TokenUsage

# Only these check signatures of thinking; others refuse keys that they do not know.
SIGNING = {"anthropic", "azure_ai", "bedrock", "databricks", "vertex_ai"}


class LiteLLMClient:
    """A model that LiteLLM can reach, or `offline/…`, which lives in this process.

    Keys and addresses are looked up at each call, in `environ`; see llm/origins for which key may
    go where. `start` is the environment that the process was started with.
    """

    def __init__(
        self,
        model: str,
        config: LLMConfig | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        start: Mapping[str, str] | None = None,
        explore: offline.Explore | None = None,
    ) -> None:
        self._model = model
        self._config = config or LLMConfig()
        self._environ = os.environ if environ is None else environ
        self._start = start
        self._explore = explore

    def __repr__(self) -> str:
        return f"LiteLLMClient({self._model!r})"

    @property
    def model(self) -> str:
        """The model's id as the person wrote it."""
        return self._model

    @property
    def vision(self) -> bool:
        """Whether the model can see images: as configured, else as LiteLLM's map says."""
        if self._config.vision is not None:
            return self._config.vision
        litellm = warmup.litellm()
        if is_compatible(self._model.partition("/")[0]):
            # LiteLLM would ask Ollama's server, here and for a price.
            return bool(litellm.model_cost.get(self._model, {}).get("supports_vision"))
        with _quiet(litellm):
            try:
                return bool(litellm.supports_vision(self._model))
            except Exception:  # unknown to the map
                return False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        """The reply to `request`, piece by piece."""
        litellm = await asyncio.to_thread(warmup.litellm)
        provider = self._provider(litellm)
        where = self._destination(litellm, provider)
        settings = self._settings(request, provider, where)
        if (provider == "openai" or where.compatible) and _is_chat(litellm, settings):
            _lighten(settings)
        stream = await self._wait(litellm, where, _open(litellm, settings))
        whole = _Whole()
        try:
            while (chunk := await self._wait(litellm, where, anext(stream, None))) is not None:
                # LiteLLM invents a finish for a stream that just ended.
                if _finish(chunk) and not stream.received_finish_reason:
                    raise ModelUnavailableError(f"{self._model}: {CUT_OFF}")
                for said in self._said(litellm, provider, where, chunk):
                    yield whole(said)
                if provider == offline.PROVIDER and _finish(chunk):
                    return  # all that follows is an estimate of tokens that nobody pays for
        finally:
            await stream.aclose()

    def _provider(self, litellm: Any) -> str:
        """LiteLLM's name for the provider; raises ModelRefusedError for an unknown model."""
        prefix, slash, _ = self._model.partition("/")
        if slash and prefix in (*litellm.provider_list, offline.PROVIDER):
            return prefix
        with _quiet(litellm):
            try:
                return str(litellm.get_llm_provider(self._model)[1])
            except Exception:
                raise ModelRefusedError(
                    f"{self._model!r} is not a model id that LiteLLM knows. Write it as "
                    "provider/name, such as ollama/qwen3 or openai/gpt-5.2."
                ) from None

    def _destination(self, litellm: Any, provider: str) -> Destination:
        if provider == offline.PROVIDER:
            offline.register(litellm, self._explore)
            return Destination(None, None, compatible=False)
        start = start_environ() if self._start is None else self._start
        return destination(provider, self._config, self._environ, start)

    def _settings(self, request: ModelRequest, provider: str, where: Destination) -> dict[str, Any]:
        """The arguments of the call: everything goes by call, nothing is set on the module."""
        messages = to_openai(request.messages, vision=self.vision)
        if provider not in SIGNING:
            for message in messages:
                message.pop("thinking_blocks", None)
        settings: dict[str, Any] = {
            "model": self._model,
            "messages": messages,
            "stream": True,
            "num_retries": 0,
            "max_retries": 0,
            # Ours ends first; this one frees the connection should we be gone.
            "timeout": self._config.timeout + 5,
            "_skip_mcp_handler": True,
        }
        if provider != offline.PROVIDER:
            settings |= {"stream_options": {"include_usage": True}, "api_key": where.key}
        if where.base is not None:
            settings["api_base"] = where.base
        if where.compatible:
            settings["model"] = "openai/" + self._model.partition("/")[2]
        if request.tools:
            settings["tools"] = tools_to_openai(request.tools)
        return settings

    async def _wait(self, litellm: Any, where: Destination, pending: Any) -> Any:
        """What `pending` brings, if it comes in time; all its failures as ours."""
        try:
            with _quiet(litellm):
                async with asyncio.timeout(self._config.timeout):
                    return await pending
        except TimeoutError:
            raise ModelUnavailableError(
                f"{self._model}: no answer for {self._config.timeout:g} s."
            ) from None
        except ModelError:
            raise
        except Exception as error:
            raise fault(error, self._model, where.key) from None

    def _said(
        self, litellm: Any, provider: str, where: Destination, chunk: Any
    ) -> Iterator[StreamChunk]:
        """One of LiteLLM's chunks in ours."""
        if chunk.choices:
            delta = chunk.choices[0].delta
            yield from _thinking(delta)
            if text := getattr(delta, "content", None):
                yield StreamChunk("text", text)
            for call in getattr(delta, "tool_calls", None) or ():
                yield StreamChunk(
                    "tool_call",
                    call.function.arguments or "",
                    index=call.index or 0,
                    id=call.id or "",
                    name=call.function.name or "",
                )
            if finish := _finish(chunk):
                yield StreamChunk("finish", finish)
        if (usage := getattr(chunk, "usage", None)) and provider != offline.PROVIDER:
            cost = None if where.compatible else self._cost(litellm, usage)
            yield StreamChunk("usage", usage=_tokens(usage), cost_usd=cost)

    def _cost(self, litellm: Any, usage: Any) -> float | None:
        """US dollars by LiteLLM's local price map; None for a model without a price there."""
        try:
            cost = sum(litellm.cost_per_token(model=self._model, usage_object=usage))
            return float(cost) or None
        except Exception:  # it raises a different one for each way of not knowing
            return None


def _is_chat(litellm: Any, settings: Mapping[str, Any]) -> bool:
    """Whether LiteLLM will use chat completions, and not translate to the Responses API."""
    try:
        info, _ = litellm.main.responses_api_bridge_check(
            settings["model"].removeprefix("openai/"),
            "openai",
            tools=settings.get("tools"),
            api_base=settings["api_base"],
        )
    except Exception:  # not a public function: without it, the slow way is always right
        return False
    return bool(info.get("mode") != "responses")


def _lighten(settings: dict[str, Any]) -> None:
    """Send messages and tools as extra body: the same bytes, past the SDK's check of every one.

    With that check a request takes seven times as long after 300 steps.
    """
    names = [name for name in ("messages", "tools") if name in settings]
    settings["extra_body"] = {name: settings.pop(name) for name in names}
    settings["messages"] = [{"role": "user", "content": ""}]


class _Whole:
    """Joins characters that a service cut in two: a surrogate pair over two chunks."""

    def __init__(self) -> None:
        self._halves: dict[tuple[str, int], str] = {}

    def __call__(self, chunk: StreamChunk) -> StreamChunk:
        if chunk.text.isascii() and not self._halves:
            return chunk
        place = (chunk.type, chunk.index)
        text = self._halves.pop(place, "") + chunk.text
        if text and "\ud800" <= text[-1] <= "\udbff":
            self._halves[place], text = text[-1], text[:-1]
        return replace(chunk, text=well_formed(text))


async def _open(litellm: Any, settings: dict[str, Any]) -> Any:
    return await litellm.acompletion(**settings)


def _finish(chunk: Any) -> str | None:
    return chunk.choices[0].finish_reason if chunk.choices else None


def _thinking(delta: Any) -> Iterator[StreamChunk]:
    blocks = getattr(delta, "thinking_blocks", None) or ()
    text = getattr(delta, "reasoning_content", None) or ""
    if text := text or "".join(block.get("thinking") or "" for block in blocks):
        yield StreamChunk("thinking", text)
    for block in blocks:
        if signature := block.get("signature"):
            yield StreamChunk("signature", signature)


def _tokens(usage: Any) -> TokenUsage:
    """LiteLLM's count in ours: the prompt includes cached tokens, the total is never trusted."""
    details = getattr(usage, "prompt_tokens_details", None)
    read = getattr(details, "cached_tokens", None) or 0
    created = getattr(details, "cache_creation_tokens", None) or 0
    return TokenUsage(
        prompt_tokens=max(usage.prompt_tokens or 0, read + created),
        completion_tokens=usage.completion_tokens or 0,
        cache_read_tokens=read or getattr(usage, "cache_read_input_tokens", None) or 0,
        cache_creation_tokens=created or getattr(usage, "cache_creation_input_tokens", None) or 0,
    )


_quiet_lock = threading.Lock()
_quiet_depth = 0
_quiet_before = False


@contextmanager
def _quiet(litellm: Any) -> Iterator[None]:
    """Without the advertisement that LiteLLM prints for every error.

    There is no way to say so for one call, so its switch is on while one of ours waits, and as the
    person left it before and after.
    """
    global _quiet_depth, _quiet_before
    with _quiet_lock:
        if not _quiet_depth:
            _quiet_before, litellm.suppress_debug_info = litellm.suppress_debug_info, True
        _quiet_depth += 1
    try:
        yield
    finally:
        with _quiet_lock:
            _quiet_depth -= 1
            if not _quiet_depth:
                litellm.suppress_debug_info = _quiet_before
