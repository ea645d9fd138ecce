"""A run leaves the user's process as it was: their log, streams, filters and settings."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from ipyagent import Agent, Scripted, tool
from ipyagent.kernel.threads import logs_of, own_context
from kernels import Kernel, Page
from servers.model_server import ModelServer, answer

LOGGED = """\
import logging
logging.basicConfig(level=logging.{level}, force=True)"""

PICTURE = """\
from IPython.display import Image
import base64
Image(base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
))"""

USE_HTTPX = "import httpx, os; httpx.get(os.environ['IPYAGENT_LLM__API_BASE'] + '/models')"


@pytest.fixture
def logging_kernel(asking_kernel: Kernel) -> Iterator[Kernel]:
    """The kernel of a user who logs."""
    asking_kernel.run(LOGGED.format(level="INFO"))
    yield asking_kernel
    asking_kernel.run(
        "logging.basicConfig(level=logging.WARNING, force=True)\n"
        "logging.getLogger('httpx').setLevel(logging.NOTSET)"
    )


@pytest.mark.parametrize("level", ["INFO", "DEBUG"])
def test_our_own_requests_are_not_in_the_users_log(
    logging_kernel: Kernel, server: ModelServer, level: str
) -> None:
    server.replies = [answer(calls=[("run_python", {"code": PICTURE})]), answer("**Done.**")]
    logging_kernel.run(LOGGED.format(level=level))
    reply = logging_kernel.run("%%agent --confirm yolo\nBegin.", page=Page(logging_kernel))
    assert (len(reply.run["steps"]), reply.stdout, reply.stderr) == (2, "", "")
    assert reply.results[0]["images"]
    again = logging_kernel.run("import ipyagent\nipyagent.last")
    assert "Done" in again.of("execute_result")[0]["data"]["text/html"]
    assert again.stderr == ""


def test_a_failure_that_the_card_tells_is_not_in_the_users_log(logging_kernel: Kernel) -> None:
    reply = logging_kernel.run("%%agent -m nosuch\nBegin.")
    assert reply.run["status"] == "error"
    assert "not a model" in reply.run["error"]
    assert "INFO" not in reply.stderr
    assert "Traceback" not in reply.stderr


def test_the_users_own_requests_are_logged_as_they_set_it(
    logging_kernel: Kernel, server: ModelServer
) -> None:
    code = answer(calls=[("run_python", {"code": USE_HTTPX})])
    server.replies = [code, answer("Done."), answer("Again.")]
    reply = logging_kernel.run("%%agent --confirm yolo\nBegin.", page=Page(logging_kernel))
    assert reply.results[0]["output"].count("HTTP Request: GET") == 1, "the code's own log is told"
    assert reply.stderr == ""
    assert logging_kernel.run(USE_HTTPX).stderr.count("HTTP Request") == 1
    logging_kernel.run("logging.getLogger('httpx').setLevel(logging.INFO)")
    asked_for = logging_kernel.run("%%agent\nOnce more.", page=Page(logging_kernel))
    assert asked_for.stderr.count("HTTP Request: POST") >= 1


STATE = """\
import asyncio, builtins, io, locale, logging, os, signal, sys, threading, warnings
import matplotlib, numpy as np
def state():
    return {
        "filters": list(warnings.filters),
        "showwarning": warnings.showwarning,
        "numpy": np.get_printoptions(),
        "errors": np.geterr(),
        "backend": matplotlib.rcParams._get("backend"),
        "streams": (sys.stdin, sys.stdout, sys.stderr, sys.__stdout__),
        "hooks": (sys.displayhook, sys.excepthook, sys.unraisablehook, threading.excepthook),
        "print": (builtins.print, builtins.input, builtins.open),
        "loop": (asyncio.get_running_loop(), asyncio.get_event_loop_policy()),
        "handler": asyncio.get_running_loop().get_exception_handler(),
        "signals": [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)],
        "logging": (logging.root.handlers[:], logging.root.level, logging.getLogger("httpx").level),
        "threads": (threading.Thread.start, threading.Thread.run),
        "publisher": (get_ipython().display_pub, get_ipython().display_formatter.format),
        "others": (os.getcwd(), locale.setlocale(locale.LC_ALL), sys.getrecursionlimit()),
        "path": (list(sys.path), list(sys.meta_path)),
    }
