"""Runs saved in a notebook, and the events that led to them."""

import json
from pathlib import Path

import nbformat
import pytest
from hypothesis import given, settings

from ipyagent import schema as s
from ipyagent.errors import SessionError
from ipyagent.schema import fold
from ipyagent.schema.run_states import RUN_MIME
from ipyagent.store.graph_file import NotebookRecordings, list_notebooks, runs_in_notebook
from replayed import events_from_run
from schema.strategies import runs
from stories import PLAN, called, whole_run


def fold_all(events: list[s.Event]) -> s.Run:
    run = None
    for event in events:
        run = fold(run, event)
    assert run is not None
    return run


def finished_run(run_id: str = "r1", **changes: object) -> s.Run:
    return fold_all(whole_run(run_id)).model_copy(update=changes)


@given(runs)
@settings(max_examples=100, deadline=None)
def test_the_events_of_a_run_fold_to_the_run(run: s.Run) -> None:
    numbered = tuple(step.model_copy(update={"notes": ()}) for step in run.steps)
    ended = run.model_copy(update={"steps": numbered})
    if run.is_finished:
        reason = run.stop_reason or s.StopReason.FINISHED
        ended = ended.model_copy(update={"stop_reason": reason, "duration": run.duration or 0.0})
    else:
        ended = ended.model_copy(update={"status": s.RunStatus.RUNNING} | NOTHING)
    back = fold_all(events_from_run(ended))
    assert back.model_copy(update={"stop_reason": ended.stop_reason}) == ended


NOTHING = {"stop_reason": None, "error": None, "duration": None, "expected": (), "numbers": ()}


def test_retries_stay_with_their_step_and_a_summary_s_note_goes_to_the_run() -> None:
    retry = "Too many requests. Retry 1/2 in 3.2 s."
    run = finished_run(notes=("Hello.",))
    steps = (run.steps[0].model_copy(update={"notes": (retry, "Summarised.")}), *run.steps[1:])
    back = fold_all(events_from_run(run.model_copy(update={"steps": steps})))
    assert back.steps[0].notes == (retry,)
    assert back.notes == ("Hello.", "Summarised.")


def test_a_call_without_a_result_stays_open() -> None:
    events = [e for e in whole_run() if not isinstance(e, s.ToolFinished | s.RunFinished)]
    run = fold_all(events[:7])
    assert run.executions[0].status is s.ToolStatus.RUNNING
    assert fold_all(events_from_run(run)) == run
    assert "step_finished" not in [event.type for event in events_from_run(run)]


def test_a_plan_and_a_denied_call_are_replayed() -> None:
    denied = s.ToolExecution(
        call=called(),
        status=s.ToolStatus.DENIED,
        decision=s.Decision.DENIED,
        result=s.ToolResult.failure("no"),
    )
    step = s.Step(number=1, executions=(denied,), closing=True)
    run = finished_run(steps=(step,), plan=PLAN)
    assert fold_all(events_from_run(run)) == run


def test_no_call_of_a_dry_run_is_replayed_as_one_that_ran() -> None:
    result = s.ToolResult(output="Dry run: not executed.")
    dry = s.ToolExecution(call=called(), status=s.ToolStatus.SUCCESS, result=result, dry_run=True)
    run = finished_run(steps=(s.Step(number=1, executions=(dry,)),))
    assert fold_all(events_from_run(run)) == run
    assert "tool_running" not in [event.type for event in events_from_run(run)]


# -- notebooks


def notebook(path: Path, *bundles: dict[str, object]) -> Path:
    book = nbformat.v4.new_notebook()
    book.cells = [nbformat.v4.new_markdown_cell("# Report")]
    for data in bundles:
        output = nbformat.v4.new_output("display_data", data={"text/plain": "x", **data})
        printed = nbformat.v4.new_output("stream", text="printed")
        book.cells.append(nbformat.v4.new_code_cell("%%agent", outputs=[printed, output]))
    nbformat.write(book, path)
    return path


