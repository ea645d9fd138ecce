"""However a command ends, nothing of it is left, and it took no more than its share."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from boxes import Place, alive, place_in, printed

from ipyagent.errors import AgentError
from ipyagent.tools import sandbox as processes
from ipyagent.tools.sandbox import MAX_HEAD, BoundedOutput, bubblewrap, supervisor
from ipyagent.tools.scripts import build_result
from patience import PATIENCE, until

pytestmark = [pytest.mark.spec("M27", "N23"), pytest.mark.alone]


@pytest.fixture(params=["boxed", "bare"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A workspace whose commands are boxed, and one whose commands are not."""
    if request.param == "bare":
        monkeypatch.setattr(
            bubblewrap, "detect_sandbox", lambda: bubblewrap.SandboxSupport(problem="a test")
        )
    elif not bubblewrap.detect_sandbox().bwrap:
        pytest.skip("bubblewrap is not installed")
    return place_in(tmp_path)


SURVIVORS = [
    "sleep {mark} &",
    "nohup sleep {mark} >/dev/null 2>&1 &",
    "setsid sleep {mark} &",
    "(setsid sh -c 'sleep {mark} & sleep {mark}' &) &",
    "setsid -f sleep {mark};",
    "trap '' TERM HUP INT; sleep {mark} &",
]
DAEMON = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(each, signal.SIG_IGN)
        os.execvp('sleep', ['sleep', '{mark}'])
    os._exit(0)
