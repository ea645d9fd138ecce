"""Each event by which code meets its isolation is noticed by itself, from the tables of events."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ipyagent.rehearsal import on_copy
from rehearsal_trial import in_both_ways, rehearse

WRITES = {
    "os.mkdir": "os.mkdir(new)",
    "os.remove": "os.remove(old)",
    "os.rmdir": "os.rmdir(folder)",
    "os.rename": "os.rename(old, new)",
    "os.link": "os.link(old, new)",
    "os.symlink": "os.symlink('a', new)",
    "os.chmod": "os.chmod(old, 0o600)",
    "os.chown": "os.chown(old, -1, -1)",
    "os.utime": "os.utime(old)",
    "os.truncate": "os.truncate(old, 0)",
    "os.setxattr": "os.setxattr(old, 'user.a', b'')",
    "os.removexattr": "os.removexattr(old, 'user.a')",
}
FOLDERS = {
    "os.listdir": "os.listdir(folder)",
    "os.scandir": "os.scandir(folder)",
    "os.chdir": "os.chdir(folder)",
    "sqlite3.connect": "import sqlite3; sqlite3.connect(old)",
    "glob.glob": "import glob; glob.glob(folder + '/*')",
}
ASKED = {
    "stat": "os.path.exists(old)",
    "lstat": "os.path.lexists(old)",
    "access": "os.access(old, os.R_OK)",
    "readlink": "os.readlink(old)",
}
EVENTS = {
    "socket.connect": "s = socket.socket(); s.connect(('127.0.0.1', 9))",
    "socket.sendto": "s = socket.socket(type=socket.SOCK_DGRAM); s.sendto(b'', ('127.0.0.1', 9))",
    "socket.sendmsg": "s = socket.socket(); s.sendmsg([b''])",
    "socket.bind": "s = socket.socket(); s.bind(('127.0.0.1', 0))",
    "socket.getaddrinfo": "socket.getaddrinfo('localhost', 80)",
    "socket.gethostbyname": "socket.gethostbyname('localhost')",
    "socket.gethostbyaddr": "socket.gethostbyaddr('127.0.0.1')",
    "subprocess.Popen": "import subprocess; subprocess.Popen(['true'])",
    "os.system": "os.system('true')",
    "os.exec": "os.execv('/bin/true', ['true'])",
    "os.fork": "os.fork()",
    "os.forkpty": "os.forkpty()",
    "os.posix_spawn": "os.posix_spawn('/bin/true', ['true'], {})",
    "os.kill": "os.kill(1, 0)",
    "os.killpg": "os.killpg(1, 0)",
    "signal.pthread_kill": (
        "import signal, threading\nsignal.pthread_kill(threading.get_ident(), 0)"
    ),
    "os.getxattr": "os.getxattr(old, 'user.a')",
    "os.listxattr": "os.listxattr(old)",
    "sys.addaudithook": "import sys; sys.addaudithook(lambda *_: None)",
}


@pytest.mark.parametrize(
    ("table", "rows"),
    [("_WRITES", WRITES), ("_FOLDERS", FOLDERS), ("_ASKED", ASKED), ("_EVENTS", EVENTS)],
)
@in_both_ways
def test_each_event_of_the_table_is_noticed(
    tmp_path: Path, table: str, rows: dict[str, str]
) -> None:
    assert rows.keys() == set(getattr(on_copy, table)), "a row for each member"
    root, folder = tmp_path / "workspace", tmp_path / "outside" / "folder"
    root.mkdir()
    folder.mkdir(parents=True)
    (folder / "old").write_text("x")
    given = {"old": f"{folder}/old", "new": f"{folder}/new", "folder": str(folder)}
    unnoticed = [
        event
        for event, code in rows.items()
        if not rehearse(
            f"import os, socket\ntry:\n    {code.replace(chr(10), chr(10) + '    ')}\n"
            "except Exception: pass",
            dict(given),
            root,
        )["attempts"]
    ]
    assert unnoticed == []


@in_both_ways
def test_libraries_may_make_hidden_folders_in_the_home_unless_the_user_works_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation_way: str
) -> None:
    home, root = tmp_path / "home", tmp_path / "workspace"
    within = home / ".project"
    for each in (root, within):
        each.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    is_noticed = {
        path: bool(
            rehearse(f"import os\ntry: os.mkdir({path!r})\nexcept OSError: 0", {}, where)[
                "attempts"
            ]
        )
        for path, where in (
            (f"{home}/.made", root),
            (f"{home}/made", root),
            (f"{within}/made", within),
        )
    }
    assert [*is_noticed.values()] == [False, True, isolation_way == "Landlock"]


@in_both_ways
@pytest.mark.spec("E09")
def test_the_environment_with_which_the_kernel_began_is_gone_from_its_place_in_memory(
    tmp_path: Path,
) -> None:
    entries = Path("/proc/self/environ").read_bytes().split(b"\0")
    kept = {"PATH", "HOME", "LANG", "USER", "SHELL", "TERM", "LOGNAME", "TMPDIR"}
    hidden = [each for each in entries if each.partition(b"=")[0].decode() not in kept]
    if not max(map(len, hidden), default=0):
        pytest.skip("this process began without variables of its own")
    code = (
        "import ctypes\n"
        "with open('/proc/self/stat') as file:\n"
        "    fields = file.read().rpartition(')')[2].split()\n"
        "start, end = int(fields[47]), int(fields[48])\n"
        "ctypes.string_at(start, end - start)"
    )
    report = rehearse(code, {}, tmp_path)
    assert report["result"]["success"], report
    text = report["result"]["output"]
    assert not [each for each in hidden if len(each) > 8 and each.decode() in text]
    found = os.environ.copy()
    scope: dict[str, object] = {}
    exec(code.replace("ctypes.string_at", "found = ctypes.string_at"), scope)
    assert any(each in bytes(scope["found"]) for each in hidden if each), "it lies there"  # type: ignore[call-overload]
    assert dict(os.environ) == found
