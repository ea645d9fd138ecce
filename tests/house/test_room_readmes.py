"""Each room has a README that names every file in it, and no other."""

from __future__ import annotations

import re

import pytest

from repository import FRONT_END, SOURCE, read_front_end

ROOMS = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
ROW = re.compile(r"^\| `([^`]+\.(?:py|ts|json))` +\| \S", re.MULTILINE)
FILE = re.compile(r"`((?:src|style|schema)/[\w./]+|\w+\.(?:py|mjs|ts))`")


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


def test_the_readme_of_the_front_end_names_its_files() -> None:
    """Its tables have the files of `src`, `src/view` and `src/lab`; its text names other files."""
    front_end = FRONT_END.parent
    listed, text = [], (front_end / "README.md").read_text()
    for folder, table in zip(("", "view/", "lab/"), text.split("| file ")[1:], strict=True):
        listed += [f"{folder}{name}" for name in ROW.findall(table)]
    generated = {"protocol.ts", *(path.name for path in FRONT_END.glob("*.json"))}
    sources = {path for path in read_front_end() if not path.startswith("__tests__/")}
    assert sorted(listed) == sorted(sources | generated)
    places = (front_end, FRONT_END, SOURCE.parents[1])
    named = {name for line in text.split("\n") if line[:1] != "|" for name in FILE.findall(line)}
    assert [name for name in named if not any((place / name).exists() for place in places)] == []
