"""Break-outs: each works in a plain fork of the kernel, and does not in a rehearsal."""

from __future__ import annotations

import _thread
import contextlib
import fcntl
import mmap
import os
import resource
import secrets
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import pytest

from ipyagent.rehearsal.confinement import Method
from patience import PATIENCE
from rehearsal_trial import chosen, counted_signals, in_both_ways, rehearse, run_in_fork
from sampling import cases

pytestmark = in_both_ways

CANARY = "canary-value-nobody-prints"


@dataclass
class Scene:
    """What a break-out may reach: a workspace, what is beside it, what the kernel has open."""

    folder: Path
    variables: dict[str, Any] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.folder / "workspace"

    @property
    def outside(self) -> Path:
        return self.folder / "outside"


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    made = Scene(tmp_path)
    (made.root / "sub").mkdir(parents=True)
    made.outside.mkdir()
    (made.root / "kept.txt").write_text("kept")
    (made.root / "sub" / "deep.txt").write_text("kept")
    (made.root / ".env").write_text(f"KEY={CANARY}")
    (made.root / "server.pem").write_text(CANARY)
    (made.root / ".ipyagent").mkdir()
    (made.root / ".ipyagent" / "state.db").write_text(CANARY)
    (made.outside / "private.txt").write_text(CANARY)
    (made.outside / "target.txt").write_text("kept")
    made.variables |= {
        "root": str(made.root),
        "outside": str(made.outside),
        "kernel": os.getpid(),
    }
    return made


WRITES: dict[str, str] = {
    "writes a file outside": "open(outside + '/target.txt', 'w').write('gone')",
    "appends outside": "open(outside + '/target.txt', 'a').write('gone')",
    "creates outside": "open(outside + '/new.txt', 'x').write('new')",
    "deletes outside": "import os; os.remove(outside + '/target.txt')",
    "renames outside": "import os; os.rename(outside + '/target.txt', outside + '/b')",
    "truncates outside": "import os; os.truncate(outside + '/target.txt', 0)",
    "makes a folder outside": "import os; os.mkdir(outside + '/d')",
    "changes permissions outside": "import os; os.chmod(outside + '/target.txt', 0o777)",
    "links outside": "import os; os.symlink('/etc', outside + '/link')",
    "hard links outside": "import os; os.link(outside + '/target.txt', outside + '/hard')",
    "sets times outside": "import os; os.utime(outside + '/target.txt', (1, 1))",
    "sets times in the workspace": "import os; os.utime(root + '/kept.txt', (1, 1))",
    "changes permissions of an open file": (
        "import os; os.fchmod(os.open(root + '/kept.txt', os.O_RDONLY), 0o400)"
    ),
    "truncates by opening for reading": (
        "import os; os.open(root + '/kept.txt', os.O_RDONLY | os.O_TRUNC)"
    ),
    "makes a pipe outside": "import os; os.mkfifo(outside + '/pipe')",
    "writes up from the workspace": "open(root + '/../outside/target.txt', 'w').write('gone')",
    "writes in the workspace": "open(root + '/kept.txt', 'w').write('gone')",
    "writes deep in the workspace": "open(root + '/sub/deep.txt', 'w').write('gone')",
    "creates in the workspace": "open(root + '/new.txt', 'w').write('new')",
    "deletes in the workspace": "import os; os.remove(root + '/kept.txt')",
    "deletes a tree": "import shutil; shutil.rmtree(root + '/sub')",
    "renames a folder": "import os; os.rename(root + '/sub', root + '/other')",
    "changes permissions in the workspace": "import os; os.chmod(root + '/kept.txt', 0o400)",
    "replaces the workspace": "import os; os.rename(root, root + '2')",
    "maps a file of the workspace": (
        "import mmap; f = open(root + '/kept.txt', 'r+b')\n"
        "m = mmap.mmap(f.fileno(), 4); m[:4] = b'gone'; m.flush()"
    ),
    "writes by a raw system call": (
        "import ctypes; c = ctypes.CDLL(None)\n"
        "d = c.open((outside + '/target.txt').encode(), 1); c.write(d, b'gone', 4)"
    ),
    "writes through a link it makes": (
        "import os; os.symlink(outside, root + '/way')\n"
        "open(root + '/way/target.txt', 'w').write('x')"
    ),
    "writes after it has climbed out of its root": (
        "import os\n"
        "try: os.mkdir('/tmp/.jail'); os.chroot('/tmp/.jail')\n"
        "except OSError: pass\n"
        "for _ in range(30): os.chdir('..')\n"
        "try: os.chroot('.')\n"
        "except OSError: pass\n"
        "open(outside + '/target.txt', 'w').write('gone')"
    ),
    "writes by the kernel's own root": (
        "open(f'/proc/{kernel}/root' + outside + '/target.txt', 'w').write('gone')"
    ),
    "writes by the kernel's folder": (
        "import os; os.chdir(f'/proc/{kernel}/cwd'); open(outside + '/target.txt', 'w').write('x')"
    ),
    "writes as another process": (
        "import subprocess; subprocess.run(['touch', outside + '/touched'])"
    ),
    "writes as a daemon": (
        "import os\n"
        "if not os.fork():\n"
        "    os.setsid(); open(outside + '/daemon', 'w').write('x'); os._exit(0)\n"
        "os.wait()"
    ),
    "writes in a thread": (
        "import threading\n"
        "t = threading.Thread(target=lambda: open(outside + '/t', 'w').write('x'))\n"
        "t.start(); t.join()"
    ),
    "mounts": (
        "import ctypes\n"
        "c = ctypes.CDLL(None); c.unshare(0x10020000)\n"
        "c.mount(b'none', outside.encode(), b'tmpfs', 0, None)\n"
        "open(outside + '/target.txt', 'w').write('gone')"
    ),
}


