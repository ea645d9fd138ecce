"""The logger: silent by default, everybody's to listen to."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import get_args

import pytest

from harness import Lab
from ipyagent.schema import Outcome
from ipyagent.telemetry import logs

WARN = "import logging; logging.getLogger('ipyagent.llm').error('boo')"


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    logger = logging.getLogger("ipyagent")
    level, handlers = logger.level, logger.handlers[:]
    yield
    logger.setLevel(level)
    logger.handlers[:] = handlers


def printed(code: str) -> str:
    """All that a new interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


@pytest.mark.spec("A14")
@pytest.mark.parametrize("level", get_args(logs.Level))
def test_nothing_is_printed_unless_somebody_listens(level: logs.Level) -> None:
    assert "boo" in printed(WARN)  # which is what Python does of its own accord
    quiet = f"from ipyagent.telemetry import logs; logs.setup({level!r});"
    assert printed(quiet + WARN) == ""
    assert "boo" in printed(f"{quiet} import logging; logging.basicConfig(); {WARN}")


@pytest.mark.spec("A14")
@pytest.mark.parametrize(
    ("level", "heard"),
    [
        ("debug", "debug info warning error"),
        ("info", "info warning error"),
        ("warn", "warning error"),
        ("error", "error"),
    ],
)
def test_the_level_is_the_least_that_is_heard(
    level: logs.Level, heard: str, caplog: pytest.LogCaptureFixture
) -> None:
    logs.setup(level)
    logger = logging.getLogger("ipyagent.some.room")
    for name in ("debug", "info", "warning", "error"):
        getattr(logger, name)(name)
    assert caplog.messages == heard.split()


@pytest.mark.spec("A14")
def test_the_level_is_info_and_only_our_own_logger_is_touched() -> None:
    root, others = logging.getLogger(), logging.getLogger("LiteLLM")
    before = (root.level, root.handlers[:], others.level, others.handlers[:])
    for _ in range(3):
        logs.setup()
    ours = logging.getLogger("ipyagent")
    assert ours.level == logging.INFO
    assert len([h for h in ours.handlers if isinstance(h, logging.NullHandler)]) == 1
    assert (root.level, root.handlers[:], others.level, others.handlers[:]) == before


@pytest.mark.spec("A52")
def test_the_traceback_of_a_failure_is_in_the_log_and_not_in_the_run(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    logs.setup("error")

    def broken(_request: object) -> str:
        raise RuntimeError("a bug of ours")

    run = lab.run([broken])
    assert run.outcome is Outcome.FAILED
    assert "Traceback" not in str(run.error)
    assert "Traceback" in caplog.text
    assert "in broken" in caplog.text
