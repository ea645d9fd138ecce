"""System calls that nothing in the box may make, and those that ordinary programs need."""

from __future__ import annotations

import errno
import json
import platform
import struct
from pathlib import Path

import pytest
from boxes import Place, needs_bubblewrap, place_in, printed

from ipyagent.tools.sandbox import bubblewrap

pytestmark = pytest.mark.spec("M27")

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOWED = 0x7FFF0000
DENIED, ABSENT = 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS
NEW_USER, THREAD, NEW_TIME = 0x10000000, 0x3D0F00, 0x80

ATTEMPTS = """
import ctypes, json, sys
libc = ctypes.CDLL(None, use_errno=True)
said = {}
for name, (number, *arguments) in json.loads(sys.argv[1]).items():
    ctypes.set_errno(0)
    libc.syscall(number, *(ctypes.c_ulong(each) for each in arguments))
    said[name] = ctypes.get_errno()
print(json.dumps(said))
"""
ORDINARY = """
import asyncio, concurrent.futures, ctypes, mmap, multiprocessing, sqlite3, subprocess, threading
from multiprocessing import shared_memory
import numpy, pandas

def square(number):
    return number * number

if __name__ == "__main__":
    with concurrent.futures.ProcessPoolExecutor(2) as pool:
        assert list(pool.map(square, [1, 2])) == [1, 4]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(square, [3]) == [9]
    thread = threading.Thread(target=print)
    thread.start()
    thread.join()
    assert subprocess.check_output(["echo", "hi"]) == b"hi\\n"
    block = shared_memory.SharedMemory(create=True, size=100)
    block.close()
    block.unlink()
    mmap.mmap(-1, 4096).close()
    sqlite3.connect("made.db").execute("create table a (b)")
    asyncio.run(asyncio.sleep(0))
    frame = pandas.DataFrame({"a": numpy.arange(1000.0)})
    frame.to_csv("made.csv")
    assert (frame.to_numpy().reshape(10, 100) @ numpy.ones((100, 10))).shape == (10, 10)
    print("fine")
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return place_in(tmp_path)


def verdict(program: bytes, number: int, *arguments: int, audit: int) -> int:
    """What the Linux kernel would answer to a call: this runs the program as it does."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, audit, 0, *padded)
    steps = list(struct.iter_unpack("<HBBI", program))
    loaded, at = 0, 0
    while True:
        code, yes, no, value = steps[at]
        at += 1
        match code:
            case 0x20:
                (loaded,) = struct.unpack_from("<I", data, value)
            case 0x06:
                return value
            case 0x15:
                at += yes if loaded == value else no
            case 0x35:
                at += yes if loaded >= value else no
            case 0x54:
                loaded &= value
            case _:
                raise AssertionError(code)


def numbers(machine: str, table: str) -> dict[str, int]:
    return bubblewrap._ARCHITECTURES[machine].numbers(table)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("namespaces", [True, False])
def test_dangerous_calls_are_denied_and_all_others_allowed(machine: str, namespaces: bool):
    program = bubblewrap.build_filter(machine, namespaces=namespaces)
    denied = numbers(machine, bubblewrap._DENIED).values()
    if not namespaces:
        denied = {*denied, *numbers(machine, bubblewrap._SHARED).values(), *range(468, 600)}
        denied |= {numbers(machine, bubblewrap._CHECKED)["ioctl"]}  # one without a request
    for number in range(600):
        expected = ABSENT if number == bubblewrap._CLONE3 else ALLOWED
        expected = DENIED if number in denied else expected
        assert verdict(program, number, audit=MACHINES[machine]) == expected, number


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("call", "denied", "allowed"),
    [
        ("ioctl", [(0, 0x40086602), (0, 0x5412), (0, 0x50009401)], [(0, 0x5401), (0, 0x5421)]),
        ("fcntl", [(0, 8), (0, 10), (0, 15), (0, 1024), (0, 1036)], [(0, 1), (0, 6), (0, 1030)]),
        ("prctl", [(1,)], [(15,), (38,)]),
        ("socketpair", [(1, 2), (1, 3), (1, 0o4002), (30, 4)], [(1, 1), (1, 0o2004001), (1, 5)]),
        ("prlimit64", [(1,), (99_999,)], [(0, 7)]),
        ("flock", [(3, 2), (3, 6)], [(3, 1), (3, 5), (3, 8)]),
    ],
)
def test_calls_that_reach_others_without_namespaces_are_denied_by_their_arguments(
    machine: str, call: str, denied: list[tuple[int, ...]], allowed: list[tuple[int, ...]]
):
    program = bubblewrap.build_filter(machine, processes=False, namespaces=False)
    number, audit = numbers(machine, bubblewrap._CHECKED)[call], MACHINES[machine]
    assert {verdict(program, number, *each, audit=audit) for each in denied} == {DENIED}
    assert {verdict(program, number, *each, audit=audit) for each in allowed} == {ALLOWED}