def state_of(folder: Path) -> dict[str, Any]:
    """Everything about the files below a folder."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        when = 0 if path.is_dir() else int(status.st_mtime)
        found[str(path)] = status.st_mode, status.st_nlink, when, content
    return found


@pytest.mark.parametrize("way", cases(WRITES))
@pytest.mark.spec("E09")
def test_files_stay_as_they_are(scene: Scene, way: str) -> None:
    before = state_of(scene.folder)
    rehearse(WRITES[way], dict(scene.variables), scene.root)
    assert state_of(scene.folder) == before
    if way != "mounts":  # in a plain fork it would hide what it writes
        run_in_fork(WRITES[way], scene.variables)
        assert state_of(scene.folder) != before, "the naive version does not fail"


READS: dict[str, str] = {
    "reads outside": "print(open(outside + '/private.txt').read())",
    "reads up from the workspace": "print(open(root + '/../outside/private.txt').read())",
    "reads a secret file": "print(open(root + '/.env').read())",
    "reads a key": "print(open(root + '/server.pem').read())",
    "reads ipyagent's state": "print(open(root + '/.ipyagent/state.db').read())",
    "reads by a link": (
        "import os; os.symlink(outside, root + '/.l'); print(open(root + '/.l/private.txt').read())"
    ),
    "reads by a raw system call": (
        "import ctypes; c = ctypes.CDLL(None); b = ctypes.create_string_buffer(99)\n"
        "d = c.open((outside + '/private.txt').encode(), 0); c.read(d, b, 99); print(b.value)"
    ),
    "reads by the kernel's own root": (
        "print(open(f'/proc/{kernel}/root' + outside + '/private.txt').read())"
    ),
    "copies a secret file": (
        "import shutil; shutil.copy(root + '/server.pem', root + '/c')\n"
        "print(open(root + '/c').read())"
    ),
    "renames a secret file": (
        "import os; os.rename(root + '/server.pem', root + '/c'); print(open(root + '/c').read())"
    ),
    "hard links a secret file": (
        "import os; os.link(root + '/server.pem', root + '/c'); print(open(root + '/c').read())"
    ),
    "unmounts what hides it": (
        "import ctypes; ctypes.CDLL(None).umount2((root + '/server.pem').encode(), 2)\n"
        "print(open(root + '/server.pem').read())"
    ),
    "reads in another process": (
        "import subprocess\n"
        "print(subprocess.run(['cat', outside + '/private.txt'], capture_output=True).stdout)"
    ),
}


@pytest.mark.parametrize("way", cases(READS))
def test_hidden_files_are_not_read(scene: Scene, way: str) -> None:
    report = rehearse(READS[way], dict(scene.variables), scene.root)
    assert CANARY not in str(report)
    assert CANARY in run_in_fork(READS[way], scene.variables), "the naive version does not fail"


def test_a_hidden_file_that_is_open_is_not_read(scene: Scene) -> None:
    with (scene.root / ".env").open() as opened:
        variables = scene.variables | {"number": opened.fileno()}
        code = "import os; print(os.pread(number, 99, 0))"
        assert CANARY not in str(rehearse(code, dict(variables), scene.root))
        assert CANARY in run_in_fork(code, variables), "the naive version does not fail"


@pytest.mark.parametrize("name", ["workspace/.env", "outside/private.txt"])
def test_attributes_of_hidden_files_are_not_read(scene: Scene, name: str) -> None:
    """Browsers note there where a file was downloaded from, with what was in its address."""
    path = str(scene.folder / name)
    os.setxattr(path, "user.origin", CANARY.encode())
    code = "import os; print(os.getxattr(path, 'user.origin'))"
    variables = scene.variables | {"path": path}
    report = rehearse(code, dict(variables), scene.root)
    assert CANARY not in str(report)
    assert report["attempts"]
    assert CANARY in run_in_fork(code, variables), "the naive version does not fail"


@pytest.mark.parametrize(
    "code",
    cases(
        [
            "print(os.environ.get('SOME_SECRET_TOKEN'))",
            "print(ctypes.CDLL(None).getenv)\n"
            "g = ctypes.CDLL(None).getenv; g.restype = ctypes.c_char_p\n"
            "print(g(b'SOME_SECRET_TOKEN'))",
            "print(open('/proc/self/environ').read())",
            "print(open(f'/proc/{kernel}/environ').read())",
            "try:\n    f = open(f'/proc/{kernel}/mem', 'rb'); f.seek(address); print(f.read(120))\n"
            "except Exception as error: print(error)",
        ]
    ),
    ids=["variable", "libc", "proc", "kernel's", "mem"],
)
@pytest.mark.spec("E09")
def test_secrets_of_the_environment_are_not_there(
    scene: Scene, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "".join(["canary", "-value-", "nobody-prints"])
    monkeypatch.setenv("SOME_SECRET_TOKEN", secret)
    import ctypes

    variables = scene.variables | {
        "os": os,
        "ctypes": ctypes,
        "address": id(secret),
    }
    report = rehearse(code, dict(variables), scene.root)
    assert secret not in str(report)
    if "environ'" not in code:  # what was set later is not in that file
        naive = run_in_fork(code, variables)
        assert secret in naive, f"the naive version does not fail: {naive}"


@pytest.fixture
def server() -> Iterator[tuple[socket.socket, list[bytes]]]:
    """A server that keeps what it is sent."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                heard.append(b"connected")
                threading.Thread(target=follow, args=(connection,), daemon=True).start()

        def follow(connection: socket.socket) -> None:
            with connection, contextlib.suppress(ConnectionError):
                while data := connection.recv(1000):
                    heard.append(data)
                    connection.sendall(b"answer " + data)

        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield listening, heard
        listening.shutdown(socket.SHUT_RDWR)  # to close it does not wake who accepts
        serving.join()