os.wait(); print('parent done')
"""


@pytest.mark.parametrize("number", range(len(SURVIVORS) + 1))
async def test_what_it_leaves_behind_ends_with_it(place: Place, number: int):
    """Nor is the pipe waited for that it holds open."""
    mark = f"7{time.monotonic_ns()}"
    if number < len(SURVIVORS):
        ran = await place.shell(SURVIVORS[number].format(mark=mark) + " echo done")
    else:
        ran = await place.python(DAEMON.format(mark=mark))
    assert "done" in printed(ran)
    assert (ran.outcome.code, ran.outcome.stop_reason) == (0, "")
    assert not alive(mark)


async def test_its_time_is_limited_and_it_may_say_good_bye(place: Place):
    ran = await place.shell("trap 'echo bye; exit 4' TERM; sleep infinity & wait", limit=0.8)
    assert (printed(ran), ran.outcome.stop_reason) == ("bye\n", "time")


async def test_what_ignores_the_end_of_its_time_is_killed(place: Place):
    mark = f"9{time.monotonic_ns()}"
    ran = await place.shell(f"trap '' TERM; setsid sleep {mark} & sleep {mark}; wait", limit=0.2)
    assert ran.outcome.stop_reason == "time"
    assert not alive(mark)


async def test_a_cancelled_call_ends_all_at_once(place: Place):
    mark = f"6{time.monotonic_ns()}"
    call = asyncio.create_task(
        place.shell(f"trap '' TERM; setsid sleep {mark} & : > begun; sleep {mark}")
    )
    await until((place.root / "begun").exists)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not alive(mark)


async def test_all_ends_when_the_kernel_dies(place: Place):
    mark = f"5{time.monotonic_ns()}"
    command = f"setsid sleep {mark} & : > begun; sleep {mark}"
    boxed = place.sandbox.available
    told = [*place.bubblewrap(), "/bin/sh", "-c", command] if boxed else ["sh", "-c", command]
    code = (
        "import asyncio, sys, pathlib\nfrom ipyagent.tools.sandbox import run_supervised as run\n"
        "here, names = pathlib.Path(sys.argv[1]), {'PATH': '/usr/bin:/bin'}\n"
        f"asyncio.run(run(sys.argv[2:], names, here, sandboxed={boxed}, seconds=60))"
    )
    kernel = subprocess.Popen([sys.executable, "-c", code, str(place.root), *told])  # noqa: ASYNC220
    await until((place.root / "begun").exists)
    assert alive(mark)
    kernel.kill()
    kernel.wait()
    await until(lambda: not alive(mark))


@pytest.mark.slow
@pytest.mark.alone
async def test_a_fork_bomb_is_stopped_before_it_takes_the_machine(place: Place):
    mark, most = f"4{time.monotonic_ns()}", 0
    bomb = asyncio.create_task(
        place.shell(f"bomb() {{ bomb {mark} | bomb & }}; bomb; sleep 30", limit=6)
    )
    while not bomb.done():
        most = max(most, supervisor._count_tasks())
        await asyncio.sleep(0.02)
    ran = await bomb
    # It is seen, or it dies of its own hunger before that.
    assert ran.outcome.stop_reason == "tasks" or "fork" in printed(ran)
    assert most < 10 * supervisor.MAX_TASKS
    await until(lambda: not alive(mark))


async def test_many_processes_are_no_bomb(place: Place):
    ran = await place.shell("for n in $(seq 200); do sleep 0.2 & done; wait; echo fine")
    assert (printed(ran), ran.outcome.stop_reason) == ("fine\n", "")


async def test_a_gigabyte_of_output_costs_little_memory(place: Place):
    before = _grown()
    ran = await place.shell("echo first; head -c 1000000000 /dev/zero; echo last", limit=60)
    assert (ran.outcome.code, ran.outcome.output.size) == (0, 1_000_000_011)
    assert ran.outcome.output.head().startswith("first\n")
    assert ran.outcome.output.tail().endswith("last\n")
    assert _grown() - before < 64_000_000


async def test_output_without_end_is_ended(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(processes, "MAX_PRINTED", 50_000_000)
    ran = await place.shell("yes")
    assert ran.outcome.stop_reason == "printed"


async def test_what_it_prints_and_what_it_reports_stay_in_order(place: Place):
    code = "import sys\nfor n in range(20): print(n, file=(sys.stdout, sys.stderr)[n % 2])"
    assert printed(await place.python(code)).split() == [str(n) for n in range(20)]


async def test_it_gets_no_input_and_no_open_file_of_ours(place: Place):
    with (place.outside / "secret.txt").open() as ours:
        assert ours.fileno() > 2
        ran = await place.python(
            "import os, sys; print(sys.stdin.read(), os.listdir('/proc/self/fd'))"
        )
    assert printed(ran) == " ['0', '1', '2', '3']\n", "the fourth is the listing itself"


async def test_its_variables_are_few(place: Place, monkeypatch: pytest.MonkeyPatch):
    for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "JPY_API_TOKEN"):
        monkeypatch.setenv(name, "canary-77")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    said = printed(await place.shell("env; cat /proc/$PPID/environ"))
    assert "canary-77" not in said
    assert "LC_ALL=C.UTF-8" in said


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (f"bytearray({supervisor._resource_limits()[resource.RLIMIT_AS]} + 1)", "MemoryError"),
        ("open('big', 'wb').truncate(5 * 1024**3)", "File too large"),
        ("x = [open('/dev/null') for n in range(5000)]", "Too many open files"),
        ("import resource as r; print(r.getrlimit(r.RLIMIT_CORE))", "(0, 0)"),
    ],
)
async def test_memory_files_and_dumps_are_limited(place: Place, code: str, says: str):
    assert says in printed(await place.python(code))


FORKS = """
import os, sys, time
shared = b"x" * int(sys.argv[1])
for _ in range(4):
    if os.fork() == 0:
        own = b"y" * int(sys.argv[2])
        os.write(1, b"filled ")
        time.sleep(float(sys.argv[3]))
        os._exit(0)
for _ in range(4):
    os.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are not weighed elsewhere")
