"""What code puts out, as a notebook's cell holds it."""

from __future__ import annotations

import base64
from typing import Any

import nbformat
import pytest

from ipyagent.kernel import cell_outputs
from ipyagent.kernel.cell_outputs import CellOutputs

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def checked(outputs: CellOutputs) -> list[dict[str, Any]]:
    """The outputs, which nbformat accepts."""
    cell = nbformat.v4.new_code_cell(outputs=nbformat.from_dict(outputs.cell()))
    nbformat.validate(nbformat.v4.new_notebook(cells=[cell]))
    return outputs.cell()


def test_text_of_one_stream_is_one_output_until_another_comes():
    outputs = CellOutputs(1)
    for channel, text in (("stdout", "a"), ("stdout", "b\n"), ("stderr", "c"), ("stdout", "d")):
        outputs.write(channel, text)
    assert [(each["name"], each["text"]) for each in checked(outputs)] == [
        ("stdout", "ab\n"),
        ("stderr", "c"),
        ("stdout", "d"),
    ]


def test_an_image_is_kept_whole_with_its_metadata():
    outputs = CellOutputs(1)
    size = {"image/png": {"width": 3}}
    outputs.show({"image/png": PNG, "text/plain": "f"}, None, size)
    (shown,) = checked(outputs)
    assert base64.b64decode(shown["data"]["image/png"]) == PNG
    assert (shown["output_type"], shown["metadata"]) == (
        "display_data",
        {"image/png": {"width": 3}},
    )


def test_json_stays_json_and_what_is_none_becomes_text():
    outputs = CellOutputs(1)
    view = {"model_id": "abc"}
    outputs.show({"application/vnd.jupyter.widget-view+json": view, "text/html": {1}})
    data = checked(outputs)[0]["data"]
    assert data == {"application/vnd.jupyter.widget-view+json": view, "text/html": '"{1}"'}


def test_a_display_is_updated_where_it_was_shown():
    outputs = CellOutputs(1)
    outputs.show({"text/plain": "0 %"}, "bar")
    outputs.write("stdout", "x")
    assert outputs.update({"text/plain": "100 %"}, "bar")
    assert not outputs.update({"text/plain": "?"}, "other")
    assert checked(outputs)[0]["data"] == {"text/plain": "100 %"}


@pytest.mark.parametrize(("wait", "left"), [(False, []), (True, ["a"])])
def test_cleared_outputs_are_gone_at_once_or_when_more_comes(wait: bool, left: list[str]):
    outputs = CellOutputs(1)
    outputs.write("stdout", "a")
    outputs.clear(wait)
    assert [each["text"] for each in outputs.cell()] == left
    outputs.write("stdout", "b")
    assert [each["text"] for each in checked(outputs)] == ["b"]


def test_more_than_a_notebook_should_hold_is_named_once_and_not_kept(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(cell_outputs, "ROOM", 10)
    outputs = CellOutputs(1)
    outputs.write("stdout", "12345678")
    for _ in range(3):
        outputs.write("stdout", "90123")
        outputs.show({"text/plain": "large"})
    assert [each["text"] for each in checked(outputs)] == [
        "12345678",
        "[more output is not kept here: it is too large]\n",
    ]
