"""Limits of a rehearsal: time, memory, processes, files, output; and nothing is left behind."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipyagent.kernel.namespace import Namespace
from ipyagent.rehearsal.confinement import Limits
from ipyagent.rehearsal.on_copy import start_rehearsal
from ipyagent.rehearsal.process import NotRehearsedError, ReportError, read_report
from ipyagent.tools.rehearsal import build_confinement
from ipyagent.tools.reports import judge_report
from ipyagent.tools.workspace import Workspace
from patience import PATIENCE
from rehearsal_trial import LIMITS, children, chosen, in_both_ways, rehearse, run_in_fork
from sampling import cases

pytestmark = in_both_ways

SHORT = Limits(seconds=1.0, idle=1.0)


def open_descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = children()
    yield
    assert children() == before, "a process is left"


@pytest.mark.parametrize(
    "code",
    cases(
        [
            "while True: pass",
            "import time; time.sleep(99)",
            "import signal\nfor n in range(1, 32):\n    try: signal.signal(n, signal.SIG_IGN)\n"
            "    except OSError: pass\nwhile True: pass",
            "import threading; threading.Event().wait()",
            "try:\n    while True: pass\nexcept BaseException: pass",
            "import re; re.match('(a+)+$', 'a' * 40 + 'b')",
            "import os; os.read(0, 1); import time; time.sleep(99)",
            "sum(range(10**12))",
            "import ctypes; ctypes.CDLL(None).pause()",
        ]
    ),
)
def test_code_without_an_end_is_ended(tmp_path: Path, code: str) -> None:
    report = rehearse(code, {}, tmp_path, limits=SHORT)
    assert report["problem"].startswith(("it took longer than 1 s", "it waited for 1 s")), report
    assert run_in_fork(code, {}, 1.0) == "(hangs)", "the naive version does not fail"


@pytest.mark.parametrize(
    "code",
    cases(
        [
            "x = bytearray(9 << 30)",
            "x = []\nwhile True: x.append(bytearray(b'a' * (1 << 24)))",
            "x = 'a' * (1 << 30)",
            "import mmap; x = mmap.mmap(-1, 9 << 30); x.write(bytes(1 << 29))",
            "import mmap; x = mmap.mmap(-1, 9 << 30)\n"
            "for _ in range(80): x.write(b'a' * (1 << 24))",
        ]
    ),
)
def test_memory_is_limited(tmp_path: Path, code: str) -> None:
    """Of what it reserves, by the system; of what it uses, by the process that waits for it."""
    report = rehearse(code, {}, tmp_path, limits=replace(LIMITS, memory=1 << 28))
    problems = ("ended without a report", "too much memory")
    assert "Error" in report["result"]["output"] or report["problem"].endswith(problems), report


@pytest.mark.parametrize(
    "code",
    cases(
        [
            "import os\nd = [os.memfd_create('x') for _ in range(20)]\n"
            "print('took', sum(os.write(each, bytes(1 << 26)) for each in d))",
            "import ctypes\nlibc, p, taken = ctypes.CDLL(None), ctypes.c_void_p, 0\n"
            "libc.shmat.restype, libc.shmdt.argtypes = p, [p]\n"
            "for _ in range(20):\n"
            "    place = libc.shmat(libc.shmget(0, 1 << 26, 0o600), None, 0)\n"
            "    ctypes.memset(place, 1, 1 << 26); libc.shmdt(place); taken += 1 << 26\n"
            "print('took', taken)",
        ]
    ),
    ids=["descriptors", "System V"],
)
def test_memory_that_is_not_mapped_is_limited_too(tmp_path: Path, code: str) -> None:
    report = rehearse(code, {}, tmp_path)
    assert f"took {20 << 26}" not in report["result"]["output"], report


def test_files_are_limited(tmp_path: Path) -> None:
    code = "with open('/tmp/big', 'wb') as f:\n    for _ in range(99): f.write(bytes(1 << 23))"
    report = rehearse(code, {}, tmp_path)
    assert "Error" in report["result"]["output"] or "ended" in report["problem"], report


def test_a_fork_bomb_starts_nothing(tmp_path: Path) -> None:
    code = "import os\nfor _ in range(50): os.fork()"
    report = rehearse(code, {}, tmp_path)
    assert "PermissionError" in report["result"]["output"]
    assert ["says", "starts a process"] in report["attempts"]


def test_a_bomb_of_threads_ends_with_it(tmp_path: Path) -> None:
    code = (
        "import threading, time\nthreading.stack_size(65536)\n"
        "for _ in range(300): threading.Thread(target=time.sleep, args=(99,)).start()\n"
        "time.sleep(99)"
    )
    before = threading.active_count()
    report = rehearse(code, {}, tmp_path)
    assert report["problem"] == "it started too many threads"
    assert threading.active_count() == before


def test_output_is_limited(tmp_path: Path) -> None:
    report = rehearse("for _ in range(200): print('x' * 1_000_000)", {}, tmp_path)
    assert len(report["result"]["output"]) < 3_000_000


@pytest.mark.parametrize(
    "code",
    cases(
        [
            "import os\nfor n in range(3, 99):\n    try: os.write(n, b'\\xff' * 16)\n"
            "    except OSError: pass",
            "import os\nfor n in range(3, 99):\n    try: os.write(n, b'\\x05' + bytes(15) + b'[[[[[')\n"  # noqa: E501
            "    except OSError: pass",
            "import os; os._exit(0)",
            "import ctypes; ctypes.string_at(0)",
            "import json; json.dumps = lambda *_, **__: '{}'",
            "import json; json.dumps = lambda *_, **__: '[' * 100_000",
            "import json; json.dumps = lambda *_, **__: '{\"sizes\": [9]}'",
            'import json; json.dumps = lambda *_, **__: \'{"sizes": "x"}\'',
            "import json; json.dumps = lambda *_, **__: 'x' * (9 << 20)",
        ]
    ),
)
def test_a_forged_report_is_refused(tmp_path: Path, code: str) -> None:
    report = rehearse(code, {}, tmp_path, limits=Limits(seconds=5.0))
    assert report.get("problem") or not report.get("variables"), report


def test_a_forged_chart_is_refused(tmp_path: Path) -> None:
    report = rehearse("1", {}, tmp_path)
    workspace, plotly = Workspace(tmp_path), "application/vnd.plotly.v1+json"
    plain = judge_report({**report, "charts": [{plotly: {"data": []}}]}, [], workspace, "1", {})
    assert len(plain.charts) == 1
    reaching = {plotly: {"layout": {"images": [{"source": "https://e.vil"}]}}}
    with pytest.raises(NotRehearsedError, match="makes no sense"):
        judge_report({**report, "charts": [reaching]}, [], workspace, "1", {})


def test_a_name_that_the_kernel_cannot_resolve_is_reported_as_left(tmp_path: Path) -> None:
    code = "import json\nfrom no_such_module import x as gone"
    report = {**rehearse("import json", {}, tmp_path), "resolved": ["json", "gone"]}
    judged = judge_report(report, [], Workspace(tmp_path), code, {})
    assert judged.rehearsal.left == ("gone",)


def test_a_report_of_very_many_empty_pieces_is_refused(tmp_path: Path) -> None:
    text = json.dumps({"sizes": [0] * 400_000}).encode()
    (tmp_path / "report").write_bytes(len(text).to_bytes(8) + text)
    with (tmp_path / "report").open("rb", 0) as file, pytest.raises(ReportError):
        read_report(file.fileno(), 1 << 30, time.monotonic() + PATIENCE)


def test_a_crash_ends_the_copy_alone_and_is_named(tmp_path: Path) -> None:
    report = rehearse("import ctypes\nctypes.string_at(0)", {}, tmp_path)
    assert report["problem"] == "it ended without a report (SIGSEGV)"


def test_whoever_stops_waiting_ends_it(tmp_path: Path) -> None:
    confinement = build_confinement(tmp_path, chosen.way)
    started = start_rehearsal(Namespace({}), ["while True: pass"], confinement, Limits(60.0))
    started.stop()
    reports, problem = started.finish()
    assert not reports
    assert "ended without a report" in problem


def only_child(process: int) -> int:
    (found,) = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return int(found)


def test_it_ends_when_the_kernel_is_killed(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    kernel = os.fork()
    if not kernel:
        with contextlib.suppress(BaseException):
            confinement = build_confinement(tmp_path, chosen.way)
            code = "while True: pass"
            started = start_rehearsal(Namespace({}), [code], confinement, Limits(300.0))
            started._read(10_000, time.monotonic() + PATIENCE)
            os.write(writing, b"x")
            signal.pause()
        os._exit(1)
    try:
        os.close(writing)
        assert os.read(reading, 1) == b"x"
        handle = os.pidfd_open(only_child(only_child(kernel)))
    finally:
        os.close(reading)
        os.kill(kernel, signal.SIGKILL)
        os.waitpid(kernel, 0)
    ended, _, _ = select.select([handle], [], [], PATIENCE)
    os.close(handle)
    assert ended


def test_nothing_is_left_of_many_rehearsals_beside_busy_threads(tmp_path: Path) -> None:
    """`make soak` tries a thousand."""
    many = int(os.environ.get("REHEARSAL_TEST_COUNT", "12"))
    stopped = threading.Event()

    def be_busy(number: int) -> None:
        lines: list[Any] = []
        while not stopped.is_set():
            lines = [str(number)] * 1000
            with (tmp_path.parent / f"busy{number}").open("w") as file:
                print(len(lines), file=file)

    threads = [threading.Thread(target=be_busy, args=(n,), daemon=True) for n in range(3)]
    for each in threads:
        each.start()
    confinement = build_confinement(tmp_path, chosen.way)
    variables = {"x": list(range(1000))}
    gc.collect()
    before = open_descriptors()
    try:
        reports = 0
        for number in range(many):
            code = ["sum(x)", "1 / 0", "x.append(1)", "open('f', 'w')"][number % 4]
            begun = start_rehearsal(Namespace(variables), [code], confinement, Limits(20.0))
            done, problem = begun.finish()
            reports += len(done)
            assert done or "longer" in problem
    finally:
        stopped.set()
        for each in threads:
            each.join()
    assert open_descriptors() <= before
    assert reports >= 0.9 * many
    assert variables == {"x": list(range(1000))}
