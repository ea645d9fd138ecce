"""The table of model providers: one row for each, read by every room that knows about providers.

To add a provider, add a row, in the order in which keys are looked for. Choosing a model by key,
addresses, errors, telemetry and the explorer's advice follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Provider:
    """A provider's address, the environment variables that belong to it, and its features."""

    base: str | None
    """None if LiteLLM builds the address from other settings."""
    keys: tuple[str, ...] = ()
    """Variables that may hold its key; NAME_API_KEY, if it is hosted and has no others."""
    base_variables: tuple[str, ...] = ()
    """Variables that may hold its address; NAME_API_BASE, if it has an address and no others."""
    default_model: str = ""
    """The model if only `keys[0]` is set; without one, a key chooses nothing."""
    compatible: bool = False
    """Asked through OpenAI's format under LiteLLM's `openai` provider."""
    telemetry_name: str = ""
    """OpenTelemetry's name for it, if that is not LiteLLM's."""
    format: Literal["chat", "messages", ""] = "chat"
    """OpenAI's chat completions, Anthropic's messages, or another that only LiteLLM speaks."""
    responses: bool = False
    """Speaks OpenAI's Responses too, and insists on it for some models."""
    path: str = ""
    """The path between its address and that of the format."""
    direct_at: str = ""
    """A part of the addresses that speak the format, if not all do."""
    key_header: str = "authorization"
    """The header that holds the key, in `authorization` as a bearer's."""
    length: str = "max_tokens"
    """The setting for the longest reply, at its own address; elsewhere `max_tokens`."""
    stream_options: bool = True
    """Takes the request for token counts of streams; others send them in any case."""
    tool_choice: bool = True
    """Takes `tool_choice`."""
    structured: bool = False
    """Takes the format of an answer in requests with tools, too."""
    call_ids: str = ""
    """A pattern: the ids of calls that it accepts, if not any."""
    wants_thinking: bool = False
    """Wants the thinking that led to a call back, as `reasoning_content`."""
    too_long: str = ""
    """A pattern: its messages that the conversation is longer than the model's context."""


PROXY = "proxy"  # not LiteLLM's: any model, at llm.api_base, in OpenAI's format

_ROWS: dict[str, Provider] = {
    "anthropic": Provider(
        "https://api.anthropic.com",
        base_variables=("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"),
        default_model="claude-sonnet-5-5",
        too_long="prompt is too long|exceed context limit|request_too_large",
        format="messages",
        key_header="x-api-key",
        structured=True,
        call_ids="[a-zA-Z0-9_-]{1,64}",
    ),
    "openai": Provider(
        "https://api.openai.com/v1",
        base_variables=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        # Newer ones take tools only by the Responses API, to which LiteLLM needs the package mcp.
        default_model="gpt-5.2",
        # OpenRouter, Mistral, vLLM, DeepSeek and Together use the second one, too.
        too_long="context_length_exceeded|maximum context length|exceeds the context window",
        responses=True,
        length="max_completion_tokens",
        structured=True,
        call_ids=".{1,40}",
    ),
    "gemini": Provider(
        "https://generativelanguage.googleapis.com/v1beta",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        default_model="gemini-3.8-flash",
        telemetry_name="gcp.gemini",
        too_long="exceeds the maximum number of tokens",
        path="/openai",
    ),
    "mistral": Provider(
        "https://api.mistral.ai/v1",
        default_model="mistral-large-latest",
        telemetry_name="mistral_ai",
        stream_options=False,
        call_ids="[a-zA-Z0-9]{9}",
    ),
    "groq": Provider(
        "https://api.groq.com/openai/v1",
        default_model="openai/gpt-oss-120b",
        too_long="reduce the length of the messages",
    ),
    "deepseek": Provider(
        "https://api.deepseek.com/beta",
        default_model="deepseek-chat",
        wants_thinking=True,
    ),
    "openrouter": Provider(
        "https://openrouter.ai/api/v1",
        default_model="openrouter/auto",
    ),
    "xai": Provider(
        "https://api.x.ai/v1",
        default_model="grok-4.7",
        structured=True,
        telemetry_name="x_ai",
        too_long="maximum prompt length is",
    ),
    "together_ai": Provider(
        "https://api.together.ai/v1",
        ("TOGETHER_API_KEY", "TOGETHERAI_API_KEY", "TOGETHER_AI_API_KEY"),
    ),
    "cohere_chat": Provider(
        "https://api.cohere.com/v2/chat",
        ("COHERE_API_KEY", "CO_API_KEY"),
        ("COHERE_API_BASE",),
        format="",
    ),
    "cerebras": Provider(
        "https://api.cerebras.ai/v1",
        too_long="while limit is",
        stream_options=False,
    ),
    "fireworks_ai": Provider(
        "https://api.fireworks.ai/inference/v1",
        ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"),
        ("FIREWORKS_API_BASE",),
        tool_choice=False,
    ),
    "moonshot": Provider("https://api.moonshot.ai/v1", wants_thinking=True),
    "nvidia_nim": Provider("https://integrate.api.nvidia.com/v1", stream_options=False),
    "perplexity": Provider(
        "https://api.perplexity.ai",
        ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY"),
        stream_options=False,
        tool_choice=False,
    ),
    "minimax": Provider(
        "https://api.minimax.io/anthropic",
        format="messages",
        direct_at="/anthropic",
        key_header="x-api-key",
        call_ids="[a-zA-Z0-9_-]{1,64}",
    ),
    "zai": Provider("https://api.z.ai/api/paas/v4", tool_choice=False, wants_thinking=True),
    "dashscope": Provider("https://dashscope-intl.aliyuncs.com/compatible-mode/v1"),
    "deepinfra": Provider("https://api.deepinfra.com/v1/openai"),
    "sambanova": Provider("https://api.sambanova.ai/v1"),
    "nebius": Provider("https://api.studio.nebius.ai/v1"),
    "novita": Provider("https://api.novita.ai/v3/openai"),
    "hyperbolic": Provider("https://api.hyperbolic.xyz/v1"),
    "vercel_ai_gateway": Provider(
        "https://ai-gateway.vercel.sh/v1",
        ("VERCEL_AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN"),
    ),
    PROXY: Provider(None, ("OPENAI_API_KEY",), compatible=True),
    "ollama": Provider(
        "http://localhost:11434/v1",
        compatible=True,
        too_long="prompt too long|context length exceeded|exceeds the context length",
    ),
    "lm_studio": Provider(
        "http://localhost:1234/v1",
        compatible=True,
        too_long="greater than the context length",
    ),
    "llamafile": Provider(  # and every other llama.cpp
        "http://localhost:8080/v1",
        compatible=True,
        too_long="exceeds? the available context size|exceed_context_size",
    ),
    "hosted_vllm": Provider("http://localhost:8000/v1", compatible=True),
    # These sign requests and build addresses from regions, projects and deployments.
    "azure": Provider(
        None,
        ("AZURE_API_KEY",),
        ("AZURE_API_BASE",),
        responses=True,
        direct_at="/openai/",
        key_header="api-key",
        length="max_completion_tokens",
        structured=True,
        telemetry_name="azure.ai.openai",
    ),
    "azure_ai": Provider(None, format=""),
    "bedrock": Provider(
        None,
        format="",
        telemetry_name="aws.bedrock",
        too_long="input is too long for requested model",
    ),
    "databricks": Provider(None, format=""),
    "sagemaker": Provider(None, format=""),
    "vertex_ai": Provider(None, format="", telemetry_name="gcp.vertex_ai"),
    "watsonx": Provider(None, format="", telemetry_name="ibm.watsonx.ai"),
}


