"""`%agent undo` and `%agent blame` in kernels, and a reset kernel, which remembers nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels import Kernel, kernel, python, script

pytestmark = pytest.mark.kernel


# `%agent undo`: file changes of a run are undone, even by a later kernel --------------------------

REPLIES = [
    {
        "calls": [
            {"name": "write_file", "arguments": {"path": "new.txt", "content": "made\n"}},
            {
                "name": "edit_file",
                "arguments": {"path": "a.txt", "old_string": "one", "new_string": "two"},
            },
        ]
    },
    "Done.",
]
CELL = "%%agent -m scripted/script.yaml --confirm yolo\nChange some files."


@pytest.mark.spec("E03")
def test_a_runs_file_changes_can_be_undone_even_after_a_restart(tmp_path: Path) -> None:
    script(tmp_path, *REPLIES)
    (tmp_path / "a.txt").write_text("one\n")
    with kernel(tmp_path) as started:
        assert (
            "no run changed files, variables or cells that can be taken back"
            in started.run("%agent undo").stdout
        )
        started.run(CELL)
        assert (tmp_path / "a.txt").read_text() == "two\n"
    with kernel(tmp_path) as later:
        text = later.run("%agent undo").stdout
        assert "a.txt is as it was before run" in text
        assert "new.txt is as it was before run" in text
        assert (tmp_path / "a.txt").read_text() == "one\n"
        assert not (tmp_path / "new.txt").exists()
        (tmp_path / "a.txt").write_text("three")
        assert "a.txt has changed since, so it is left as it is" in later.run("%agent undo").stdout
        assert "no run has the id 'zz'" in later.run("%agent undo zz").stdout


@pytest.mark.spec("E03")
def test_a_run_of_a_named_session_can_be_undone_by_a_kernel_that_has_not_used_it(
    tmp_path: Path,
) -> None:
    script(tmp_path, *REPLIES)
    (tmp_path / "a.txt").write_text("one\n")
    with kernel(tmp_path) as started:
        reply = started.run(CELL.replace("--confirm", "--session aside --confirm"))
    with kernel(tmp_path) as later:
        assert "a.txt is as it was before run" in later.run(f"%agent undo {reply.run['id']}").stdout
        assert "aside" not in later.run("%agent runs").stdout
    assert (tmp_path / "a.txt").read_text() == "one\n"


SETUP = "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})\nother = df\nn = 1"


@pytest.mark.spec("E03", "E05")
def test_a_runs_changes_of_variables_are_taken_back_and_put_back(tmp_path: Path) -> None:
    script(tmp_path, python("df['c'] = 1\nn = 2\nnew = [1]"), "Done.")
    with kernel(tmp_path) as started:
        started.run(SETUP)
        run_id = started.run(CELL).run["id"]
        assert started.value("(list(df), n, new)") == "(['a', 'c'], 2, [1])"
        assert "[undo: df, other, n, new]" in started.run("%agent runs").stdout
        said = started.run("%agent undo --dry-run").stdout
        assert "df: removes c\n" in said
        assert started.value("list(df)") == "['a', 'c']"
        said = started.run("%agent undo").stdout
        assert "`%agent undo u1` takes this back" in said
        assert started.value("(list(df), n, 'new' in dir(), df is other)") == (
            "(['a'], 1, False, True)"
        )
        assert "[taken back]" in started.run("%agent runs").stdout
        assert started.value("len(__import__('ipyagent').last.taken_back)") == "1"
        assert (
            "is taken back already; `%agent undo u1`" in started.run(f"%agent undo {run_id}").stdout
        )
        started.run("%agent undo u1")
        assert started.value("__import__('ipyagent').last.taken_back") == "()"
        assert started.value("(list(df), n, new)") == "(['a', 'c'], 2, [1])"
        assert "usage: %agent undo" in started.run("%agent undo --all").stdout
        started.run("import ipyagent\nipyagent.last.undo()")
        assert started.value("n") == "1"


@pytest.mark.spec("E03")
def test_runs_of_other_sessions_are_listed_and_taken_back_too(
    fresh: Kernel, tmp_path: Path
) -> None:
    for name, more in (("first", ""), ("second", "--session aside")):
        option = script(tmp_path, python(f"{name} = 1"), "Done.")
        fresh.run(f"%%agent {option} --confirm yolo {more}\nMake {name}.")
    mine, aside = fresh.run("%agent runs").stdout.splitlines()
    assert mine.endswith("Make first.  [undo: first]")
    assert aside.endswith("Make second.  [undo: second]  (session aside)")
    assert fresh.run(f"%agent show {aside.split()[0]}").run["prompt"] == "Make second."
    assert "created" in fresh.run("%agent blame second").stdout
    assert "second is as it was" in fresh.run("%agent undo").stdout
    assert fresh.value("('first' in dir(), 'second' in dir())") == "(True, False)"
    assert "first is as it was" in fresh.run(f"%agent undo {mine.split()[0]}").stdout


# `%agent blame` in a real kernel ------------------------------------------------------------------


@pytest.mark.spec("E14")
def test_blame_names_runs_and_the_users_own_cells(fresh: Kernel, tmp_path: Path) -> None:
    fresh.run("import pandas as pd\ndf = pd.DataFrame({'a': [1, 2]})\nn = 1")
    option = script(tmp_path, python("df['c'] = 1\nn = 2"), "Done.")
    fresh.run(f"%%agent {option} --confirm yolo\nAdd a column.")
    fresh.run("df = df.head(1)")
    mine, agents, first = fresh.run("%agent blame df").stdout.splitlines()
    assert "changed · your cell [" in mine
    assert mine.endswith("df = df.head(1)")
    assert "changed: 2 × 1 → 2 × 2 · + c (int64) · run " in agents
    assert agents.endswith("df['c'] = 1")
    assert "created · your cell [" in first
    (column,) = fresh.run("%agent blame df.c").stdout.splitlines()
    assert "+ c (int64)" in column
    assert "there is no such variable" in fresh.run("%agent blame nothing").stdout
    assert "usage: %agent blame" in fresh.run("%agent blame").stdout
    look = {"calls": [{"name": "inspect_variable", "arguments": {"name": "n"}}]}
    fresh.run(f"%%agent {script(tmp_path, look, 'Done.')}\nWhat is n?")
    fresh.run("import ipyagent\nlooked = ipyagent.last.results[0]")
    assert " · run " in fresh.value("looked.output")
    assert " · run " not in fresh.value("looked.for_model")


# A reset kernel, which stands for a new one in these tests, remembers nothing ---------------------


def test_a_reset_kernel_has_no_variables_runs_or_settings_and_another_folder(
    fresh: Kernel, tmp_path: Path
) -> None:
    (tmp_path / "hello.yaml").write_text("- Hello.\n")
    fresh.run("%agent config agent.max_steps=11")
    assert fresh.run("%%agent -m scripted/hello.yaml -o kept\nBegin.").run["max_steps"] == 11
    other = tmp_path / "other"
    other.mkdir()
    fresh.reset(other)
    (other / "hello.yaml").write_text("- Hello.\n")
    assert fresh.value("'kept' in globals()") == "False"
    assert fresh.value("__import__('ipyagent').last") == "None"
    assert "11" not in fresh.run("%agent config agent.max_steps").stdout
    assert not (other / ".ipyagent").exists()
    run = fresh.run("%%agent -m scripted/hello.yaml\nBegin.").run
    assert (run["status"], run["max_steps"] == 11) == ("done", False)
    assert (other / ".ipyagent" / "state.db").exists()
