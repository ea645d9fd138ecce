"""The workspace: nothing leads out of it, and some names in it stay alone."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import os
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ipyagent.errors import AgentError, ConfigError, PathTraversalError, PathValidationError
from ipyagent.tools import safe_open
from ipyagent.tools.file_tools import file_tools, search_tools
from ipyagent.tools.path_rules import WalkBudget
from ipyagent.tools.workspace import Workspace
from patience import PATIENCE
from sampling import sample

CANARY = b"canary-7f3a-outside"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace beside a folder that nobody may reach."""
    (tmp_path / "outside" / "deep").mkdir(parents=True)
    (tmp_path / "outside" / "secret.txt").write_bytes(CANARY)
    (tmp_path / "outside" / "deep" / "passwd").write_bytes(CANARY)
    (tmp_path / "ws-evil").mkdir()
    (tmp_path / "ws-evil" / "secret.txt").write_bytes(CANARY)
    root = tmp_path / "ws"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_text("inside\n")
    (root / "sub" / "b.txt").write_text("below\n")
    return root


def fingerprint(folder: Path) -> str:
    """Names, kinds, modes and contents of a tree."""
    seen = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        seen.update(f"{path.relative_to(folder)} {status.st_mode} {status.st_size}".encode())
        if stat.S_ISREG(status.st_mode):
            seen.update(path.read_bytes())
    return seen.hexdigest()


def hostile_paths(root: Path) -> list[str]:
    """Spellings of "somewhere else", by hand and by combination."""
    ups = ["..", "../", "..\\", "..;", "...", "....//", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%5c"]
    ups += ["..%252f", "..%c0%af", "..%ef%bc%8f", "．．／", "․․/", "..\u2215", "..\u2044", "。。/"]
    ups += [
        "./../",
        "sub/../../",
        "sub/./.././../",
        "nope/../../",
        "a.txt/../../",
        "//../",
        ".\u200b./",
    ]
    targets = ["outside/secret.txt", "outside/deep/passwd", "ws-evil/secret.txt", "etc/passwd", ""]
    made = [up * count + target for up in ups for count in (1, 2, 8) for target in targets]
    outside = root.parent / "outside" / "secret.txt"
    absolute = [
        "/", "//", "///etc/passwd", "/etc/passwd", "//etc/passwd", "/./etc/passwd",
        "/../etc/passwd",
        "/proc/self/environ", "/proc/self/root/etc/passwd", "/proc/self/cwd/../outside/secret.txt",
        "/proc/self/fd/0", "/proc/self/mem", "/dev/zero", "/dev/stdin", "/dev/tty", "/dev/fd/0",
        "/sys/kernel/notes", str(outside), f"/{outside}", f"{root}-evil/secret.txt",
        f"{root}/../outside/secret.txt", f"{root}/sub/../../outside/secret.txt", str(root.parent),
        f"file://{outside}", f"file:{outside}", f"\\\\?\\{outside}", f"{root}\0/../../outside",
    ]  # fmt: skip
    odd = [
        "~", "~/", "~root", "~/.ssh/id_rsa", "$HOME/.bashrc", "${HOME}", "`id`", "$(id)", "C:\\x",
        "C:/Windows/win.ini", "\\\\server\\share", "CON", "NUL", "COM1", "aux.txt", "a.txt\0.png",
        "\0", "../outside/secret.txt\0.txt", "\ud800", "\udcff\udcfe", "a\nb", "a\rb", "\x1b[2Jx",
        "a.txt/", "a.txt/.", "a.txt/..", ".", "./", "sub/..", "", " ", "..", ". .", ".. ", " ..",
        "http://localhost/x", "data:,x", "a" * 5000, "a/" * 3000, "x" * 255 + "y", "../" * 2000,
        "link-file", "link-dir", "link-dir/secret.txt", "link-dir/deep/passwd", "link-up/outside",
        "link-abs", "link-loop", "link-loop/x", "link-proc", "link-proc/environ", "sub/link-in-sub",
        "sub/link-in-sub/secret.txt", "link-self/sub/b.txt", "link-dir/../a.txt", "fifo", "socket",
    ]  # fmt: skip
    return [*made, *absolute, *odd]


def plant_links(root: Path) -> None:
    outside = root.parent / "outside"
    (root / "link-file").symlink_to(outside / "secret.txt")
    (root / "link-dir").symlink_to(outside)
    (root / "link-up").symlink_to("..")
    (root / "link-abs").symlink_to("/etc/passwd")
    (root / "link-loop").symlink_to("link-loop")
    (root / "link-proc").symlink_to("/proc/self")
    (root / "link-self").symlink_to(".")
    (root / "sub" / "link-in-sub").symlink_to("../../outside")
    os.mkfifo(root / "fifo")
    with socket.socket(socket.AF_UNIX) as server, pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)  # a socket's path may be 108 bytes long
        server.bind("socket")