CONNECTS: dict[str, str] = {
    "connects": "import socket; socket.create_connection(('127.0.0.1', port), 2).sendall(b'sent')",
    "connects by IPv6": (
        "import socket; s = socket.socket(socket.AF_INET6)\n"
        "s.connect(('::ffff:127.0.0.1', port)); s.sendall(b'sent')"
    ),
    "asks by HTTP": (
        "import urllib.request\n"
        "try: urllib.request.urlopen(f'http://127.0.0.1:{port}/sent', timeout=1)\n"
        "except Exception: pass"
    ),
    "uses a connection of the kernel's": "connection.sendall(b'sent')",
    "uses the number of its descriptor": "import os; os.write(connection.fileno(), b'sent')",
    "copies its descriptor": "import os; os.write(os.dup(connection.fileno()), b'sent')",
    "sends on all descriptors": (
        "import os\n"
        "for n in range(3, 100):\n"
        "    try: os.stat(f'/proc/self/fd/{n}'); os.write(n, b'sent')\n"
        "    except OSError: pass"
    ),
    "opens its descriptor anew": (
        "import socket; socket.socket(fileno=connection.fileno()).sendall(b'sent')"
    ),
    "accepts on a socket of the kernel's": (
        "import socket, threading\n"
        "listening.settimeout(1)\n"
        "take = lambda: [listening.accept() for _ in range(2)]\n"
        "threading.Thread(target=take, daemon=True).start()\n"
        "socket.create_connection(('127.0.0.1', port), 2).sendall(b'sent')"
    ),
}


