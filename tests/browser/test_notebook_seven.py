"""The same in Notebook 7, which has no side bars of JupyterLab's and no status bar."""

from __future__ import annotations

from typing import Any

import pytest
from deciding import decide_on_two_cells
from scripts import script

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_after_a_click_the_keyboard_works(notebook_seven: Any, seventh: Any) -> None:
    call = {"name": "run_python", "arguments": {"code": "x = 1"}}
    option = script(notebook_seven.folder, "clicked", {"calls": [call]}, "Done.")
    load = "%load_ext ipyagent"
    book = seventh(load, f"%%agent {option}\nOne.", f"%%agent {option}\nTwo.")
    book.start_all()
    decide_on_two_cells(book, 1, 2)