class Mine(io.StringIO): pass
kept = sys.stdout, builtins.print
sys.stdout = mine = Mine()
builtins.print = lambda *texts, **how: kept[1]("mine:", *texts, **how)
np.set_printoptions(precision=3)
np.seterr(divide="ignore")
warnings.filterwarnings("error", message="mine")
matplotlib.use("svg")
before = state()"""

AFTER = """\
after = state()
sys.stdout, builtins.print = kept
different = {name: (before[name], after[name]) for name in before if before[name] != after[name]}"""


@pytest.mark.parametrize(
    "code", ["print(np.array([1 / 3]))", "1 / 0", "import time\nawait asyncio.sleep(0)\nprint(1)"]
)
def test_what_the_user_replaced_stays_replaced(
    asking_kernel: Kernel, server: ModelServer, code: str
) -> None:
    server.replies = [answer(calls=[("run_python", {"code": code})]), answer("Done.")]
    asking_kernel.run("%%agent\nWarm up.")  # what ipyagent installs once is not the run's
    server.replies = [answer(calls=[("run_python", {"code": code})]), answer("Done.")]
    assert asking_kernel.run(STATE).status == "ok"
    reply = asking_kernel.run("%%agent --confirm yolo\nBegin.", page=Page(asking_kernel))
    assert asking_kernel.run(AFTER).status == "ok"
    assert asking_kernel.value("different") == "{}"
    assert ("mine:" in reply.results[0]["output"]) == ("print" in code)
    asking_kernel.run("warnings.filters.pop(0)")


def test_only_our_own_records_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    names = [
        *("aiohttp.access", "anyio", "asyncio", "client", "httpcore.http11"),
        *("httpcore2.connection", "httpx", "httpx2", "markdown_it.rules_block", "mcp.client.stdio"),
        *("openai._base_client", "opentelemetry.sdk", "PIL.Image", "requests", "sse_starlette.sse"),
        *("traitlets", "urllib3.connectionpool"),
    ]

    def log(text: str) -> None:
        for name in names:
            logging.getLogger(name).info(text)
            logging.getLogger(name).warning(text)

    for name in names:  # made before, as by the user's import
        logging.getLogger(name)
    context = own_context()
    log("the user's")
    context.run(log, "ours")
    seen = [(each.levelname, each.getMessage()) for each in caplog.records]
    assert seen.count(("INFO", "the user's")) == len(names)
    assert seen.count(("WARNING", "ours")) == len(names)
    assert ("INFO", "ours") not in seen


@pytest.mark.parametrize("setting", ["level", "handler"])
def test_a_library_whose_log_is_asked_for_is_heard(
    caplog: pytest.LogCaptureFixture, setting: str
) -> None:
    caplog.set_level(logging.DEBUG)
    parent, handler = logging.getLogger("httpcore"), logging.StreamHandler()
    try:
        if setting == "level":
            parent.setLevel(logging.DEBUG)
        else:
            parent.addHandler(handler)
        own_context().run(logging.getLogger("httpcore.http11").debug, "asked for")
    finally:
        parent.setLevel(logging.NOTSET)
        parent.removeHandler(handler)
    assert "asked for" in caplog.text


def test_a_tool_of_the_user_is_logged_as_they_set_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    def call(function: object) -> None:
        with logs_of(function):
            logging.getLogger("httpx").info("by %s", function)

    def own_tool() -> None: ...

    own_context().run(call, own_tool)
    own_context().run(call, logs_of)
    assert "own_tool" in caplog.text
    assert "logs_of" not in caplog.text


async def test_an_async_tool_of_the_user_reaches_their_log(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)

    @tool
    async def fetch() -> str:
        """Fetch."""
        logging.getLogger("httpx").info("by the tool")
        return "fetched"

    def play(request: object) -> str:
        logging.getLogger("httpx").info("by the client")
        return "Done."

    calls = {"calls": [{"name": "fetch", "arguments": {}}]}
    agent = Agent(
        Scripted([calls, play]), tools=[fetch], root=tmp_path, persist=False, confirm_mode="yolo"
    )
    assert (await agent.aask("Fetch.")).output == "Done."
    assert "by the tool" in caplog.text
    assert "by the client" not in caplog.text