@pytest.mark.parametrize("way", cases(CONNECTS))
@pytest.mark.spec("E09")
def test_nothing_is_sent(scene: Scene, server: tuple[socket.socket, list[bytes]], way: str) -> None:
    listening, heard = server
    port = listening.getsockname()[1]
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"first")
        assert connection.recv(100) == b"answer first"
        variables = scene.variables | {
            "port": port, "connection": connection, "listening": listening,
        }  # fmt: skip
        before = list(heard)
        rehearse(CONNECTS[way], dict(variables), scene.root)
        connection.sendall(b"second")
        assert connection.recv(100) == b"answer second"
        assert heard[len(before) :] == [b"second"]
        # In a plain fork, all descriptors would include those of the process that runs the tests.
        if "listening" not in CONNECTS[way] and "range(3" not in CONNECTS[way]:
            run_in_fork(CONNECTS[way], variables)
            connection.sendall(b"third")
            while connection.recv(1000)[-5:] != b"third":
                pass
            assert heard[len(before) :] != [b"second", b"third"], "the naive version does not fail"


MADE = ["socket.socket(1, 1)", "socket.socket(1, 2)", "socket.socketpair(1, 2)[0]"]


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("place", ["workspace/s", "workspace/.ipyagent/outputs/s", ""])
def test_a_socket_is_out_of_reach(scene: Scene, made: str, place: str) -> None:
    """In the workspace, in a readable folder, whose mount lets it through, or without a file."""
    (scene.root / ".ipyagent" / "outputs").mkdir()
    name = str(scene.folder / place) if place else f"\0ipyagent-{secrets.token_hex(6)}"
    is_stream = made == MADE[0]
    with socket.socket(socket.AF_UNIX, 1 if is_stream else 2) as waiting:
        waiting.bind(name)
        waiting.setblocking(False)
        waiting.listen() if is_stream else None

        def receive() -> bytes:
            if not is_stream:
                return waiting.recv(10)
            with waiting.accept()[0] as connection:
                return connection.recv(10)

        code = f"import socket; s = {made}; s.connect(name); s.send(b'sent')"
        variables = scene.variables | {"name": name}
        rehearse(code, dict(variables), scene.root)
        with pytest.raises(BlockingIOError):
            receive()
        run_in_fork(code, variables)
        assert receive() == b"sent", "the naive version does not fail"


HINT_OF_FILE, SET_HINT_OF_FILE = 1035, 1036


@pytest.mark.parametrize("name", ["kept.txt", ".ipyagent/outputs/kept.txt"])
def test_no_hint_is_left_on_a_file(scene: Scene, name: str) -> None:
    path = scene.root / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("kept")
    code = (
        "import fcntl, os\n"
        f"fcntl.fcntl(os.open(path, os.O_RDONLY), {SET_HINT_OF_FILE}, bytes([5, *bytes(7)]))"
    )
    variables = scene.variables | {"path": str(path)}
    with path.open() as opened:
        rehearse(code, dict(variables), scene.root)
        assert fcntl.fcntl(opened, HINT_OF_FILE, bytes(8)) == bytes(8)
        run_in_fork(code, variables)
        assert fcntl.fcntl(opened, HINT_OF_FILE, bytes(8)) != bytes(8)