@pytest.mark.spec("A17", "A42", "A45", "D7", "D15")
@pytest.mark.parametrize("share", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_no_hostile_path_reads_or_changes_anything_outside(root: Path, share: int) -> None:
    plant_links(root)
    paths = sample(hostile_paths(root), share)
    assert len(set(paths)) >= 200 // share

    naive = 0
    for path in paths:
        with suppress(OSError, ValueError):
            fd = os.open(root / path, os.O_RDONLY | os.O_NONBLOCK)
            with suppress(OSError):
                naive += CANARY in os.read(fd, 4096)
            os.close(fd)
    assert naive >= 20 // share, "the corpus must be dangerous to those who just open"

    workspace = Workspace(root)
    tools = [*file_tools(workspace, allow_delete=True), *search_tools(workspace)]
    by_name = {tool.name: tool.function for tool in tools}
    operations: list[Callable[[str], object]] = [
        by_name["read_file"],
        by_name["list_files"],
        lambda path: by_name["list_files"](path, recursive=True),
        lambda path: by_name["list_files"](".", pattern=path, recursive=True),
        lambda path: by_name["search_files"]("canary-7f3a", path),
        lambda path: by_name["search_files"]("canary-7f3a", ".", pattern=path),
        by_name["delete_file"],
        lambda path: by_name["edit_file"](path, "canary", "broken"),
        lambda path: by_name["write_file"](path, "broken"),
        lambda path: by_name["write_file"](path, "broken", "append"),
    ]
    before = [fingerprint(root.parent / name) for name in ("outside", "ws-evil")]
    for path, operation in itertools.product(paths, operations):
        try:
            answer = str(operation(path))
        except AgentError as error:
            answer = str(error)
            # Only what the model itself said may come back to it.
            assert str(root.parent) not in answer.replace(path, "") or str(root.parent) in path
        assert "canary-7f3a-outside" not in answer.replace(path, "")
        assert "root:x:0" not in answer
    assert [fingerprint(root.parent / name) for name in ("outside", "ws-evil")] == before
    assert sorted(p.name for p in root.parent.iterdir()) == ["outside", "ws", "ws-evil"]


@pytest.mark.spec("A45")
def test_an_escape_is_named_without_saying_where_it_would_have_led(root: Path) -> None:
    workspace = Workspace(root)
    for path in ("../outside/secret.txt", "/etc/passwd", "sub/../../x"):
        with pytest.raises(PathTraversalError, match="escapes the workspace") as caught:
            workspace.read_bytes(path)
        assert str(root.parent) not in str(caught.value)


@pytest.mark.spec("A40", "A17")
def test_relative_absolute_and_dotted_paths_inside_are_fine(root: Path) -> None:
    workspace = Workspace(root)
    for path in ("a.txt", "./a.txt", "sub/../a.txt", str(root / "a.txt"), f"{root}/sub/../a.txt"):
        assert workspace.read_bytes(path) == b"inside\n"
    alias = root.parent / "alias"
    alias.symlink_to(root)
    assert Workspace(alias).read_bytes(str(alias / "a.txt")) == b"inside\n"
    assert Workspace(alias).read_bytes(str(root / "a.txt")) == b"inside\n"


def test_nothing_in_a_path_is_decoded_or_expanded(root: Path) -> None:
    workspace = Workspace(root)
    for name in ("~", "$HOME", "%2e%2e", "a\\b", "file:x", "sub%2fb.txt"):
        workspace.write_atomic(name, b"literal")
        assert (root / name).read_bytes() == b"literal"


@pytest.mark.spec("A17", "M06")
def test_chdir_does_not_move_the_root(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    workspace = Workspace(Path())
    monkeypatch.chdir(root.parent / "outside")
    assert Path("secret.txt").read_bytes() == CANARY  # what a relative path means to others now
    assert workspace.read_bytes("a.txt") == b"inside\n"
    with pytest.raises(PathValidationError, match="no such file"):
        workspace.read_bytes("secret.txt")


def test_renaming_the_root_does_not_put_another_folder_in_its_place(root: Path) -> None:
    workspace = Workspace(root)
    root.rename(root.parent / "moved")
    root.symlink_to(root.parent / "outside")
    assert (root / "secret.txt").read_bytes() == CANARY
    assert workspace.read_bytes("a.txt") == b"inside\n"


@pytest.mark.spec("A17", "M06")
def test_a_root_that_is_no_folder_is_a_setting_to_correct_and_never_made(root: Path) -> None:
    before = fingerprint(root)
    for wrong in (root / "nope", root / "nope" / "deeper", root / "a.txt"):
        with pytest.raises(ConfigError, match=r"workspace\.root"):
            Workspace(wrong)
    assert fingerprint(root) == before


def test_links_are_refused_by_name_even_when_they_stay_inside(root: Path) -> None:
    plant_links(root)
    workspace = Workspace(root)
    for path, link in {"link-dir/secret.txt": "link-dir", "link-self/a.txt": "link-self"}.items():
        for operation in (workspace.read_bytes, workspace.delete, workspace.scan):
            with pytest.raises(PathValidationError) as caught:
                operation(path)
            assert str(caught.value).startswith(f"{link} is a symbolic link; none is followed")
    for operation in (workspace.read_bytes, workspace.delete, lambda p: workspace.append(p, b"x")):
        with pytest.raises(PathValidationError, match=r"^link-file is a symbolic link"):
            operation("link-file")
    assert (root / "link-file").is_symlink()


# --- swapped while it is opened ------------------------------------------------------------------


def naive_read(root: Path, path: str, between: Callable[[], None] = lambda: None) -> bytes:
    """The usual way: resolve, compare, open."""
    resolved = (root / path).resolve()
    if not resolved.is_relative_to(root.resolve()):
        raise PermissionError(path)
    between()
    return (root / path).read_bytes()


def exchange(one: Path, other: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2)
    assert done == 0, os.strerror(ctypes.get_errno())


def plant_swap(root: Path) -> tuple[Path, Path]:
    """A folder of the workspace, and a link to outside that takes its place."""
    (root / "d" / "deep").mkdir(parents=True)
    (root / "d" / "secret.txt").write_bytes(b"inside")
    (root / "swap").symlink_to(root.parent / "outside")
    return root / "d", root / "swap"


@contextmanager
def swapping(one: Path, other: Path) -> Iterator[None]:
    done = threading.Event()

    def run() -> None:
        while not done.is_set():
            exchange(one, other)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.slow
@pytest.mark.spec("A17", "A45")
def test_swapping_a_folder_for_a_link_never_leads_out(root: Path) -> None:
    one, other = plant_swap(root)
    assert naive_read(root, "d/secret.txt", between=lambda: exchange(one, other)) == CANARY
    exchange(one, other)

    workspace = Workspace(root)
    reading: list[Callable[[], object]] = [
        lambda: workspace.read_bytes("d/secret.txt") == b"inside",
        lambda: [e.path for e in workspace.scan("d/deep")] != ["passwd"],
    ]
    writing: list[Callable[[], object]] = [
        lambda: workspace.write_atomic("d/secret.txt", b"inside"),
        lambda: workspace.append("d/deep/new.txt", b"new"),
        lambda: workspace.delete("d/deep/new.txt"),
    ]
    before = fingerprint(root.parent / "outside")
    met = {(operation, answer): 0 for operation in (*reading, *writing) for answer in ("ok", "no")}
    with swapping(one, other):
        tries = 0
        # Each operation has to meet the folder and the link, however the threads are scheduled.
        while tries < 2_000 or not all(met.values()):
            tries += 1
            for operation in reading if tries % 20 else writing:
                try:
                    assert operation() is not False
                    met[operation, "ok"] += 1
                except PathValidationError:
                    met[operation, "no"] += 1
    assert fingerprint(root.parent / "outside") == before


# --- special files -------------------------------------------------------------------------------


def test_pipes_sockets_and_devices_are_refused_at_once(root: Path) -> None:
    plant_links(root)
    workspace = Workspace(root)
    waiting = threading.Thread(target=(root / "fifo").read_bytes, daemon=True)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive(), "an ordinary open of a pipe waits for a writer"

    write = partial(workspace.write_atomic, data=b"x")
    for path, operation in itertools.product(
        ("fifo", "socket"), (workspace.read_bytes, workspace.delete, write)
    ):
        with pytest.raises(PathValidationError, match="device or pipe"):
            operation(path)
    for folder, name in {"/dev": "zero", "/proc": "version", "/proc/self": "environ"}.items():
        with pytest.raises(PathValidationError, match="device or pipe"):
            Workspace(Path(folder)).read_bytes(name)
    (root / "fifo").open("wb").close()  # lets the waiting thread go
    waiting.join(PATIENCE)
    assert not waiting.is_alive()


def test_what_counts_is_what_is_read_not_what_the_inode_says(root: Path) -> None:
    with (root / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(PathValidationError, match=r"larger than 21\.0 MB"):
        Workspace(root).read_bytes("sparse")
    with pytest.raises(PathValidationError, match="larger than 3 B"):
        Workspace(root).read_bytes("a.txt", limit=3)


# --- writing -------------------------------------------------------------------------------------


def test_writing_a_hard_link_leaves_the_file_outside_alone(root: Path) -> None:
    outside = root.parent / "outside" / "secret.txt"
    os.link(outside, root / "naive.txt")
    os.link(outside, root / "hard.txt")
    (root / "naive.txt").write_bytes(CANARY + b"!")
    assert outside.read_bytes() == CANARY + b"!", "a plain write goes through the link"
    outside.write_bytes(CANARY)

    workspace = Workspace(root)
    workspace.write_atomic("hard.txt", b"mine")
    workspace.append("naive.txt", b"more")
    assert outside.read_bytes() == CANARY
    assert (root / "hard.txt").read_bytes() == b"mine"
    assert (root / "naive.txt").read_bytes() == CANARY + b"more"


@pytest.mark.spec("A41")
def test_a_reader_never_sees_half_a_file(root: Path) -> None:
    contents = {bytes([letter]) * 300_000 for letter in b"abcd"}
    path = root / "a.txt"
    path.write_bytes(min(contents))

    def torn_reads(write: Callable[[bytes], object]) -> int:
        done, torn = threading.Event(), 0

        def run() -> None:
            for content in itertools.chain.from_iterable([contents] * 15):
                write(content)
            done.set()

        writer = threading.Thread(target=run)
        writer.start()
        while not done.is_set():
            torn += path.read_bytes() not in contents
        writer.join()
        return torn

    def in_two_steps(content: bytes) -> None:
        with path.open("wb") as file:
            file.write(content[:1000])
            file.flush()
            time.sleep(0.001)
            file.write(content[1000:])

    assert torn_reads(in_two_steps) > 0
    workspace = Workspace(root)
    assert torn_reads(lambda content: workspace.write_atomic("a.txt", content)) == 0
    assert torn_reads(lambda new: workspace.compare_and_swap("a.txt", path.read_bytes(), new)) == 0
    assert sorted(p.name for p in root.iterdir()) == ["a.txt", "sub"], "no temporary file stays"


@pytest.mark.spec("A41")
def test_a_replaced_file_keeps_its_mode_and_a_new_one_has_the_usual(root: Path) -> None:
    workspace = Workspace(root)
    (root / "a.txt").chmod(0o750)
    workspace.write_atomic("a.txt", b"new")
    assert stat.S_IMODE((root / "a.txt").stat().st_mode) == 0o750
    (root / "usual").write_bytes(b"")
    workspace.write_atomic("deep/er/new.txt", b"new")
    usual, new = (root / "usual").stat(), (root / "deep" / "er" / "new.txt").stat()
    assert stat.S_IMODE(new.st_mode) == stat.S_IMODE(usual.st_mode)


def test_a_read_only_file_is_left_alone(root: Path) -> None:
    (root / "a.txt").chmod(0o444)
    workspace = Workspace(root)
    for operation in (
        lambda: workspace.write_atomic("a.txt", b"x"),
        lambda: workspace.delete("a.txt"),
    ):
        with pytest.raises(PathValidationError, match="read-only"):
            operation()
    assert (root / "a.txt").read_text() == "inside\n"


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_swap_happens_only_where_the_expected_content_is(
    root: Path, exchanges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchanges:  # as on a system without renameat2
        monkeypatch.setattr(safe_open, "exchange_files", lambda *_: False)
    workspace = Workspace(root)
    for before in (b"other", b"", b"inside\n+", None):
        with pytest.raises(PathValidationError, match="changed meanwhile"):
            workspace.compare_and_swap("a.txt", before, b"new")
    with pytest.raises(PathValidationError, match="changed meanwhile"):
        workspace.compare_and_swap("gone.txt", b"was", b"new")
    assert (root / "a.txt").read_bytes() == b"inside\n"
    workspace.compare_and_swap("a.txt", b"inside\n", b"new")
    workspace.compare_and_swap("new.txt", None, b"first")
    assert [(root / name).read_bytes() for name in ("a.txt", "new.txt")] == [b"new", b"first"]
    assert sorted(p.name for p in root.iterdir()) == ["a.txt", "new.txt", "sub"]


def test_what_somebody_saves_at_the_last_moment_is_put_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, workspace = root / "a.txt", Workspace(root)

    def person_saves() -> None:
        (root / "person.tmp").write_bytes(b"the person's")
        (root / "person.tmp").replace(path)

    def naive_swap(before: bytes, after: bytes) -> None:
        if path.read_bytes() == before:
            person_saves()
            path.write_bytes(after)

    naive_swap(b"inside\n", b"ours")
    assert path.read_bytes() == b"ours", "compare and replace overwrites what came in between"

    real = safe_open.exchange_files

    def exchange_late(*arguments: Any) -> bool:
        monkeypatch.setattr(safe_open, "exchange_files", real)
        person_saves()
        return real(*arguments)

    monkeypatch.setattr(safe_open, "exchange_files", exchange_late)
    with pytest.raises(PathValidationError, match="changed meanwhile"):
        workspace.compare_and_swap("a.txt", b"ours", b"new")
    assert path.read_bytes() == b"the person's"
    assert sorted(p.name for p in root.iterdir()) == ["a.txt", "sub"]


@pytest.mark.spec("A42")
def test_delete_removes_files_and_nothing_else(root: Path) -> None:
    workspace = Workspace(root)
    with pytest.raises(PathValidationError, match="folder"):
        workspace.delete("sub")
    with pytest.raises(PathValidationError, match="no such file"):
        workspace.delete("nope")
    with pytest.raises(PathValidationError, match="changed meanwhile"):
        workspace.delete("a.txt", b"not this")
    workspace.delete("a.txt", b"inside\n")
    assert not (root / "a.txt").exists()


@pytest.mark.spec("A46")
def test_what_cannot_be_used_says_why_without_a_bare_os_error(root: Path) -> None:
    workspace = Workspace(root)
    for path, why in {
        "nope": "no such file or folder",
        "sub": "is a folder; list_files",
        "a.txt/x": "is not a folder",
        "x" * 256: "file name too long",
        "a/" * 2_000 + "x": "no such file",
        "a/" * 3_000 + "x": "6,001 bytes long",
        "nul\0": "NUL",
        "\ud800": "Unicode",
    }.items():
        with pytest.raises(PathValidationError, match=why):
            workspace.read_bytes(path)
    for path in ("a/" * 2_000 + "x", "x" * 256, "a.txt/x", "sub", "."):
        with pytest.raises(PathValidationError):
            workspace.write_atomic(path, b"x")
    assert sorted(p.name for p in root.iterdir()) == ["a.txt", "sub"]


# --- names ---------------------------------------------------------------------------------------

SENSITIVE = [
    ".env",
    ".env.local",
    "prod.env",
    "sub/.ENV",
    "server.pem",
    "x.key",
    "id_rsa",
    ".ssh/config",
]
SENSITIVE += [
    ".netrc",
    ".aws/credentials",
    "ＩＤ＿ＲＳＡ",
    ".env ",
    "jpserver-12.json",
    ".ipyagent/state.db",
    "credentials.json",
    "gcp/Service-Account-prod.json",
    "client_secret_1.apps.json",
    "config/secrets.yaml",
]


@pytest.mark.spec("A54")
@pytest.mark.parametrize("path", SENSITIVE)
def test_secrets_are_neither_read_nor_written(root: Path, path: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(CANARY)
    workspace = Workspace(root)
    for operation in (
        workspace.read_bytes,
        workspace.delete,
        lambda path: workspace.write_atomic(path, b"OPENAI_BASE_URL=http://evil"),
    ):
        with pytest.raises(PathValidationError, match="secrets or private state"):
            operation(path)
    assert (root / path).read_bytes() == CANARY
    assert not workspace.is_file(path)


def test_ordinary_names_are_not_mistaken_for_special_ones(root: Path) -> None:
    workspace = Workspace(root)
    names = [".gitignore", "git", "env.txt", "environment.yml", "keys.csv", "monkey.py", "test.py"]
    names += ["naïve résumé.md", "数据.csv", "données/été.py", "my.pemmican", "legit/x", "a b.txt"]
    names += ["app/credentials/store.py", "secrets.csv", "secrets.md", "database.yml"]
    for path in names:
        workspace.write_atomic(path, b"x")
        assert workspace.read_bytes(path) == b"x"


def test_new_names_with_invisible_characters_are_refused(root: Path) -> None:
    workspace = Workspace(root)
    for name in ("a\u202etxt.py", "a\u200bb", "a\nb", "．．／x", "a／b", "\u2066x", "a\x1b[2J"):
        with pytest.raises(PathValidationError) as caught:
            workspace.write_atomic(name, b"x")
        assert str(caught.value).isprintable()
    (root / "old\u200bname").write_text("theirs")
    workspace.write_atomic("old\u200bname", b"changed")


# --- looking around ------------------------------------------------------------------------------


def test_a_walk_stops_when_its_budget_is_spent(root: Path) -> None:
    for number in range(50):
        (root / "sub" / f"{number}.txt").touch()
    budget = WalkBudget(entries=10)
    assert len(list(Workspace(root).walk(".", budget))) == 10
    assert budget.exhausted
    late = WalkBudget(seconds=-1)
    assert list(Workspace(root).walk(".", late)) == []
    assert late.exhausted


def test_a_walk_counts_the_work_of_its_thread_before_the_clock(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = {"monotonic": 0.0, "thread_time": 0.0}
    monkeypatch.setattr(time, "monotonic", lambda: clock["monotonic"])
    monkeypatch.setattr(time, "thread_time", lambda: clock["thread_time"])

    def is_left(monotonic: float, thread_time: float) -> bool:
        clock.update(monotonic=0.0, thread_time=0.0)
        budget = WalkBudget(seconds=1.5)
        clock.update(monotonic=monotonic, thread_time=thread_time)
        return budget.spend() and not budget.exhausted

    assert is_left(monotonic=3.0, thread_time=0.1), "the machine was busy with something else"
    assert not is_left(monotonic=3.0, thread_time=1.6)
    assert not is_left(monotonic=6.1, thread_time=0.1), "a disk that never answers"


def test_a_walk_looks_first_into_the_folders_that_are_asked_for(root: Path) -> None:
    for folder in range(20):
        (root / f"d{folder:02}").mkdir()
        for number in range(10):
            (root / f"d{folder:02}" / f"{number}.txt").touch()
    level = [entry.path for entry in Workspace(root).scan(".")]

    def walk(budget: WalkBudget, **first: Any) -> list[str]:
        return [entry.path for entry in Workspace(root).walk(".", budget, **first)]

    enough = WalkBudget(entries=len(level) + 10)
    assert "d17/3.txt" not in walk(WalkBudget(entries=len(level) + 10))
    assert "d17/3.txt" in walk(enough, is_next=lambda folder: folder == "d17")


def test_the_overview_of_a_large_folder_measures_no_more_than_it_shows(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in range(20):
        (root / f"d{folder:02}").mkdir()
        for number in range(60):
            (root / f"d{folder:02}" / f"{number}.txt").write_text("x" * number)
    measured: list[str] = []
    status = Workspace.stat

    def stat_and_note(self: Workspace, path: str) -> os.stat_result | None:
        measured.append(path)
        return status(self, path)

    monkeypatch.setattr(Workspace, "stat", stat_and_note)
    workspace = Workspace(root)
    files, is_cut = workspace.find_files()
    lines = workspace.overview(files, is_cut, max_files=5)
    assert lines["d00/10.txt"] == "- d00/10.txt  10 B"
    assert list(lines.values())[-1] == "- … and more; list_files shows them"
    assert len(measured) == 5
    assert (len(files), is_cut) == (1_202, False)


def test_a_walk_follows_no_link_and_skips_what_is_dull_or_private(root: Path) -> None:
    plant_links(root)
    for folder in (".git", "node_modules", ".ipyagent", ".ssh"):
        (root / folder).mkdir()
        (root / folder / "x").touch()
    budget = WalkBudget()
    entries = {e.path: e.kind for e in Workspace(root).walk(".", budget)}
    assert entries["sub/b.txt"] == "file"
    assert entries["link-dir"] == entries["sub/link-in-sub"] == "link"
    assert entries["fifo"] == "special"
    assert not [path for path in entries if path.endswith("/x")]
    assert not [path for path in entries if path.startswith(("link-dir/", "link-self/"))]
    assert not budget.exhausted


def test_the_overview_lists_visible_files_with_sizes(root: Path) -> None:
    (root / ".hidden").touch()
    workspace = Workspace(root)
    files, is_cut = workspace.find_files()
    lines = {"a.txt": "- a.txt  7 B", "sub/b.txt": "- sub/b.txt  6 B"}
    assert workspace.overview(files, is_cut) == lines
    more = {"a.txt": lines["a.txt"], "further files": "- … and more; list_files shows them"}
    assert workspace.overview(files, is_cut, max_files=1) == more
    assert workspace.overview(files[:1], True) == more


def test_is_file_answers_about_readable_files_and_never_raises(root: Path) -> None:
    plant_links(root)
    workspace = Workspace(root)
    assert workspace.is_file("a.txt")
    for path in (
        "sub",
        "nope",
        "../outside/secret.txt",
        "link-file",
        "fifo",
        "a\0",
        "\ud800",
        ".env",
    ):
        assert not workspace.is_file(path)


def test_the_state_folder_is_ignored_by_git_and_never_a_link(root: Path) -> None:
    Workspace(root).state_folder().write_atomic("notes.json", b"{}")
    assert (root / ".ipyagent" / ".gitignore").read_text() == "*\n"
    assert (root / ".ipyagent" / "notes.json").read_text() == "{}"

    other = root.parent / "other"
    other.mkdir()
    (other / ".ipyagent").symlink_to(root.parent / "outside")
    with pytest.raises(PathValidationError, match="symbolic link"):
        Workspace(other).state_folder()


def test_a_workspace_gives_its_descriptors_back(root: Path) -> None:
    def opened() -> list[str]:
        """What is open beneath the root; other threads of the test run open and close as well."""
        targets = []
        for each in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):
                targets.append(str(each.readlink()))
        return [target for target in targets if target.startswith(str(root))]

    def use(workspace: Workspace, path: str) -> None:
        for operation in (
            workspace.read_bytes,
            workspace.scan,
            lambda path: workspace.write_atomic(path, b"x"),
            lambda path: workspace.compare_and_swap(path, b"y", b"x"),
            workspace.delete,
            lambda _: workspace.state_folder(),
        ):
            with suppress(AgentError):
                operation(path)

    plant_links(root)
    workspace = Workspace(root)
    assert opened() == [str(root)]
    for path in ["a.txt", "sub", "nope", "link-dir/x", "fifo", "new/er/x.txt"] * 5:
        use(workspace, path)
    assert opened() == [str(root)]
    del workspace
    assert opened() == []
