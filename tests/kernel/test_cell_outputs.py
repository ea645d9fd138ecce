"""The outputs of code as a notebook's cell holds them."""

from __future__ import annotations

import base64
from typing import Any

import nbformat
import pytest

from ipyagent.agent.tool_context import last_lines
from ipyagent.kernel.outputs import CellOutputs, Channel, Outputs
from ipyagent.redaction import Redactor

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def validated(outputs: CellOutputs) -> list[dict[str, Any]]:
    """Return the outputs, validated by nbformat."""
    cell = nbformat.v4.new_code_cell(outputs=nbformat.from_dict(outputs.cell()))
    nbformat.validate(nbformat.v4.new_notebook(cells=[cell]))
    return outputs.cell()


def test_text_of_one_stream_is_one_output_until_another_comes():
    outputs = CellOutputs(1)
    for channel, text in (("stdout", "a"), ("stdout", "b\n"), ("stderr", "c"), ("stdout", "d")):
        outputs.write(channel, text)
    assert [(each["name"], each["text"]) for each in validated(outputs)] == [
        ("stdout", "ab\n"),
        ("stderr", "c"),
        ("stdout", "d"),
    ]


def printed(*texts: tuple[Channel, str]) -> Outputs:
    outputs = Outputs()
    for channel, text in texts:
        outputs.write(channel, text)
    return outputs


def test_a_bar_beside_printed_lines_is_one_line_below_them():
    """As tqdm writes it: each state begins with a carriage return, only the last ends its line."""
    bar: list[tuple[Channel, str]] = [("stderr", "warning\n"), ("stderr", "\r  0%|     |")]
    for n in range(1, 5):
        bar += [("stdout", f"epoch {n}\n"), ("stderr", f"\r {25 * n}%|{'#' * n:5}|")]
    outputs = printed(*bar, ("stderr", "\n"))
    epochs = ["epoch 1", "epoch 2", "epoch 3", "epoch 4"]
    lines = ["[stderr]", "warning", "[stdout]", *epochs, "[stderr]", " 100%|#### |"]
    assert outputs.text().split("\n") == lines
    live = last_lines(outputs.recent_text() or "", Redactor())
    assert live.split("\n") == ["warning", *epochs, " 100%|#### |"]


def test_channels_that_alternate_often_are_told_once_in_their_order():
    alternating: list[tuple[Channel, str]] = [("stdout", "a\n"), ("stderr", "b\n")] * 2
    assert printed(*alternating).text() == "a\n[stderr]\nb\n[stdout]\na\n[stderr]\nb"
    often = printed(*alternating, *alternating)
    assert often.text() == "[stdout and stderr]\n" + "\n".join("abababab")


def test_an_image_is_kept_whole_with_its_metadata():
    outputs = CellOutputs(1)
    size = {"image/png": {"width": 3}}
    outputs.show({"image/png": PNG, "text/plain": "f"}, None, size)
    (output,) = validated(outputs)
    assert base64.b64decode(output["data"]["image/png"]) == PNG
    assert (output["output_type"], output["metadata"]) == (
        "display_data",
        {"image/png": {"width": 3}},
    )


def test_json_stays_json_and_other_objects_become_text():
    outputs = CellOutputs(1)
    view = {"model_id": "abc"}
    outputs.show({"application/vnd.jupyter.widget-view+json": view, "text/html": {1}})
    data = validated(outputs)[0]["data"]
    assert data == {"application/vnd.jupyter.widget-view+json": view, "text/html": '"{1}"'}


def test_a_display_is_updated_where_it_was_shown():
    outputs = CellOutputs(1)
    outputs.show({"text/plain": "0 %"}, "bar")
    outputs.write("stdout", "x")
    assert outputs.update({"text/plain": "100 %"}, "bar")
    assert not outputs.update({"text/plain": "?"}, "other")
    assert validated(outputs)[0]["data"] == {"text/plain": "100 %"}


@pytest.mark.parametrize(("wait", "left"), [(False, []), (True, ["a"])])
def test_outputs_are_cleared_at_once_or_when_more_arrives(wait: bool, left: list[str]):
    outputs = CellOutputs(1)
    outputs.write("stdout", "a")
    outputs.clear(wait)
    assert [each["text"] for each in outputs.cell()] == left
    outputs.write("stdout", "b")
    assert [each["text"] for each in validated(outputs)] == ["b"]


def test_output_too_large_for_a_notebook_is_mentioned_once_and_not_kept(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("ipyagent.kernel.outputs.CELL_ROOM", 10)
    outputs = CellOutputs(1)
    outputs.write("stdout", "12345678")
    for _ in range(3):
        outputs.write("stdout", "90123")
        outputs.show({"text/plain": "large"})
    assert [each["text"] for each in validated(outputs)] == [
        "12345678",
        "[more output is not kept here: it is too large]\n",
    ]