def test_a_database_of_the_kernels_keeps_its_rows(scene: Scene) -> None:
    path = scene.root / "data.db"
    with sqlite3.connect(path, isolation_level=None) as database:
        database.execute("create table t (x)")
        database.execute("insert into t values (1)")
        variables = scene.variables | {"database": database}
        code = "database.execute('insert into t values (2)')"
        rehearse(code, dict(variables), scene.root)
        assert database.execute("select x from t").fetchall() == [(1,)]
        run_in_fork(code, variables)
        assert database.execute("select x from t").fetchall() == [(1,), (2,)]
    with sqlite3.connect(path) as again:
        assert again.execute("pragma integrity_check").fetchone() == ("ok",)


def test_a_file_that_is_open_keeps_content_and_position(scene: Scene) -> None:
    with (scene.root / "kept.txt").open("r+") as opened:
        variables = scene.variables | {"opened": opened}
        code = "import os; os.lseek(opened.fileno(), 2, 0); os.write(opened.fileno(), b'xx')"
        rehearse(code, dict(variables), scene.root)
        assert os.lseek(opened.fileno(), 0, os.SEEK_CUR) == 0
        assert (scene.root / "kept.txt").read_text() == "kept"
        run_in_fork(code, variables)
        assert os.lseek(opened.fileno(), 0, os.SEEK_CUR) == 4


THROUGH_DESCRIPTORS = [
    "os.write(os.open(f'/proc/self/fd/{number}', os.O_RDWR), b'gone')",
    "os.truncate(f'/proc/thread-self/fd/{number}', 0)",
    "os.fchmod(number, 0o400)",
    "os.utime(number, (1, 1))",
    "os.setxattr(number, 'user.mark', b'1')",
]


@pytest.mark.parametrize("mode", ["rb", "r+b"])
@pytest.mark.parametrize("code", cases(THROUGH_DESCRIPTORS))
def test_the_descriptor_of_an_open_file_does_not_lead_to_the_file_itself(
    scene: Scene, code: str, mode: str
) -> None:
    path = scene.root / "kept.txt"
    with path.open(mode) as opened:
        before = path.read_bytes(), path.stat(), os.listxattr(path)
        report = rehearse(f"import os; {code}", {"number": opened.fileno()}, scene.root)
    assert "problem" not in report
    assert (path.read_bytes(), path.stat(), os.listxattr(path)) == before


def _pipe(scene: Scene) -> tuple[dict[str, Any], str, Callable[[], object]]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)

    def came() -> object:
        try:
            return os.read(reading, 10)
        except BlockingIOError:
            return b""

    return {"writing": writing}, "import os; os.write(writing, b'x')", came


def _shared_map(scene: Scene) -> tuple[dict[str, Any], str, Callable[[], object]]:
    shared = mmap.mmap(-1, 4096)
    return {"shared": shared}, "shared[:1] = b'x'", lambda: shared[:1] != b"\0"


def _shared_file(scene: Scene) -> tuple[dict[str, Any], str, Callable[[], object]]:
    path = scene.root / "map.bin"
    path.write_bytes(bytes(4096))
    with path.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), 4096)
    return {"shared": shared}, "shared[:1] = b'x'", lambda: path.read_bytes()[:1] != b"\0"


def _readable_map(scene: Scene) -> tuple[dict[str, Any], str, Callable[[], object]]:
    """A map that is made writable: its file was opened for writing."""
    import ctypes

    path = scene.root / "map.bin"
    path.write_bytes(bytes(4096))
    with path.open("r+b") as file:
        shared = mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ)
    lines = Path("/proc/self/maps").read_text().splitlines()
    (line,) = (each for each in lines if str(path) in each)
    code = (
        "c, p = ctypes.CDLL(None), ctypes.c_void_p\n"
        "c.mprotect.argtypes = [p, ctypes.c_size_t, ctypes.c_int]\n"
        "c.mprotect(start, 4096, 3); ctypes.memset(start, 1, 1)"
    )
    start = int(line.split("-")[0], 16)
    variables = {"start": start, "ctypes": ctypes, "shared": shared}
    return variables, code, lambda: path.read_bytes()[:1] != b"\0"


