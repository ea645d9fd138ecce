"""An approved call is compared with what its rehearsal had shown, also if it noticed that."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import YES, Lab
from ipyagent.kernel import namespace
from ipyagent.rehearsal import system
from ipyagent.schema import ToolExecution
from ipyagent.tools.rehearsed import Isolation
from ipyagent.wiring import runtime
from rehearsal_trial import play

pytestmark = [pytest.mark.alone, pytest.mark.usefixtures("needs_isolation")]

TWO_FACED = "import os\nn.append(1)\nif os.getpid() == {}:\n    {}"
"""Code that does more once it runs in the kernel, by whose number it knows it."""
AS_SHOWN = "as rehearsed (workspace files, variables, working folder, environment)"


@pytest.fixture(autouse=True)
def same_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave the environment and the working folder of the tests as they were."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLOR", "red")
    yield
    os.environ.pop("SHAPE", None)


def approved(root: Path, code: str) -> ToolExecution:
    run = play(Lab(root, {"n": [0]}), code, answer=YES)
    return run.executions[0]


def compared(found: ToolExecution) -> str:
    assert found.result is not None
    assert found.result.success, found
    assert found.rehearsal is not None
    text = found.rehearsal.compared
    assert found.rehearsal.differs is text.startswith("not ")
    return text


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("open('evil.txt', 'w').close()", "also wrote evil.txt"),
        ("os.mkdir('evil')", "also wrote evil"),
        ("os.truncate('kept.txt', 1)", "also wrote kept.txt"),
        ("os.remove('kept.txt')", "also deleted kept.txt"),
        ("os.environ['SHAPE'] = 'a secret'", "also set SHAPE"),
        ("os.environ['COLOR'] = 'a secret'", "also set COLOR"),
        ("del os.environ['COLOR']", "also unset COLOR"),
        ("os.chdir('folder')", "also set the working folder to {}/folder"),
        ("m = 2", "also created m"),
        ("open('a\\n(as rehearsed)', 'w').close()", "also wrote a\\n(as rehearsed)"),
    ],
)
def test_code_that_does_more_than_on_the_copy_is_found_out(
    tmp_path: Path, more: str, says: str
) -> None:
    (tmp_path / "kept.txt").write_text("kept")
    (tmp_path / "folder").mkdir()
    found = approved(tmp_path, TWO_FACED.format(os.getpid(), more))
    expected = f"not as rehearsed: {says.format(tmp_path)}"
    assert compared(found) == expected
    assert f"({expected})" in (found.result.for_model or "")
    assert "a secret" not in found.result.text_for_model


def test_what_was_shown_and_not_done_is_found_out(tmp_path: Path) -> None:
    less = "import os\nn.append(1)\nif os.getpid() != {}:\n    open('a.txt', 'w').close()"
    found = approved(tmp_path, less.format(os.getpid()))
    assert compared(found) == "not as rehearsed: missing: wrote a.txt"


@pytest.mark.parametrize(
    "code",
    [
        "n.append(1)",
        "open('a.txt', 'w').close()",
        "import os\nos.makedirs('a/b')\nopen('a/b/c.txt', 'w').close()",
        "open('kept.txt', 'w').close()",
        "import shutil\nshutil.rmtree('folder')",
        "import os\nos.environ['SHAPE'] = 'round'\nos.chdir('folder')\nn.append(1)",
    ],
)
def test_code_that_does_the_same_is_as_rehearsed_and_says_what_was_compared(
    tmp_path: Path, code: str
) -> None:
    (tmp_path / "kept.txt").write_text("kept")
    (tmp_path / "folder/deep").mkdir(parents=True)
    (tmp_path / "folder/deep/b.txt").write_text("b")
    found = approved(tmp_path, code)
    assert compared(found) == AS_SHOWN
    assert "rehearsed" not in found.result.text_for_model


def test_a_file_that_cannot_be_written_on_the_copy_was_shown_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation_problems: dict[str, str | None]
) -> None:
    if problem := isolation_problems["Landlock"]:
        pytest.skip(problem)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(system, "unshare", refuse)
    monkeypatch.setattr(runtime(), "isolation", Isolation())
    found = approved(tmp_path, "n.append(1)\nopen('a.txt', 'w').close()")
    assert runtime().isolation.method == "Landlock"
    assert compared(found) == AS_SHOWN


def test_a_notebook_that_jupyter_saves_meanwhile_is_not_taken_for_the_codes_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "mine.ipynb"))
    code = TWO_FACED.format(os.getpid(), "open('mine.ipynb', 'w').close()")
    assert compared(approved(tmp_path, code)) == AS_SHOWN


def test_what_code_would_set_is_shown_before_it_is_approved(tmp_path: Path) -> None:
    found = approved(tmp_path, "import os\nos.environ['SHAPE'] = 'round'\nn.append(1)")
    assert found.rehearsal is not None
    assert found.rehearsal.settings == ("set SHAPE",)


def test_files_that_are_too_many_are_not_said_to_be_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespace, "MOST_FILES", 3)
    for number in range(4):
        (tmp_path / f"{number}.txt").touch()
    assert compared(approved(tmp_path, "n.append(1)")) == (
        "as rehearsed (variables, working folder, environment; "
        "files not compared: more than 20,000)"
    )