@pytest.mark.parametrize("machine", MACHINES)
def test_threads_begin_and_namespaces_do_not(machine: str):
    program, audit = bubblewrap.build_filter(machine), MACHINES[machine]
    clone, unshare = (numbers(machine, bubblewrap._CHECKED)[each] for each in ("clone", "unshare"))
    assert verdict(program, clone, THREAD, audit=audit) == ALLOWED
    assert verdict(program, clone, 17 | NEW_USER, audit=audit) == DENIED
    assert verdict(program, clone, NEW_TIME, audit=audit) == ALLOWED  # part of a signal
    for flag in (NEW_USER, NEW_TIME, 0x20000, 0x40000000):
        assert verdict(program, unshare, flag, audit=audit) == DENIED
    assert verdict(program, unshare, 0x400, audit=audit) == ALLOWED  # CLONE_FILES


@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_is_typed_into_a_terminal(machine: str):
    program, audit = bubblewrap.build_filter(machine), MACHINES[machine]
    ioctl = numbers(machine, bubblewrap._CHECKED)["ioctl"]
    for request, expected in [(0x5412, DENIED), (0x541C, DENIED), (0x5401, ALLOWED)]:
        assert verdict(program, ioctl, 0, request, audit=audit) == expected
        assert verdict(program, ioctl, 0, request | 1 << 32, audit=audit) == expected


def test_another_interface_to_the_same_calls_is_denied():
    program = bubblewrap.build_filter("x86_64")
    assert verdict(program, 20, audit=0x40000003) == DENIED  # as 32-bit programs call
    assert verdict(program, 0x40000000 + 39, audit=MACHINES["x86_64"]) == DENIED  # x32
    assert verdict(program, 39, audit=MACHINES["aarch64"]) == DENIED


def test_a_machine_without_a_filter_has_none():
    assert bubblewrap.build_filter("riscv64") == b""


@needs_bubblewrap
@pytest.mark.skipif(platform.machine() not in MACHINES, reason="there is no filter for it")
async def test_the_box_denies_them(place: Place):
    assert place.sandbox.unfiltered_reason is None
    machine = platform.machine()
    attempts = {name: [number] for name, number in numbers(machine, bubblewrap._DENIED).items()}
    known = numbers(machine, bubblewrap._CHECKED)
    attempts |= {"unshare": [known["unshare"], NEW_USER], "clone": [known["clone"], 17 | NEW_USER]}
    said = json.loads(printed(await place.python(ATTEMPTS, json.dumps(attempts))))
    assert {name for name, error in said.items() if error != errno.EPERM} == set()
    naively = json.loads(place.plainly(ATTEMPTS, json.dumps({"ptrace": attempts["ptrace"]})))
    assert naively["ptrace"] != errno.EPERM


@pytest.mark.slow
@needs_bubblewrap
async def test_ordinary_programs_do_what_they_always_do(place: Place):
    (place.root / "made.py").write_text(ORDINARY)
    ran = await place.sandbox.run(["python3", "made.py"], seconds=90)
    assert printed(ran).strip() == "fine"


@needs_bubblewrap
@pytest.mark.parametrize("program", [b"", b"no such program"])
async def test_a_box_that_cannot_filter_says_so_and_is_used(
    place: Place, monkeypatch: pytest.MonkeyPatch, program: bytes
):
    monkeypatch.setattr(bubblewrap, "build_filter", lambda: program)
    found = bubblewrap.detect_sandbox.__wrapped__()
    assert (found.problem, found.seccomp_filter) == (None, b"")
    assert "filter" in (found.unfiltered_reason or "")
