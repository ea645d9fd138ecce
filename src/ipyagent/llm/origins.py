"""Where each provider lives, and which key may be sent there.

A provider's key goes to the provider's own address. It goes elsewhere only if `llm.api_base` says
so, or a base-URL variable that was there when the process started: one that turned up later was
set by whoever wrote a `.env` file, and could be after the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ipyagent.config import LLMConfig
from ipyagent.errors import ModelRefusedError


@dataclass(frozen=True)
class Provider:
    """A provider's address and the environment variables that belong to it.

    base: None where LiteLLM builds the address from other settings.
    keys: none for servers of one's own.
    compatible: asked through OpenAI's format under LiteLLM's `openai` provider.
    """

    base: str | None
    keys: tuple[str, ...] = ()
    base_variables: tuple[str, ...] = ()
    compatible: bool = False


PROXY = "proxy"  # not LiteLLM's: any model, at llm.api_base, in OpenAI's format

PROVIDERS: Mapping[str, Provider] = {
    "anthropic": Provider(
        "https://api.anthropic.com",
        ("ANTHROPIC_API_KEY",),
        ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE"),
    ),
    "openai": Provider(
        "https://api.openai.com/v1", ("OPENAI_API_KEY",), ("OPENAI_BASE_URL", "OPENAI_API_BASE")
    ),
    "gemini": Provider(
        "https://generativelanguage.googleapis.com/v1beta",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        ("GEMINI_API_BASE",),
    ),
    "mistral": Provider("https://api.mistral.ai/v1", ("MISTRAL_API_KEY",), ("MISTRAL_API_BASE",)),
    "groq": Provider("https://api.groq.com/openai/v1", ("GROQ_API_KEY",), ("GROQ_API_BASE",)),
    "deepseek": Provider(
        "https://api.deepseek.com/beta", ("DEEPSEEK_API_KEY",), ("DEEPSEEK_API_BASE",)
    ),
    "openrouter": Provider(
        "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",), ("OPENROUTER_API_BASE",)
    ),
    "xai": Provider("https://api.x.ai/v1", ("XAI_API_KEY",), ("XAI_API_BASE",)),
    "together_ai": Provider(
        "https://api.together.ai/v1",
        ("TOGETHER_API_KEY", "TOGETHERAI_API_KEY", "TOGETHER_AI_API_KEY"),
        ("TOGETHER_AI_API_BASE",),
    ),
    "cohere_chat": Provider(
        "https://api.cohere.com/v2/chat", ("COHERE_API_KEY", "CO_API_KEY"), ("COHERE_API_BASE",)
    ),
    "cerebras": Provider(
        "https://api.cerebras.ai/v1", ("CEREBRAS_API_KEY",), ("CEREBRAS_API_BASE",)
    ),
    "fireworks_ai": Provider(
        "https://api.fireworks.ai/inference/v1",
        ("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY"),
        ("FIREWORKS_API_BASE",),
    ),
    "moonshot": Provider(
        "https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY",), ("MOONSHOT_API_BASE",)
    ),
    "nvidia_nim": Provider(
        "https://integrate.api.nvidia.com/v1", ("NVIDIA_NIM_API_KEY",), ("NVIDIA_NIM_API_BASE",)
    ),
    "perplexity": Provider(
        "https://api.perplexity.ai", ("PERPLEXITYAI_API_KEY", "PERPLEXITY_API_KEY")
    ),
    PROXY: Provider(None, ("OPENAI_API_KEY",), compatible=True),
    "ollama": Provider(
        "http://localhost:11434/v1", base_variables=("OLLAMA_API_BASE",), compatible=True
    ),
    "lm_studio": Provider(
        "http://localhost:1234/v1", base_variables=("LM_STUDIO_API_BASE",), compatible=True
    ),
    "llamafile": Provider(
        "http://localhost:8080/v1", base_variables=("LLAMAFILE_API_BASE",), compatible=True
    ),
    # These sign requests and build addresses from regions, projects and deployments.
    "azure": Provider(None),
    "azure_ai": Provider(None),
    "bedrock": Provider(None),
    "databricks": Provider(None),
    "sagemaker": Provider(None),
    "vertex_ai": Provider(None),
    "watsonx": Provider(None),
}

ALIASES = {"ollama_chat": "ollama", "cohere": "cohere_chat"}

ANY_KEY = "LITELLM_API_KEY"  # what llm.api_key_env is unless the person says otherwise
NO_KEY = "not-needed"  # servers that check no key still want the header


@dataclass(frozen=True)
class Destination:
    """Where a request goes and what it carries."""

    base: str | None
    key: str | None = field(repr=False)
    compatible: bool
    provider: str = ""
    key_from: str | None = None
    """The variable or setting that holds the key; None where there is none."""
    keys: tuple[str, ...] = ()
    """Variables that may hold it."""


def destination(
    provider: str, config: LLMConfig, environ: Mapping[str, str], start: Mapping[str, str]
) -> Destination:
    """Where requests for `provider` go; raises ModelRefusedError where a setting is missing."""
    provider = ALIASES.get(provider, provider)
    known = PROVIDERS.get(provider)
    if provider == PROXY and not config.api_base:
        raise ModelRefusedError(
            "llm.mode is proxy, but llm.api_base (IPYAGENT_LLM__API_BASE) does not say where it is."
        )
    base = config.api_base or (_base(known, environ, start) if known else None)
    if known is None and base is None:
        raise ModelRefusedError(
            f"The address of {provider} is not known here. Set llm.api_base "
            "(IPYAGENT_LLM__API_BASE) to the base URL of the service."
        )
    if base and provider == "ollama" and not base.rstrip("/").endswith("/v1"):
        base = base.rstrip("/") + "/v1"  # LiteLLM's settings for Ollama name its root
    key = _key(provider, known, config, environ)
    return Destination(
        base,
        key,
        compatible=known is not None and known.compatible,
        provider=provider,
        key_from=_key_source(known, config, environ),
        keys=_names(known, config),
    )


def late_bases(environ: Mapping[str, str], start: Mapping[str, str]) -> dict[str, str]:
    """The base-URL variables that were set or changed after the process started."""
    names = (name for provider in PROVIDERS.values() for name in provider.base_variables)
    return {
        name: environ[name] for name in names if environ.get(name) and _late(name, environ, start)
    }


def _late(name: str, environ: Mapping[str, str], start: Mapping[str, str]) -> bool:
    return environ.get(name) != start.get(name)


def _base(provider: Provider, environ: Mapping[str, str], start: Mapping[str, str]) -> str | None:
    for name in provider.base_variables:
        if not environ.get(name):
            continue
        if _late(name, environ, start):
            raise ModelRefusedError(
                f"{name} was set to {environ[name]} after this process started, perhaps by a .env "
                "file, so nothing was sent there. To use that address, set llm.api_base "
                f"(IPYAGENT_LLM__API_BASE); otherwise remove {name}."
            )
        return environ[name]
    return provider.base


def _key(
    provider: str, known: Provider | None, config: LLMConfig, environ: Mapping[str, str]
) -> str | None:
    if config.api_key and (key := config.api_key.get_secret_value().strip()):
        return key
    names = _names(known, config)
    for name in names:
        if key := environ.get(name, "").strip():
            return key
    if config.api_key_env != ANY_KEY:
        raise ModelRefusedError(
            f"The environment variable {config.api_key_env}, named by llm.api_key_env, is not set. "
            "Set it to the key and try again."
        )
    if known is not None and known.base is None and not known.compatible:
        return None  # LiteLLM finds credentials of its own
    if names and not config.api_base:
        raise ModelRefusedError(
            f"No key for {provider}: set the environment variable {names[0]}, "
            "or choose another model with `%agent model`."
        )
    return NO_KEY


def _key_source(
    known: Provider | None, config: LLMConfig, environ: Mapping[str, str]
) -> str | None:
    if config.api_key and config.api_key.get_secret_value().strip():
        return "llm.api_key"
    return next((name for name in _names(known, config) if environ.get(name, "").strip()), None)


def _names(known: Provider | None, config: LLMConfig) -> tuple[str, ...]:
    """The variables that may hold the key.

    One for all services is not any provider's: it goes only to the address that is configured.
    """
    if config.api_key_env != ANY_KEY:
        return (config.api_key_env,)
    own = known.keys if known else ()
    return (ANY_KEY, *own) if config.api_base else own