def _shared_memory(scene: Scene) -> tuple[dict[str, Any], str, Callable[[], object]]:
    block = shared_memory.SharedMemory(create=True, size=4096)
    block.unlink()
    return {"block": block}, "block.buf[0] = 1", lambda: block.buf[0]


def _named_memory(scene: Scene) -> tuple[dict[str, Any], str, Callable[[], object]]:
    path = Path("/dev/shm", f"ipyagent-{secrets.token_hex(6)}")
    code = "open(path, 'w').write('x')"
    return {"path": str(path)}, code, lambda: path.exists() and path.unlink() is None


def _old_shared_memory(scene: Scene) -> tuple[dict[str, Any], str, Callable[[], object]]:
    """That of System V, which has numbers instead of names."""
    import ctypes

    libc = ctypes.CDLL(None)
    libc.shmat.restype, libc.shmdt.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    number = libc.shmget(0, 4096, 0o600)
    start = libc.shmat(number, None, 0)
    code = (
        "c = ctypes.CDLL(None); c.shmat.restype = ctypes.c_void_p\n"
        "ctypes.memset(c.shmat(number, None, 0) % (1 << 64), 1, 1)"
    )

    def came() -> object:
        if ctypes.string_at(start, 1) == b"\0":
            return False
        # It is let go and removed: nothing is rehearsed where memory is shared.
        return libc.shmdt(start) == libc.shmctl(number, 0, None) == 0

    return {"number": number, "ctypes": ctypes}, code, came


SHARED = [
    _old_shared_memory,
    _pipe,
    _shared_map,
    _shared_file,
    _readable_map,
    _shared_memory,
    _named_memory,
]


@pytest.mark.parametrize("make", SHARED, ids=lambda make: make.__name__.strip("_"))
@pytest.mark.spec("E09")
def test_nothing_is_shared(scene: Scene, make: Any) -> None:
    variables, code, came = make(scene)
    rehearse(code, scene.variables | variables, scene.root)
    assert not came()
    run_in_fork(code, scene.variables | variables)
    assert came(), "the naive version does not fail"


