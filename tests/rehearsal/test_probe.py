"""The probe notices each part of the isolation that does not hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ipyagent.rehearsal import process, system, watched_values
from ipyagent.rehearsal.probe import Probe
from ipyagent.tools.rehearsal import build_confinement
from rehearsal_trial import chosen, in_both_ways

NETWORK, PROCESSES = 0x40000000, 0x20000000


def probe(root: Path) -> str | None:
    attempt = Probe(build_confinement(root, chosen.way))
    attempt.start()
    return attempt.finish()


@in_both_ways
def test_an_isolation_that_holds_is_found_to_hold(tmp_path: Path) -> None:
    assert probe(tmp_path) is None


@in_both_ways
@pytest.mark.parametrize(
    ("home", "part", "escape"),
    [
        (process, "replace_descriptors", "writes through an open file"),
        (process, "build_root", "writes elsewhere"),
        (system, "leave_shared_memory", "writes to shared memory"),
        (system, "drop_capabilities", "has capabilities"),
        (system, "filter_calls", "starts processes"),
    ],
)
@pytest.mark.spec("E10")
def test_a_missing_part_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: object, part: str, escape: str
) -> None:
    if part == "build_root" and chosen.way == "Landlock":
        part = "restrict_files"
    monkeypatch.setattr(home, part, lambda *_: {})
    assert escape in (probe(tmp_path) or "")


@in_both_ways
def test_where_the_environment_cannot_be_cleaned_there_is_no_isolation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("memory cannot be read")

    monkeypatch.setattr(system, "clean_environment", fail)
    assert "cannot be isolated: memory cannot be read" in (probe(tmp_path) or "")


@pytest.mark.parametrize(
    ("flag", "escape"), [(NETWORK, "connects"), (PROCESSES, "signals the kernel")]
)
def test_a_shared_namespace_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: int, escape: str
) -> None:
    monkeypatch.setattr(system, "NAMESPACES", system.NAMESPACES & ~flag)
    found = probe(tmp_path) or ""
    assert escape in found or "cannot be isolated" in found


def test_landlock_with_the_filter_for_namespaces_is_noticed(tmp_path: Path) -> None:
    calls = build_confinement(tmp_path).call_filter
    attempt = Probe(replace(build_confinement(tmp_path, "Landlock"), call_filter=calls))
    attempt.start()
    found = attempt.finish() or ""
    assert "changes permissions" in found
    assert "limits the kernel" in found


def test_a_landlock_that_is_too_old_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system, "find_landlock_version", lambda: 2)
    monkeypatch.setattr(chosen, "way", "Landlock")
    assert "Landlock is too old here (version 2, 3 is needed)" in (probe(tmp_path) or "")


def test_a_system_that_does_not_tell_which_memory_is_written_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched_values, "_OWN", bytes(256))
    assert "writes to memory unnoticed" in (probe(tmp_path) or "")


@pytest.mark.spec("E10")
def test_a_system_without_namespaces_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(flags: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(system, "unshare", refuse)
    assert "users may not make namespaces here" in (probe(tmp_path) or "")
