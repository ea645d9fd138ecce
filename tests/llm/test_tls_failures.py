"""A certificate that is not accepted: what the user reads says why, where, and how to go on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from asking import ONLY_DIRECT, make_client

from ipyagent.config import LLMConfig
from ipyagent.errors import ModelError, ModelRefusedError
from ipyagent.llm.client import ModelRequest
from ipyagent.schema import Message, Role
from servers.certificates import certificate, serving
from servers.model_server import ModelServer, answer

pytestmark = pytest.mark.usefixtures("engine")

SECRET = "sk-secret-0123456789abcdef"
PROVIDERS = {
    "openai/gpt-x": "OPENAI_API_KEY",
    "anthropic/claude-x": "ANTHROPIC_API_KEY",
    "mistral/mistral-x": "MISTRAL_API_KEY",
    "ollama/qwen3": None,
}


async def ask(model: str, base: str) -> str:
    key = PROVIDERS[model]
    environ = {key: SECRET} if key else {}
    client = make_client(model, LLMConfig(api_base=base), environ=environ, start=environ)
    request = ModelRequest((Message.of(Role.USER, "Hello."),))
    chunks = [chunk async for chunk in client.stream(request)]
    return "".join(chunk.data for chunk in chunks if chunk.type == "content")


async def failing(model: str, base: str) -> ModelError:
    with pytest.raises(ModelError) as raised:
        await ask(model, base)
    assert "Traceback" not in str(raised.value)
    assert SECRET not in str(raised.value)
    return raised.value


@pytest.mark.parametrize("model", PROVIDERS)
async def test_a_certificate_that_nobody_vouches_for_is_named_with_the_way_out(
    model: str, tmp_path: Path
) -> None:
    with ModelServer(tls=serving(*certificate(tmp_path, "127.0.0.1"))) as server:
        base = server.origin if model.startswith("anthropic") else server.url
        error = await failing(model, base)
        assert server.requests == [], "neither the key nor the prompt was sent"
    what, _, advice = str(error).partition("\n")
    problem = "its server's certificate was not accepted (self-signed certificate)"
    assert what == f"{model} could not be reached: {problem}."
    key = PROVIDERS[model]
    assert advice.startswith(
        f"Asked at {base}, {f'with the key in {key}' if key else 'without a key'}."
    )
    assert "SSL_CERT_FILE before the kernel starts" in advice
    assert "`%agent config llm.api_base=URL`" in advice
    assert isinstance(error, ModelRefusedError), "asking again would not help"


@pytest.mark.parametrize(
    ("host", "days", "why"),
    [
        ("127.0.0.1", -1, "certificate has expired"),
        ("other.example", 1, "IP address mismatch, certificate is not valid for '127.0.0.1'"),
        ("127.0.0.1", 1, None),
    ],
)
async def test_the_file_that_the_advice_names_is_the_one_that_counts(
    host: str, days: int, why: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem, key = certificate(tmp_path, host, days=days)
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    with ModelServer([answer("Hello.")], tls=serving(pem, key)) as server:
        if why is None:
            assert await ask("openai/gpt-x", server.url) == "Hello."
        else:
            error = await failing("openai/gpt-x", server.url)
            assert f"its server's certificate was not accepted ({why})." in str(error)


@ONLY_DIRECT
@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
async def test_so_does_the_file_that_other_programs_are_given(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem, key = certificate(tmp_path, "127.0.0.1")
    for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(pem))
    with ModelServer([answer("Hello.")], tls=serving(pem, key)) as server:
        assert await ask("openai/gpt-x", server.url) == "Hello."


@pytest.mark.parametrize("model", ["openai/gpt-x", "mistral/mistral-x"])
async def test_a_server_that_speaks_no_https_is_named_as_such(model: str) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(speak, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        error = await failing(model, f"https://127.0.0.1:{port}/v1")
    assert "could not be reached: no secure connection could be made" in str(error)
    assert "Does that server speak https? If not, write http:// in the address" in str(error)
    assert isinstance(error, ModelRefusedError)
