"""`%agent undo`: file changes of a run are undone, even by a later kernel."""

from pathlib import Path

import pytest
import yaml

from kernels import kernel

pytestmark = pytest.mark.kernel

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
    {"text": "Done."},
]
CELL = "%%agent -m scripted/edits.yaml --confirm yolo\nChange some files."


def test_a_runs_file_changes_can_be_undone_even_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "edits.yaml").write_text(yaml.safe_dump(REPLIES))
    (tmp_path / "a.txt").write_text("one\n")
    with kernel(tmp_path) as started:
        assert "no run changed files; nothing to undo" in started.run("%agent undo").stdout
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
