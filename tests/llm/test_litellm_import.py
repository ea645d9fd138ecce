from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipyagent import llm
from ipyagent.llm import gateway
from ipyagent.llm.gateway import silence
from servers.model_server import ModelServer, answer

KEY = "sk-canary-0123456789"

NAIVE_CALL = """
import litellm
litellm.completion("openai/x", [{"role": "user", "content": "hi"}], stream=True, max_retries=0)
"""

OUR_CALL = """
import asyncio, os, sys, threading
reached = []
def hook(event, details):
    if event in ("socket.connect", "socket.getaddrinfo"):
        reached.append(details[1] if event == "socket.connect" else details[:2])
sys.addaudithook(hook)

from ipyagent.llm import destinations
from ipyagent.llm import gateway
gateway.warm_up()
(thread,) = (each for each in threading.enumerate() if each.name == "ipyagent-warm-up")
assert "litellm" not in sys.modules or thread.is_alive()
thread.join()
assert not reached, reached
assert "OPENAI_BASE_URL" not in os.environ
assert destinations.dotenv_warning() is None

from ipyagent.llm.client import ModelRequest
from ipyagent.llm.gateway import LiteLLMClient
from ipyagent.schema import Message, Role
async def ask():
    request = ModelRequest((Message.of(Role.USER, "hi"),))
    return "".join([c.data async for c in LiteLLMClient("openai/x").stream(request)
                    if c.type == "content"])
print(asyncio.run(ask()))
"""

PERSON_FIRST = """
import litellm
from ipyagent.llm import destinations
print(destinations.dotenv_warning())
"""

NAIVE_IMPORT = """
import os, sys
def hook(event, details):
    if event == "socket.getaddrinfo":
        print("asked for", details[0], flush=True)
        os._exit(7)
sys.addaudithook(hook)
import litellm
"""


def start(code: str, folder: Path, **environ: str) -> subprocess.Popen[str]:
    plain = {k: v for k, v in os.environ.items() if k not in llm.ENVIRONMENT}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=folder,
        env=plain | environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def attacker(tmp_path: Path) -> Iterator[ModelServer]:
    """A server that a file in the folder names as OpenAI's."""
    with ModelServer([answer("stolen")]) as server:
        (tmp_path / ".env").write_text(f"OPENAI_BASE_URL={server.url}\n")
        yield server


@pytest.mark.spec("D28")
def test_a_dotenv_file_in_the_folder_cannot_divert_the_key(
    tmp_path: Path, attacker: ModelServer
) -> None:
    with ModelServer([answer("honest")]) as honest:
        ours = start(OUR_CALL, tmp_path, OPENAI_API_KEY=KEY, OPENAI_API_BASE=honest.url)
        assert ours.communicate() == ("honest\n", "")
    assert len(honest.requests) == 1
    assert attacker.requests == []


@pytest.mark.slow
def test_litellm_left_alone_sends_the_key_where_a_dotenv_file_says(
    tmp_path: Path, attacker: ModelServer
) -> None:
    naive = start(NAIVE_CALL, tmp_path, OPENAI_API_KEY=KEY, LITELLM_LOCAL_MODEL_COST_MAP="True")
    assert naive.communicate() == ("", "")
    (stolen,) = attacker.requests
    assert stolen.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.slow
def test_a_person_who_imported_litellm_first_is_told_what_it_did(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OPENAI_BASE_URL=http://attacker.example\n")
    person = start(PERSON_FIRST, tmp_path, LITELLM_LOCAL_MODEL_COST_MAP="True")
    out, err = person.communicate()
    assert "OPENAI_BASE_URL=http://attacker.example was not set when" in out, err
    assert "llm.api_base" in out


@pytest.mark.spec("D28")
def test_litellm_left_alone_goes_to_the_network_at_its_import(tmp_path: Path) -> None:
    naive = start(NAIVE_IMPORT, tmp_path, LITELLM_MODE="PRODUCTION")
    out, _ = naive.communicate()
    assert naive.returncode == 7
    assert "asked for raw.githubusercontent.com" in out


def test_the_start_environment_is_not_what_was_set_since(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://late.example")
    assert "OPENAI_BASE_URL" not in llm.start_environ()
    assert llm.start_environ()["PATH"]


def test_only_what_this_thread_logs_is_hushed(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("LiteLLM")
    logger.warning("before")
    with gateway._suppress_logs():
        logger.warning("during the import")
        other = threading.Thread(target=logger.warning, args=("the person's own",))
        other.start()
        other.join()
    logger.warning("after")
    assert caplog.messages == ["before", "the person's own", "after"]


def test_the_import_leaves_the_level_that_the_user_gave_to_httpx() -> None:
    logger = logging.getLogger("httpx")
    before = logger.level
    try:
        logger.setLevel(logging.INFO)
        with gateway._suppress_logs():
            logger.setLevel(logging.WARNING)  # as litellm's import does
        assert logger.level == logging.INFO
    finally:
        logger.setLevel(before)


@pytest.mark.parametrize(("level", "heard"), [(logging.NOTSET, []), (logging.INFO, ["ours"])])
def test_what_litellm_says_of_our_calls_is_heard_if_its_log_is_asked_for(
    caplog: pytest.LogCaptureFixture, level: int, heard: list[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    logger = logging.getLogger("LiteLLM")
    before = logger.level
    try:
        logger.setLevel(level)
        with silence(types.SimpleNamespace(suppress_debug_info=False)):
            logger.info("ours")
            logger.warning("a warning about our call")
        logger.info("the user's")
    finally:
        logger.setLevel(before)
    assert caplog.messages == [*heard, "the user's"]


def test_warming_up_again_does_nothing() -> None:
    threads = threading.active_count()
    gateway.warm_up()
    assert threading.active_count() <= threads
    assert "ipyagent-warm-up" not in [each.name for each in threading.enumerate()]