@pytest.fixture
def limited_kernel() -> Iterator[None]:
    """Restore the limits of this process, which stands for the kernel."""
    core, processors = resource.getrlimit(resource.RLIMIT_CORE), os.sched_getaffinity(0)
    resource.setrlimit(resource.RLIMIT_CORE, (core[1], core[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, core)
    os.sched_setaffinity(0, processors)


@contextlib.contextmanager
def own_group() -> Iterator[int]:
    """Be a process group of its own: the test runner's would be signalled as a whole."""
    before = os.getpgrp()
    if before != os.getpid():
        os.setpgid(0, 0)
    try:
        yield os.getpgrp()
    finally:
        if before != os.getpid():
            os.setpgid(0, before)


@pytest.mark.parametrize(
    "code",
    cases(
        [
            "import os, signal; os.kill(kernel, signal.SIGUSR1)",
            "import os, signal; os.kill(os.getppid(), signal.SIGUSR1)",
            "import os, signal; os.killpg(group, signal.SIGUSR1)",
            "import os, signal; signal.pidfd_send_signal(os.pidfd_open(kernel), signal.SIGUSR1)",
            "import ctypes; ctypes.CDLL(None).kill(kernel, 10)",
            "import ctypes; ctypes.CDLL(None).syscall(234, kernel, kernel, 10)",
            "import signal; signal.pidfd_send_signal(handle, signal.SIGUSR1)",
            "import fcntl, os; r, w = os.pipe(); fcntl.fcntl(r, fcntl.F_SETOWN, kernel)\n"
            "fcntl.fcntl(r, 10, 10); fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC); os.write(w, b'x')",
        ]
    ),
)
def test_no_signal_reaches_the_kernel(scene: Scene, code: str) -> None:
    handle = os.pidfd_open(os.getpid())
    with own_group() as group, counted_signals() as came:
        variables = scene.variables | {"group": group, "handle": handle}
        rehearse(code, dict(variables), scene.root)
        assert not came
        run_in_fork(code, variables)
        assert came, "the naive version does not fail"
    os.close(handle)


@pytest.mark.parametrize(
    ("code", "read"),
    [
        (
            "import resource as r\n"
            "r.prlimit(kernel, r.RLIMIT_CORE, (0, r.prlimit(kernel, r.RLIMIT_CORE)[1]))",
            lambda: resource.getrlimit(resource.RLIMIT_CORE)[0],
        ),
        (
            "import os; os.sched_setaffinity(kernel, {min(os.sched_getaffinity(kernel))})",
            lambda: os.sched_getaffinity(0),
        ),
    ],
    ids=["limit", "processors"],
)
def test_the_kernel_keeps_its_limits(
    scene: Scene, code: str, read: Callable[[], object], limited_kernel: None
) -> None:
    before = read()
    rehearse(code, dict(scene.variables), scene.root)
    assert read() == before
    run_in_fork(code, scene.variables)
    assert read() != before, "the naive version does not fail"


@pytest.mark.parametrize("fork", ["first", "second"])
@pytest.mark.parametrize("kind", ["daemon", "waited for", "raw"])
def test_no_thread_that_a_fork_starts_is_on_the_copy(scene: Scene, fork: str, kind: str) -> None:
    """It would keep its privileges, and code could have it do what it may not do itself.

    Threads as a tracer begins them in each child (OpenTelemetry's does) are left out, and those
    that it waits for there are let end; the kernel has its own.
    """
    release = threading.Event()
    active, kernel = [True], os.getpid()

    def start() -> None:
        if not active or (os.getppid() == kernel) != (fork == "first"):
            return
        if kind == "daemon":
            threading.Thread(target=release.wait, daemon=True).start()
        elif kind == "waited for":
            with ThreadPoolExecutor() as pool:
                assert pool.submit(int, "1").result(PATIENCE) == 1
        else:
            _thread.start_new_thread(release.wait, ())

    os.register_at_fork(after_in_child=start)
    report = rehearse("import threading\nt = threading.Thread()\nt.start()", {}, scene.root)
    active.clear()
    if kind != "raw":
        assert report["result"]["success"], report
    else:
        assert "a library starts threads on the copy" in report["problem"]
    later = threading.Thread(target=release.wait)
    later.start()
    assert later.is_alive()
    release.set()
    later.join()


def test_the_signal_of_its_parents_end_stays(scene: Scene) -> None:
    code = "import ctypes; print('kept', ctypes.CDLL(None).prctl(1, 0, 0, 0, 0) == -1)"
    assert "kept True" in rehearse(code, dict(scene.variables), scene.root)["result"]["output"]
    assert "kept False" in run_in_fork(code, scene.variables), "the naive version does not fail"


def test_signals_to_all_reach_nobody_else(scene: Scene) -> None:
    """Signal 0 asks whether it would be sent: should this fail, no other process is ended."""
    code = "import os; os.kill(-1, 0); print('reached')"
    report = rehearse(code, dict(scene.variables), scene.root)
    assert "reached" not in report["result"]["output"].splitlines()
    assert "reached" in run_in_fork(code, scene.variables), "the naive version does not fail"


@pytest.mark.parametrize("request_number", [16, 0x4206], ids=["attach", "seize"])
def test_the_kernel_is_not_traced(scene: Scene, request_number: int) -> None:
    code = (
        f"import ctypes; c = ctypes.CDLL(None)\n"
        f"traced = c.ptrace({request_number}, kernel, None, None) == 0\n"
        "print('traced', traced)\nif traced: c.ptrace(17, kernel, None, None)"
    )
    report = rehearse(code, dict(scene.variables), scene.root)
    assert "traced True" not in report["result"]["output"]


@pytest.mark.parametrize(
    "code",
    cases(
        [
            "import ctypes, os; c = ctypes.CDLL(None)\n"
            "b = ctypes.create_string_buffer(8)\n"
            "class V(ctypes.Structure): _fields_ = [('a', ctypes.c_void_p), ('n', ctypes.c_size_t)]\n"  # noqa: E501
            "l, r = V(ctypes.addressof(b), 8), V(address, 8)\n"
            "pair, n = [ctypes.c_void_p, ctypes.c_ulong], ctypes.c_ulong\n"
            "c.process_vm_readv.argtypes = [ctypes.c_int, *pair, *pair, n]\n"
            "print('read', c.process_vm_readv(kernel, ctypes.byref(l), 1, ctypes.byref(r), 1, 0) == 8)",  # noqa: E501
            "print('read', len(open(f'/proc/{kernel}/maps').read()) > 10)",
            "import os; print('read', len(os.listdir(f'/proc/{kernel}/fd')) > 3)",
            "import os; os.stat(f'/proc/{kernel}'); print('read', True)",
            "print('read', bool(open(f'/proc/{kernel}/cmdline').read()))",
        ]
    ),
)
def test_the_kernel_is_not_seen(scene: Scene, code: str, isolation_way: Method) -> None:
    """Landlock hides contents only: that there is a process, everybody can ask."""
    keep = b"12345678"
    variables = scene.variables | {"address": id(keep)}
    report = rehearse(code, dict(variables), scene.root)
    is_known = isolation_way == "Landlock" and code.startswith("import os; os.stat(")
    assert ("read True" in report["result"]["output"]) == is_known
    naive = run_in_fork(code, variables)
    assert "read True" in naive, f"the naive version does not fail: {naive}"


@pytest.mark.parametrize(
    "code",
    cases(
        [
            "open('/proc/sys/kernel/hostname', 'w').write('x'); print('done')",
            "open('/proc/self/uid_map', 'w').write('0 0 1'); print('done')",
            "import os; os.setuid(1234); print('done')",
            "import os; os.mknod('/tmp/disk', 0o60600, os.makedev(8, 0)); print('done')",
            "import ctypes; assert not ctypes.CDLL(None).unshare(0x10000000); print('done')",
            "import ctypes, os; d = os.open('/proc/self/ns/net', 0); "
            "assert not ctypes.CDLL(None).setns(d, 0); print('done')",
            "import ctypes; assert ctypes.CDLL(None).syscall(425, 8, None) != -1; print('done')",
            "import os; os.execv('/bin/true', ['true'])",
            "import os; p = os.fork(); print('done')",
            "import os; os.posix_spawn('/bin/true', ['true'], {}); print('done')",
            "import ctypes; assert ctypes.CDLL(None).syscall(250, 0, -4, 0) != -1; print('done')",
            "import socket; socket.socket(40, socket.SOCK_STREAM); print('done')",
            "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW); print('done')",
            "import ctypes; c = ctypes.CDLL(None)\n"
            "assert not c.mount(b'x', b'/usr', b'tmpfs', 0, None); print('done')",
            "open('/usr/made', 'w'); print('done')",
            "import os; os.remove(os.__file__); print('done')",
        ]
    ),
)
def test_no_privilege_is_left(scene: Scene, code: str) -> None:
    report = rehearse(code, dict(scene.variables), scene.root)
    assert "done" not in report["result"]["output"].splitlines(), report


def test_no_link_in_proc_leads_out_of_the_mounts(tmp_path: Path) -> None:
    """Who owns the program that runs could change its permissions through such a link."""
    if chosen.way == "Landlock":  # nothing is mounted: the filter denies such changes
        change = "import os\ntry: os.chmod('/proc/self/exe', 0o755)\nexcept OSError as e: print(e)"
        assert "not permitted" in rehearse(change, {}, tmp_path)["result"]["output"]
        return
    code = (
        "import glob, os, threading\n"
        "tasks = [f'/proc/{n}' for n in ('self', 1, os.getpid(), threading.get_native_id())]\n"
        "names = 'exe', 'root', 'cwd', 'task', 'map_files'\n"
        "[f'{t}/{n}' for t in tasks for n in names if os.path.lexists(f'{t}/{n}')]"
    )
    assert rehearse(code, {}, tmp_path)["result"]["output"] == "[]"
    *first, last = code.splitlines()
    naive = run_in_fork("\n".join([*first, f"print({last})"]), {})
    assert "/proc/self/exe" in naive, "the naive version does not fail"
