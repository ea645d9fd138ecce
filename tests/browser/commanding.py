"""Commands, and the actions below a cell that failed."""

from __future__ import annotations

from typing import Any

ADD = "[data-command='ipyagent:add-cell']"


def is_enabled(book: Any, command: str) -> bool:
    check = "command => window.jupyterapp.commands.isEnabled(command)"
    return bool(book.page.evaluate(check, command))


def await_enabled(book: Any, command: str) -> None:
    check = "command => window.jupyterapp.commands.isEnabled(command)"
    book.page.wait_for_function(check, arg=command)


def to_command_mode(book: Any, index: int) -> None:
    book.prompt(index).click()


def source(book: Any, index: int) -> str:
    """What a cell holds; the editor draws only the lines that are in view."""
    get = "index => window.jupyterapp.shell.currentWidget.content.widgets[index].model"
    return str(book.page.evaluate(f"{get}.sharedModel.getSource()", index))


def actions(book: Any, index: int) -> Any:
    return book.cell(index).locator("[data-ipyagent=fix], [data-ipyagent=explain]")
