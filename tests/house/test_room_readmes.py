"""Each room has a README that names every file in it, and no other."""

from __future__ import annotations

import re

import pytest

from repository import SOURCE

ROOMS = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
ROW = re.compile(r"^\| `([^`]+\.py)` +\| \S", re.MULTILINE)


def test_there_are_rooms() -> None:
    assert {"agent", "kernel", "ui"} < set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_the_readme_of_a_room_names_its_files(room: str) -> None:
    folder = SOURCE / room
    listed = ROW.findall((folder / "README.md").read_text())
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*.py")}
    optional = {each for each in files if each.endswith("__init__.py")}
    assert sorted({*listed} - optional) == sorted(files - optional)
    assert len(listed) == len({*listed})
