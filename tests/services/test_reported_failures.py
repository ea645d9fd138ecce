"""Failures that are reported in successful answers, and data that only looks like them."""

from typing import Any

import pytest

from ipyagent.services import find_failure, parse_object

FAILED: list[tuple[Any, str]] = [
    ({"exit_code": 1}, "exit code 1"),
    ({"exit_code": -9, "stdout": ""}, "exit code -9"),
    ({"exitCode": 127, "stderr": "sh: x:\n not found\n"}, "exit code 127: sh: x: not found"),
    ({"returncode": 2, "status": "error"}, "exit code 2"),
    ({"return_code": 2}, "exit code 2"),
    ({"exit_status": 2}, "exit code 2"),
    ({"result": {"exit_code": 3}}, "exit code 3"),
    ({"data": {"exit_code": 3, "error": "x"}}, "exit code 3: x"),
    ({"ok": False, "error": "channel_not_found"}, "ok is false: channel_not_found"),
    ({"success": False, "errors": [{"code": 7}]}, 'success is false: [{"code": 7}]'),
]

FAILED_ACTIONS: list[tuple[Any, str]] = [
    ({"status": "error"}, "status error"),
    ({"status": "Failed", "message": "disk full"}, "status Failed: disk full"),
    ({"id": 7, "status": "failure"}, "status failure"),
    ({"id": 7, "exit_code": 1}, "exit code 1"),
]

DATA: list[Any] = [
    None,
    "exit_code 1",
    [],
    [{"exit_code": 1, "status": "failed"}],
    {"jobs": [{"id": 1, "exit_code": 1, "status": "failed"}]},
    {"items": [], "status": "ok"},
    {"exit_code": 0, "stderr": "a warning"},
    {"exit_code": None},
    {"exit_code": True},
    {"exit_code": "1"},
    {"exit_code": {"min": 1}},
    {"status": 500},
    {"status": "failed over"},
    {"status": ["error"]},
    {"status": "pending", "error": None},
    {"ok": False},
    {"success": False, "error": ""},
    {"success": 0, "error": "x"},
    {"error": "none"},
    {"message": "failed"},
    {"result": "error"},
    {"details": {"exit_code": 1}},
]

RECORDS: list[Any] = [
    {"id": 7, "status": "failed"},
    {"id": 7, "exit_code": 1, "status": "failed", "error": "disk full"},
    {"name": "nightly", "exit_code": 1},
    {"job_id": 7, "success": False, "error": "disk full"},
    {"finished_at": "2026-01-01", "exit_code": 1},
    {"data": {"id": 7, "exit_code": 1}},
    {"status": "failed"},
    {"status": "error", "message": "the last build is red"},
]


@pytest.mark.spec("P35", "P47")
@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize(("answer", "says"), FAILED)
def test_a_command_that_failed_is_a_failure(answer: Any, says: str, reads: bool) -> None:
    assert find_failure(answer, reads=reads) == says


@pytest.mark.spec("P35", "P47")
@pytest.mark.parametrize(("answer", "says"), FAILED_ACTIONS)
def test_an_action_whose_answer_says_error_failed(answer: Any, says: str) -> None:
    assert find_failure(answer, reads=False) == says


@pytest.mark.spec("P47")
@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("answer", DATA)
def test_ordinary_data_is_no_failure(answer: Any, reads: bool) -> None:
    assert find_failure(answer, reads=reads) is None


@pytest.mark.spec("P47")
@pytest.mark.parametrize("answer", RECORDS)
def test_reading_about_a_failure_is_no_failure(answer: Any) -> None:
    assert find_failure(answer, reads=True) is None


@pytest.mark.parametrize("text", ["", "[1]", "{", '"x"', "{} {}", '{"a":' * 100_000, "null"])
def test_only_a_json_object_is_examined(text: str) -> None:
    assert parse_object(text) is None
    assert parse_object(' {"a": 1}\n') == {"a": 1}