async def test_memory_is_limited_for_all_processes_together(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(processes, "MAX_MEMORY", 300_000_000)
    ran = await place.python(FORKS, 0, 100_000_000, 60)
    assert ran.outcome.stop_reason == "memory"
    result = build_result(ran, 20.0, lambda text: "")
    assert result.error is not None
    assert "more than 300.0 MB of memory, all its processes together" in result.error


@pytest.mark.skipif(sys.platform != "linux", reason="processes are not weighed elsewhere")
@pytest.mark.parametrize(("shared", "own"), [(0, 20_000_000), (150_000_000, 1_000_000)])
async def test_memory_within_the_limit_is_no_fault_nor_counted_for_each_fork(
    place: Place, monkeypatch: pytest.MonkeyPatch, shared: int, own: int
):
    monkeypatch.setattr(processes, "MAX_MEMORY", 300_000_000)
    ran = await place.python(FORKS, shared, own, 0.6)
    assert (ran.outcome.code, ran.outcome.stop_reason) == (0, "")
    assert printed(ran).split() == ["filled"] * 4


@pytest.mark.parametrize(("end", "code"), [("exit 3", 3), ("kill -9 $$", -9), ("kill -11 $$", -11)])
async def test_how_it_ended_is_known(place: Place, end: str, code: int):
    ran = await place.shell(end)
    assert ran.outcome.code == (128 - code if ran.sandboxed and code < 0 else code)


async def test_a_keeper_that_is_killed_does_not_hold_up_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        bubblewrap, "detect_sandbox", lambda: bubblewrap.SandboxSupport(problem="a test")
    )
    mark = f"3{time.monotonic_ns()}"
    place = place_in(tmp_path)
    ran = await place.shell(f"sleep {mark} & kill -9 $PPID; exec sleep {mark}")
    assert ran.outcome.code is None
    await until(lambda: not alive(mark))


@pytest.mark.parametrize("naive", [True, False])
async def test_a_keeper_that_is_stopped_does_its_work_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, naive: bool
):
    monkeypatch.setattr(
        bubblewrap, "detect_sandbox", lambda: bubblewrap.SandboxSupport(problem="a test")
    )
    if naive:
        monkeypatch.setattr(processes, "_STOP_SECONDS", 0.5)
        monkeypatch.setattr(processes.signal, "SIGCONT", 0)
    mark = f"1{time.monotonic_ns()}"
    ran = await place_in(tmp_path).shell(f"kill -STOP $PPID; exec sleep {mark}", limit=2)
    assert ran.outcome.stop_reason == ("stuck" if naive else "time")
    await until(lambda: not alive(mark))


async def test_a_command_that_cannot_be_started_is_told(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    with pytest.raises(AgentError, match="could not be started"):
        await place.shell("a\0b")
    with pytest.raises(AgentError, match="could not be started"):
        await place.shell("x" * 200_000)
    ran = await place.sandbox.run(["no-such-program"], seconds=5)
    assert ran.outcome.code == (1 if ran.sandboxed else 127)
    assert printed(ran).endswith("no-such-program: No such file or directory\n")
    monkeypatch.delattr(os, "waitid")
    with pytest.raises(AgentError, match=r"need Python 3\.13"):
        await place.shell("true")


def test_a_keeper_does_not_kill_itself_with_a_command_that_has_no_group_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    late = processes._supervisor_source().replace("os.setsid()", "time.sleep(60)")
    monkeypatch.setattr(processes, "_supervisor_source", lambda: late)
    variables = {"PATH": os.environ["PATH"]}
    job = processes.SupervisedProcess(["sleep", "60"], variables, tmp_path, sandboxed=False)
    job.stop("stuck")
    outcome = job.outcome.result(PATIENCE)
    assert (outcome.code, outcome.stop_reason) == (-signal.SIGKILL, "stuck")


def test_output_is_kept_whole_until_it_is_too_much():
    output = BoundedOutput()
    for _ in range(3):
        output.add(b"a" * (MAX_HEAD // 2 - 1))
        output.add(b"\xe2\x82")
        output.add(b"\xac\n")
    output.add(b"end")
    assert output.size == 3 * (MAX_HEAD // 2 + 3) + 3
    assert len(output.head().encode()) <= MAX_HEAD + 2
    assert output.tail().endswith("a€\nend")
    assert len(output.tail()) < 200_000


def _grown() -> int:
    """The most memory that this process ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
