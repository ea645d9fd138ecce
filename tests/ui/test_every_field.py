"""Text in any field of what is drawn, whoever wrote it, is text in the HTML."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from ipyagent import schema
from ipyagent.ui import panel
from ipyagent.ui.blocks import Block, list_blocks
from ipyagent.ui.live_blocks import LiveBlocks
from ipyagent.ui.transcript import Todo, Transcript

MARKUP, ESCAPED = (rf"{each}i id=x title=([\w.]+)" for each in ("<", "&lt;"))
FORMATS = ["text/html", "text/markdown", "text/plain", "text/latex", "image/png", "a/b"]


def make(kind: Any, chance: random.Random, name: str) -> Any:
    """A value of a type; each text in it is markup that says where it was."""
    markup = f"\"'>--></textarea><i id=x title={name}>"
    of, parts = get_origin(kind), get_args(kind)
    if of is Annotated:
        return make(parts[0], chance, name)
    fields = getattr(kind, "model_fields", None) or getattr(kind, "_fields", ())
    if fields:
        kinds = get_type_hints(kind, include_extras=True)
        return kind(**{each: make(kinds[each], chance, f"{name}.{each}") for each in fields})
    if of is tuple:
        count = chance.randrange(3) if name.count("children") < 3 else 0
        return tuple(make(parts[0], chance, name) for _ in range(count))
    if of in (Union, UnionType):
        return make(chance.choice(parts), chance, name)
    if of is dict:
        return dict.fromkeys(chance.sample([*FORMATS, "source", markup], 3), markup)
    if of is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
        return chance.choice(parts or [*kind])
    numbers = {bool: chance.random() < 0.5, int: chance.randrange(3), float: 1.5}
    others = {type(None): None, datetime: datetime(2026, 3, 1, tzinfo=UTC), **numbers}
    return others.get(kind, markup)


def draw_run(chance: random.Random) -> Iterator[Block]:
    drawn = make(Transcript, chance, "run")
    yield from list_blocks(drawn)
    for each in getattr(LiveBlocks().update(drawn), "set", ()):
        yield Block(each.key, "", each.html)


def draw_panel(chance: random.Random) -> Iterator[Block]:
    def some(kind: Any, name: str) -> Any:
        return make(tuple[kind, ...], chance, name)

    texts = (f"\"'><i id=x title=text{number}>" for number in itertools.count())
    call = schema.ToolCall(id="1", name=next(texts), arguments={})
    steps = [(schema.PlanStep(call=call, note=next(texts)), chance.choice([*schema.ToolStatus]))]
    yield from panel.draw_progress(steps, some(Todo, "todo"), next(texts))
    yield from panel.draw_runs(map(panel.run_line, some(panel.RunRow, "run")))
    kinds = get_args(schema.VariableChange.model_fields["change"].annotation)
    about = ({"type": next(texts)}, {"summary": next(texts)})
    changes = (
        schema.VariableChange(name=next(texts), change=kind, **chance.choice(about))
        for kind in kinds
    )
    yield from panel.draw_variables([panel.variable_line(each, "1") for each in changes])
    session = schema.Session(name=next(texts))
    yield from panel.draw_sessions([session], {session.id: next(texts)}, None, is_free=True)


@pytest.mark.parametrize(("draw", "fields"), [(draw_run, 60), (draw_panel, 15)])
def test_no_field_is_markup(draw: Any, fields: int) -> None:
    html = [each.html for seed in range(15) for each in draw(random.Random(seed))]
    assert {*re.findall(MARKUP, "".join(html))} == set()
    assert len({*re.findall(ESCAPED, "".join(html))}) >= fields
