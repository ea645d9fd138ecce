"""The probe notices each part of the isolation that does not hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipyagent.kernel.rehearsal import isolation, memory, system_calls, table_memory
from ipyagent.kernel.rehearsal.probe import Probe
from ipyagent.tools.sandbox.confinement import build_confinement

# The process that runs the tests is what is forked: other tests would leave threads in it.
pytestmark = pytest.mark.alone

NETWORK, PROCESSES = 0x40000000, 0x20000000


def probe(root: Path) -> str | None:
    attempt = Probe(build_confinement(root))
    attempt.start()
    return attempt.finish()


def test_an_isolation_that_holds_is_found_to_hold(tmp_path: Path) -> None:
    assert probe(tmp_path) is None


@pytest.mark.parametrize(
    ("home", "part", "escape"),
    [
        (isolation, "replace_descriptors", "writes through an open file"),
        (isolation, "build_root", "writes elsewhere"),
        (memory, "leave_shared_memory", "writes to shared memory"),
        (memory, "wipe", "sees a secret"),
        (system_calls, "drop_capabilities", "has capabilities"),
        (system_calls, "filter_calls", "starts processes"),
    ],
)
@pytest.mark.spec("E10")
def test_a_missing_part_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: object, part: str, escape: str
) -> None:
    monkeypatch.setattr(home, part, lambda *_: None)
    assert escape in (probe(tmp_path) or "")


@pytest.mark.parametrize(
    ("flag", "escape"), [(NETWORK, "connects"), (PROCESSES, "signals the kernel")]
)
def test_a_shared_namespace_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: int, escape: str
) -> None:
    monkeypatch.setattr(system_calls, "NAMESPACES", system_calls.NAMESPACES & ~flag)
    found = probe(tmp_path) or ""
    assert escape in found or "cannot be isolated" in found


def test_a_system_that_does_not_tell_which_memory_is_written_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_memory, "_OWN", bytes(256))
    assert "writes to memory unnoticed" in (probe(tmp_path) or "")


@pytest.mark.spec("E10")
def test_a_system_without_namespaces_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(flags: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(system_calls, "unshare", refuse)
    assert "users may not make namespaces here" in (probe(tmp_path) or "")
