"""The settings that people see: shortcuts that are free, and nothing that loosens approval."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

OURS = Path(__file__).parents[2] / "labextension" / "schema" / "settings.json"
SCHEMAS = Path(sys.prefix) / "share" / "jupyter" / "lab" / "schemas" / "@jupyterlab"


def shortcuts(schema: Path) -> Iterator[tuple[str, ...]]:
    for each in json.loads(schema.read_text())["jupyter.lab.shortcuts"]:
        yield tuple(_canonical(stroke) for stroke in each["keys"])


def _canonical(stroke: str) -> str:
    """As on systems where Accel is Ctrl, whatever the order."""
    return " ".join(sorted(stroke.replace("Accel", "Ctrl").split()))


@pytest.fixture(scope="module")
def ours() -> Any:
    return json.loads(OURS.read_text())


def test_no_shortcut_is_one_of_jupyterlab() -> None:
    if not SCHEMAS.is_dir():
        pytest.skip("JupyterLab is not installed here")
    schemas = [
        each for each in SCHEMAS.rglob("*.json") if "jupyter.lab.shortcuts" in each.read_text()
    ]
    taken = {keys for each in schemas for keys in shortcuts(each)}
    assert ("Ctrl M Shift",) in taken
    assert taken.isdisjoint(shortcuts(OURS))


def test_decisions_need_two_modifiers(ours: Any) -> None:
    keys = {each["command"]: each["keys"] for each in ours["jupyter.lab.shortcuts"]}
    for command in ("ipyagent:approve", "ipyagent:deny"):
        assert keys[command][0].startswith("Accel Shift ")


def test_settings_are_switches_that_say_what_they_do(ours: Any) -> None:
    assert ours["additionalProperties"] is False
    for setting in ours["properties"].values():
        assert {"title", "description", "type", "default"} <= set(setting)


def test_no_setting_is_about_approval(ours: Any) -> None:
    words = ("approv", "confirm", "yolo", "allow", "polic", "trust")
    assert [
        name for name in ours["properties"] if any(word in name.lower() for word in words)
    ] == []