def test_the_runs_of_a_notebook_come_in_the_order_of_its_cells(tmp_path: Path) -> None:
    one, two = finished_run("one"), finished_run("two", status=s.RunStatus.CANCELLED)
    bundles = [{RUN_MIME: run.to_dict()} for run in (two, one, two)]
    path = notebook(tmp_path / "a.ipynb", bundles[0], {}, *bundles[1:])
    cells = nbformat.read(path, as_version=4).cells
    held = [(two, cells[1]), (one, cells[3])]
    assert runs_in_notebook(path) == [r.model_copy(update={"cell_id": c.id}) for r, c in held]


def test_the_images_of_a_run_come_from_the_html_beside_it(tmp_path: Path) -> None:
    data = finished_run().to_dict()
    result = data["steps"][0]["executions"][0]["result"]
    result["images"] = [{"type": "image", "data": "html:1"}, {"type": "image", "data": "html:7"}]
    result["displays"] = [{"data": {"image/png": "html:0", "text/plain": "html:0"}}]
    data["steps"][0]["executions"][0]["call"]["arguments"] = {"data": "html:0"}
    html = "".join(
        f'<p><img src="data:image/png;base64,{each}" alt=""></p>' for each in ("AA", "BB")
    )
    for shape in (html, [html[:20], html[20:]]):
        path = notebook(tmp_path / "a.ipynb", {RUN_MIME: data, "text/html": shape})
        (execution,) = runs_in_notebook(path)[0].steps[0].executions
        assert [image.data for image in execution.result.images] == ["BB", "html:7"]
        assert execution.result.displays[0].data == {"image/png": "AA", "text/plain": "html:0"}
        assert execution.call.arguments == {"data": "html:0"}


def test_a_notebook_of_a_newer_version_is_read_with_a_warning(tmp_path: Path) -> None:
    data = finished_run().to_dict()
    data["steps"][0]["executions"][0]["weather"] = "sunny"
    data["mood"] = "good"
    path = notebook(tmp_path / "a.ipynb", {RUN_MIME: data})
    with pytest.warns(UserWarning, match="left out: mood, weather"):
        (run,) = runs_in_notebook(path)
    assert run.model_copy(update={"cell_id": None}) == finished_at(data)


def finished_at(data: dict[str, object]) -> s.Run:
    """Return the run without fields that a replay cannot know."""
    known = json.loads(json.dumps(data))
    del known["mood"], known["steps"][0]["executions"][0]["weather"]
    return s.Run.from_dict(known)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ("{}", "is not a notebook"),
        ('{"cells": {}}', "is not a notebook"),
    ],
)
def test_a_file_that_is_not_a_notebook_is_an_error(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_text(text)
    with pytest.raises(SessionError, match=f"{path} {said}"):
        runs_in_notebook(path)


def test_the_error_for_an_unreadable_run_names_its_cell(tmp_path: Path) -> None:
    path = notebook(tmp_path / "a.ipynb", {RUN_MIME: {"id": "r1", "status": "dreaming"}})
    with pytest.raises(SessionError, match=r"a.ipynb, cell 2: the run status"):
        runs_in_notebook(path)


@pytest.mark.parametrize("cells", [[None], [{}], [{"outputs": [1, {"data": 2}, {}]}]])
def test_malformed_cells_hold_no_runs(cells: list[object], tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells}))
    assert runs_in_notebook(tmp_path / "a.ipynb") == []


DEEP = "[" * 500 + "]" * 500


@pytest.mark.parametrize("outputs", ["5", f'[{{"data": {{"{RUN_MIME}": {DEEP}}}}}]'])
def test_a_broken_notebook_beside_another_holds_no_recordings(outputs: str, tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").write_text(
        f'{{"cells": [{{"outputs": {outputs}}}], "about": "{RUN_MIME}"}}'
    )
    notebook(tmp_path / "b.ipynb", {RUN_MIME: finished_run().to_dict()})
    found = NotebookRecordings().list_runs(list_notebooks(tmp_path, "a.ipynb"))
    assert [run.id for run in found] == ["r1"]


def test_a_link_to_a_device_is_not_read_as_a_notebook(tmp_path: Path) -> None:
    (tmp_path / "a.ipynb").symlink_to("/dev/null")
    recordings = NotebookRecordings()
    assert list(recordings.list_runs(list_notebooks(tmp_path, ""))) == []
    assert recordings.times_read == 0
