"""The front end's types are those of the messages, and its fixtures are what pages are told."""

from __future__ import annotations

import json
import subprocess
import sys
import typing
from pathlib import Path

import pytest
from rich_run import FIXTURES, STORIES, fixture

from ipyagent import schema

LABEXTENSION = Path(__file__).parents[2] / "labextension"


def test_the_types_of_the_front_end_are_those_of_the_messages() -> None:
    """The whole comparison is a part of `make js`: it needs Node; this finds what is missing."""
    types = (LABEXTENSION / "src/protocol.ts").read_text()
    command = [sys.executable, "protocol.py", "--list"]
    listed = subprocess.run(command, cwd=LABEXTENSION, capture_output=True, text=True, check=True)
    for name, fields in json.loads(listed.stdout).items():
        _, found, rest = types.partition(f"export interface {name} {{\n")
        assert found, f"{name}: run `make protocol`"
        written = [line.split(":")[0].strip() for line in rest.split("\n}\n")[0].split("\n")]
        assert [line for line in written if line in fields] == fields, f"{name}: `make protocol`"


def test_the_stories_have_every_kind_of_event() -> None:
    members = typing.get_args(typing.get_args(schema.Event)[0])
    assert {type(event) for story in STORIES.values() for event in story()} == set(members)


@pytest.mark.parametrize("name", STORIES)
def test_a_shared_fixture_is_what_a_page_is_told(name: str) -> None:
    """`labextension/src/__tests__/channel.test.ts` follows the same changes."""
    assert json.loads((FIXTURES / name).read_text()) == fixture(name), (
        "run `python tests/labextension/rich_run.py`"
    )
