"""A reset kernel, which stands for a new one in these tests, remembers nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels import Kernel

pytestmark = pytest.mark.kernel


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
