"""A kernel imports what its model needs, and nothing more."""

from pathlib import Path

import pytest

from kernels import Kernel, Page, kernel
from servers.model_server import ModelServer, answer

pytestmark = pytest.mark.kernel

AFTER_LOADING = """\
import sys, threading
for thread in threading.enumerate():
    if thread.name == "ipyagent-import":
        thread.join()
warming = any(thread.name == "ipyagent-warm-up" for thread in threading.enumerate())"""


def imports_litellm(kernel: Kernel) -> bool:
    """Return whether LiteLLM is imported, or is being imported."""
    kernel.run(AFTER_LOADING)
    return kernel.value("warming or 'litellm' in sys.modules") == "True"


def test_the_explorer_needs_no_litellm(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3,4\n")
    with kernel(tmp_path) as started:
        started.run("import pandas as pd; df = pd.read_csv('a.csv')")
        run = started.run("%%agent\nmean of x in df", page=Page(started)).run
        assert (run["status"], run["model"]) == ("done", "offline/explorer")
        assert [e["status"] for step in run["steps"] for e in step["executions"]] == ["success"]
        assert "offline/explorer" in started.run("%agent status").stdout
        started.run("import ipyagent; ipyagent.last")
        started.run("%agent tools")
        assert not imports_litellm(started)


@pytest.mark.slow
def test_litellm_is_imported_in_advance_for_a_model_that_needs_it(tmp_path: Path) -> None:
    with kernel(tmp_path, IPYAGENT_LLM__MODEL="bedrock/nova") as started:
        assert imports_litellm(started)
    with kernel(tmp_path) as started:
        started.run("%agent model bedrock/nova")
        assert imports_litellm(started)


def test_a_service_that_is_asked_directly_needs_no_litellm(tmp_path: Path) -> None:
    with ModelServer([answer("Hello there.")]) as server:
        settings = {"IPYAGENT_LLM__MODEL": "openai/gpt-4o", "IPYAGENT_LLM__API_BASE": server.url}
        with kernel(tmp_path, OPENAI_API_KEY="none", **settings) as started:
            run = started.run("%%agent\nSay hello.", page=Page(started)).run
            assert (run["status"], run["model"]) == ("done", "openai/gpt-4o")
            assert "Hello there." in str(run["steps"])
            assert started.value("'litellm' in __import__('sys').modules") == "False"
