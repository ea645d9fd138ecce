"""What loading begins in the background."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from IPython.core.getipython import get_ipython
from IPython.core.interactiveshell import InteractiveShell

from ipyagent import Session, ToolResult, magic
from ipyagent.magic.notebook_settings import NotebookSettings


def finish_import() -> None:
    """Wait for the import in the background; what its thread raises fails the test."""
    for thread in threading.enumerate():
        if thread.name == "ipyagent-import":
            thread.join()


def load_and_unload() -> None:
    shell = InteractiveShell()
    try:
        magic.load(shell)
        magic.unload(shell)
        finish_import()
    finally:
        shell.history_manager.end_session()


def test_loading_into_a_shell_that_is_not_the_global_one_prepares_the_model() -> None:
    assert get_ipython() is None
    load_and_unload()


def test_what_fails_in_the_background_is_left_to_the_cell_that_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []

    def fail(settings: NotebookSettings) -> None:
        asked.append(settings.home)
        raise OSError("no such device")

    monkeypatch.setattr("ipyagent.magic.notebook_settings.NotebookSettings.prepare_model", fail)
    load_and_unload()
    assert asked == [Path.cwd()]


def test_results_and_sessions_are_shown_properly_from_loading_on() -> None:
    shell = InteractiveShell()
    try:
        magic.load(shell)
        formats, _ = shell.display_formatter.format(ToolResult(output="<b>"))
        assert {"text/plain", "text/html"} <= formats.keys()
        formats, _ = shell.display_formatter.format(Session())
        assert formats["text/plain"] == "Session · 0 nodes"
        magic.unload(shell)
        finish_import()
    finally:
        shell.history_manager.end_session()