def _fill_names(rows: Mapping[str, Provider]) -> Iterator[tuple[str, Provider]]:
    """Yield the rows with the usual names of variables, where they have no others."""
    for name, row in rows.items():
        is_hosted = (row.base or "").startswith("https:")
        keys = (f"{name.upper()}_API_KEY",) if is_hosted else ()
        bases = (f"{name.upper()}_API_BASE",) if row.base else ()
        yield name, replace(row, keys=row.keys or keys, base_variables=row.base_variables or bases)


PROVIDERS: dict[str, Provider] = dict(_fill_names(_ROWS))
"""By the prefix of LiteLLM's model ids."""

ALIASES = {"ollama_chat": "ollama", "cohere": "cohere_chat"}

_TOO_LONG_ELSEWHERE = (
    "longer than the (maximum model|model's context) length",  # vLLM, SGLang
    "max_(completion_)?tokens must be at least 1, got -",  # vLLM
    "provide a shorter input",  # LM Studio
    "max_new_tokens` must be <=|`inputs` must have less than",  # Hugging Face
    r"prompt token count of [\d,]+ exceeds|max_prompt_tokens_exceeded",  # Copilot
    "Request body too large for .{1,80} model",  # GitHub
    "context window exceeds limit",  # MiniMax
    "exceeded model token limit",  # Moonshot
    "tokens in request more than max tokens|Prompt exceeds max length|Prompt 超长",  # Z.ai
    "Range of input length should be",  # Alibaba
    "tokens in the prompt cannot exceed",  # Cohere
    r"input tokens [\d,]+ cannot exceed the total tokens limit",  # watsonx
    # Baidu, Volcengine, and gateways in China
    "the max (length of current question|input characters) is",
    r"((total|input|prompt|message) )+tokens?( count| length)?( of [\w ]{1,30})? exceed(s|ed)? "
    "(the )?(max|model|limit)",
    "(输入|上下文|提示词|prompt|(?<![_a-z])tokens?)[^,。图频参额]{0,24}"
    "(过长|超长|超限|已满|超[过出][^。图频参额]{0,12}(长度|限制|上限|token|上下文|窗口))",
    "入力が長すぎ|コンテキスト長を超え",
    "exceed(s|ed)? (the |this |its )?(model('s)? )?(max(imum)? )?context (length|window)",
    "model_context_window_exceeded",
    "ContextWindowExceeded|Context Window exceeded",  # LiteLLM, and its proxy
)


def default_models() -> dict[str, str]:
    """Return the model that each key variable chooses, in the order in which keys are tried."""
    return {
        row.keys[0]: f"{name}/{row.default_model}"
        for name, row in PROVIDERS.items()
        if row.default_model
    }


def telemetry_name(provider: str) -> str:
    """Return OpenTelemetry's name for LiteLLM's `provider`."""
    return (provider in PROVIDERS and PROVIDERS[provider].telemetry_name) or provider


def is_too_long(error: str) -> bool:
    """Return whether an error says that the conversation is too long for the model.

    All rows are searched: proxies and compatible servers pass on the messages of others.
    """
    patterns = [row.too_long for row in PROVIDERS.values() if row.too_long]
    return bool(re.search("|".join((*patterns, *_TOO_LONG_ELSEWHERE)), error, re.IGNORECASE))
