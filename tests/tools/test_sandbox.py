"""What a boxed command cannot do. Each way out is first shown to be one where the box is weaker."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pexpect
import pydantic
import pytest
from boxes import (
    CANARY,
    Place,
    alive,
    as_root,
    less,
    needs_bubblewrap,
    output_of,
    place_in,
    printed,
)

from ipyagent.errors import AgentError
from ipyagent.tools import sandbox as processes
from ipyagent.tools.sandbox import Sandbox, bubblewrap, escape_probe, protected_paths
from ipyagent.tools.sandbox.protected_paths import WorkspaceScan
from ipyagent.tools.workspace import Workspace
from patience import PATIENCE, until

pytestmark = [pytest.mark.spec("M27", "N23"), needs_bubblewrap]

# Without the second, root's own mounts are locked even where it keeps its capabilities.
UNCAPPED = ["--cap-drop ALL", "--disable-userns"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "person"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "person"))
    return place_in(tmp_path)


def test_it_is_there_and_holds(place: Place):
    assert (place.sandbox.unavailable_reason, place.sandbox.available) == (None, True)


@pytest.mark.parametrize(
    ("without", "says"),
    [
        (["--unshare-net"], "connects, connects by name"),
        (["--unshare-pid"], "sees other processes"),
        pytest.param(["--remount-ro /proc"], "changes the kernel's settings", marks=as_root),
        pytest.param(UNCAPPED[:1], "has capabilities", marks=as_root),
        # Without the filter of system calls it would remount as well.
        pytest.param(UNCAPPED, "has capabilities", marks=as_root),
    ],
)
def test_a_box_with_a_hole_is_not_relied_on(
    monkeypatch: pytest.MonkeyPatch, without: list[str], says: str
):
    whole = bubblewrap.build_arguments

    def weaker(*args: object) -> list[str]:
        return less(whole(*args), without)

    monkeypatch.setattr(bubblewrap, "build_arguments", weaker)
    bubblewrap.detect_sandbox.cache_clear()
    try:
        assert bubblewrap.detect_sandbox().problem == f"bubblewrap does not hold here ({says})"
    finally:
        bubblewrap.detect_sandbox.cache_clear()


def test_a_bubblewrap_that_does_not_work_is_not_relied_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho bwrap: No permissions to create new namespace >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(bubblewrap, "_PATH", str(tmp_path))
    bubblewrap.detect_sandbox.cache_clear()
    try:
        said = "bubblewrap does not work here (bwrap: No permissions to create new namespace)"
        assert bubblewrap.detect_sandbox().problem == said
        broken.unlink()
        bubblewrap.detect_sandbox.cache_clear()
        assert (
            bubblewrap.detect_sandbox().problem
            == "bubblewrap is not installed (package bubblewrap)"
        )
    finally:
        bubblewrap.detect_sandbox.cache_clear()


WRITE = "import sys; open(sys.argv[1], 'w').write('x')"
READ = "import sys; print(open(sys.argv[1]).read())"


async def test_nothing_is_written_outside(place: Place):
    place.plainly(WRITE, place.outside / "naive")
    assert (place.outside / "naive").exists()
    await place.python(WRITE, place.outside / "boxed")
    await place.shell(f"echo x > {place.outside}/boxed; echo x > ../outside/boxed")
    await place.shell(f"ln -s {place.outside} way; echo x > way/boxed")
    assert [each.name for each in place.outside.iterdir()] != []
    assert not (place.outside / "boxed").exists()


async def test_the_workspace_is_written_as_it_is(place: Place):
    ran = await place.python("open('made.txt', 'w').write('x'); open('data.csv', 'a').write('2')")
    assert (ran.outcome.code, ran.notes) == (0, ())
    assert (place.root / "made.txt").read_text() == "x"
    assert (place.root / "data.csv").read_text() == "a\n1\n2"


@pytest.mark.spec("A54")
@pytest.mark.parametrize("name", [".env", "deep/.ssh/id_rsa", "deep/server.pem", "link.txt"])
async def test_secrets_in_the_workspace_and_links_out_of_it_are_not_read(place: Place, name: str):
    assert CANARY in place.plainly(READ, name)
    ran = await place.python(READ, name)
    assert ran.outcome.code != 0
    assert CANARY not in printed(ran)
    # Nor when it tries harder.
    tricks = (
        "chmod -R 777 . ; mv deep other; cp -r . /tmp/x; ln .env e; cat /proc/self/root$PWD/.env"
    )
    ran = await place.shell(f"{tricks}; grep -rs {CANARY[:6]} . /tmp/x; cat other/server.pem e")
    assert CANARY not in printed(ran)


@as_root
async def test_the_password_file_is_not_read(place: Place):
    assert "root:" in place.plainly(READ, "/etc/shadow")
    assert "root:" not in printed(await place.python(READ, "/etc/shadow"))


@as_root
async def test_the_kernel_s_settings_are_not_changed(place: Place):
    # Opened only: what would be written there would be so for the whole machine.
    code = "open('/proc/sys/kernel/core_pattern', 'r+'); print('opened')"
    naive = place.bubblewrap(["--remount-ro /proc"])
    if "opened" not in output_of([*naive, sys.executable, "-c", code]):
        pytest.skip("this system forbids it anyway")
    ran = await place.python(code)
    assert "Read-only file system" in printed(ran)
    ran = await place.python("import multiprocessing as m; print(m.Pool(2).map(abs, [-1, 2]))")
    assert printed(ran) == "[1, 2]\n"


@pytest.mark.parametrize("name", [".git/hooks/pre-commit", ".git/config"])
async def test_what_runs_later_is_not_changed(place: Place, name: str):
    before = (place.root / ".git" / "config").read_text()
    ran = await place.python(WRITE, name)
    assert "Read-only file system" in printed(ran)
    await place.shell("rm -rf .git; mv .git x; mkdir -p .git/hooks")
    assert (place.root / ".git" / "config").read_text() == before
    assert list((place.root / ".git" / "hooks").iterdir()) == []
    place.plainly(WRITE, name)
    assert (place.root / name).read_text() == "x"


async def test_what_would_run_later_and_is_new_is_set_aside_and_told(place: Place):
    made = ["conftest.py", "sub/.git/hooks/post-checkout", "yaml.py", ".envrc", "deep/.vscode/x"]
    code = (
        "import sys, pathlib\n"
        "for path in map(pathlib.Path, sys.argv[1:]):\n"
        "    path.parent.mkdir(parents=True, exist_ok=True); path.write_text('evil')"
    )
    ran = await place.python(code, *made, "helper_5e1f.py", "pkg/__init__.py", "pkg/yaml.py")
    assert not [name for name in made if (place.root / name).exists()]
    assert (place.root / "helper_5e1f.py").exists()
    assert (place.root / "pkg" / "yaml.py").exists(), "nobody imports that by its bare name"
    assert len(ran.notes) == len(made)
    aside = ran.notes[0].split(" to ")[1]
    assert ran.notes[0].startswith(".envrc, made while it ran, was set aside to .ipyagent/")
    assert (place.root / aside).read_text() == "evil"


async def test_what_resists_is_set_aside_as_well(place: Place):
    long = "/".join(["d" * 200] * 3)
    ran = await place.shell(
        f"mkdir -p {long}/.git/hooks a/.git b/hidden/.git; : > {long}/.git/hooks/x;"
        "chmod 555 a a/.git; chmod 000 b/hidden"
    )
    assert len(ran.notes) == 3
    left = [each for each in place.root.rglob(".git") if ".ipyagent" not in each.parts]
    assert left == [place.root / ".git"], "the person's own"
    assert all("was set aside" in note for note in ran.notes)


async def test_what_cannot_be_set_aside_is_told(place: Place, monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(protected_paths, "_force_move", refuse)
    ran = await place.shell(": > conftest.py")
    said = (
        "conftest.py, made while it ran, may do harm later and stays: it cannot be set aside "
        "(Invalid cross-device link)"
    )
    assert ran.notes == (said,)


@pytest.mark.parametrize("close", ["chmod 300 .", "chmod 000 .", "chmod 300 d", "chmod 000 d ."])
async def test_what_is_new_is_found_in_folders_that_were_closed(place: Place, close: str):
    mode = place.root.stat().st_mode
    command = f"mkdir d; echo evil > conftest.py; echo evil > d/conftest.py; {close}"
    naive = place.outside / "naive"
    naive.mkdir()
    output_of(["/bin/sh", "-c", command], naive)
    if os.geteuid():  # root looks into everything
        assert len(WorkspaceScan(naive, frozenset()).run().read_only) < 2
        output_of(["chmod", "-R", "700", str(naive)])
    ran = await place.shell(command)
    assert [n.split(",")[0] for n in ran.notes if "aside" in n] == ["conftest.py", "d/conftest.py"]
    restored = "the workspace's own permissions are again what they were"
    assert (restored in ran.notes) is close.endswith(".")
    assert place.root.stat().st_mode == mode
    assert printed(await place.shell("cat data.csv")) == "a\n1\n", "it can still be worked in"


async def test_what_the_person_closed_stays_closed(place: Place):
    (place.root / "deep").chmod(0o300)
    await place.shell("true")
    assert (place.root / "deep").stat().st_mode & 0o777 == 0o300


@as_root
async def test_programs_that_would_run_as_root_are_left_without_that(place: Place):
    own = place.root / "own"
    shutil.copy("/usr/bin/id", own)
    own.chmod(0o4755)
    make = "cp /usr/bin/id {0}/id2; chmod 6755 {0}/id2"
    output_of(["/bin/sh", "-c", make.format(place.outside)])
    assert (place.outside / "id2").stat().st_mode & 0o6000 == 0o6000
    ran = await place.shell(f"{make.format('.')}; mkdir .aws d; {make.format('.aws')}; mv own d")
    assert ran.outcome.code == 0
    files = [each for each in place.root.rglob("*") if each.is_file() and not each.is_symlink()]
    assert [each.name for each in files if each.stat().st_mode & 0o6000] in ([], ["own"])
    assert (place.root / "id2").stat().st_mode & 0o7777 == 0o755
    assert "id2 is no longer setuid or setgid" in ran.notes
    assert len([each for each in files if each.name == "id2"]) == 2
    assert (await place.shell("true")).notes == ()


async def test_new_links_that_lead_out_are_set_aside(place: Place):
    target = place.outside / "bashrc"
    links = {"a.csv": target, "b.csv": "../outside/bashrc", "c.csv": "/proc/self/cwd/data.csv"}
    make = "; ".join(f"ln -s {to} {name}" for name, to in links.items())
    (place.outside / "naive").mkdir()
    output_of(["/bin/sh", "-c", f"{make}; echo evil > a.csv"], place.outside / "naive")
    assert target.read_text() == "evil\n", "who writes to the link writes there"
    inside = f"ln -s data.csv in; ln -s {place.root}/data.csv whole; ln -s gone dangling"
    moved = "mkdir sub; mv link.txt sub"
    ran = await place.shell(f"{make}; {inside}; {moved}")
    assert sorted(each.split(",")[0] for each in ran.notes) == sorted(links)
    assert all(", made while it ran, was set aside to " in each for each in ran.notes)
    left = {each.name for each in place.root.iterdir() if each.is_symlink()}
    assert left == {"in", "whole", "dangling"}
    assert (place.root / "sub" / "link.txt").is_symlink(), "the person's own"


async def test_a_folder_in_another_s_place_does_not_hide_what_is_new_in_it(place: Place):
    (place.root / "deep" / "conftest.py").write_text("mine")
    ran = await place.shell("mv deep moved; mkdir deep; echo evil > deep/conftest.py")
    assert (place.root / "moved" / "conftest.py").read_text() == "mine"
    assert not (place.root / "deep" / "conftest.py").exists()
    assert [note.split(",")[0] for note in ran.notes] == ["deep/conftest.py"]


async def test_what_the_person_saves_meanwhile_stays(place: Place):
    rules = place.root / "pyproject.toml"
    rules.write_text("old")
    new = place.root / "x.tmp"
    new.write_text("new")
    running = place.shell("echo > begun; while [ -f begun ]; do sleep 0.01; done")

    async def save() -> None:
        await until((place.root / "begun").exists)
        new.replace(rules)
        (place.root / "begun").unlink()

    ran, _ = await asyncio.gather(running, save())
    assert (rules.read_text(), ran.notes) == ("new", ())


async def test_links_with_such_names_are_no_way_out_and_stay(place: Place):
    shutil.rmtree(place.root / ".git")
    (place.root / "gitdir").mkdir()
    (place.root / "gitdir" / "config").write_text("[core]\n")
    (place.root / ".git").symlink_to("gitdir")
    (place.root / "real.txt").write_text(CANARY)
    (place.root / ".env.local").symlink_to("real.txt")
    (place.root / ".hg").symlink_to(place.outside)
    ran = await place.shell("echo x > .git/evil; echo x > .hg/evil; cat .env.local real.txt .hg/*")
    assert CANARY not in printed(ran)
    assert [each.name for each in (place.root / "gitdir").iterdir()] == ["config"]
    assert not (place.outside / "evil").exists()
    ran = await place.shell("rm .git; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit")
    assert (place.root / ".git").readlink() == Path("gitdir")
    assert len(ran.notes) == 2


@as_root
def test_root_does_not_mount_its_way_out(place: Place):
    code = (
        "import ctypes, sys; d = sys.argv[1].encode()\n"
        "print(ctypes.CDLL(None).mount(b'none', d, None, 32 | 4096, None))\n"
        "open(sys.argv[1] + '/remounted', 'w')"
    )
    run = [sys.executable, "-c", code, str(place.outside)]
    seen = ["--ro-bind", str(place.outside), str(place.outside)]
    for without, escaped in ((UNCAPPED, True), ([], False)):
        output_of([*place.bubblewrap(without, seen), *run])
        assert (place.outside / "remounted").exists() is escaped
        (place.outside / "remounted").unlink(missing_ok=True)


async def test_our_variables_are_nowhere(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_API_KEY", CANARY)
    look = "cat /proc/1/environ /proc/self/environ /proc/*/cmdline; env"
    leaky = [*place.bubblewrap(extra=["--clearenv"]), "/bin/sh", "-c", look]
    assert CANARY in output_of(leaky)
    said = printed(await place.shell(look))
    assert "PATH=" in said
    assert CANARY not in said


async def test_there_is_no_network(place: Place):
    connect = (
        "import socket, sys; a = sys.argv[1]\n"
        "where = ('127.0.0.1', int(a)) if a.isdigit() else ('\\0' + a if a[0] != '/' else a)\n"
        "family = socket.AF_INET if a.isdigit() else socket.AF_UNIX\n"
        "s = socket.socket(family); s.settimeout(2); s.connect(where); print('connected')"
    )
    path = str(place.root / "s.sock")
    names = ["0", "ipyagent-test-5e1f", path]
    with socket.create_server(("127.0.0.1", 0)) as tcp:
        names[0] = str(tcp.getsockname()[1])
        with socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as unix:
            for server, name in ((abstract, f"\0{names[1]}"), (unix, path)):
                server.bind(name)
                server.listen()
            for name in names:
                assert place.plainly(connect, name) == "connected\n"
                said = printed(await place.python(connect, name))
                assert "connected" not in said
                assert "Error" in said


async def test_other_processes_are_out_of_reach(place: Place):
    victim = subprocess.Popen(["sleep", "60"])  # noqa: ASYNC220
    trace = "import ctypes, sys; print(ctypes.CDLL(None).ptrace(16, int(sys.argv[1]), 0, 0))"
    kill = "import os, sys; os.kill(int(sys.argv[1]), 9)"
    try:
        if os.geteuid() == 0:  # others may be forbidden to by the system itself
            assert place.plainly(trace, victim.pid) == "0\n"
        assert printed(await place.python(trace, victim.pid)) == "-1\n"
        assert "ProcessLookupError" in printed(await place.python(kill, victim.pid))
        await place.shell("kill -9 -1; kill -9 $PPID; kill -9 1")
        assert victim.poll() is None
        place.plainly(kill, victim.pid)
        assert victim.wait(PATIENCE) == -9
    finally:
        victim.kill()
        victim.wait()


def test_it_has_no_terminal_to_type_into(place: Place):
    look = ["/bin/sh", "-c", "exec 3</dev/tty && echo typed"]
    for without, has in ((["--new-session"], True), ([], False)):
        command, *rest = [*place.bubblewrap(without), *look]
        assert ("typed" in pexpect.run(command, args=rest, encoding="utf-8")) is has


async def test_it_has_no_capability_and_gets_none_back(place: Place):
    ran = await place.shell("grep -h Cap /proc/self/status; grep NoNewPrivs /proc/self/status")
    *caps, privileges = printed(ran).splitlines()
    assert {line.split()[1] for line in caps} == {"0" * 16}
    assert privileges.split() == ["NoNewPrivs:", "1"]


async def test_a_namespace_of_its_own_gives_it_nothing(place: Place):
    ran = await place.shell("unshare -Urm sh -c 'mount -o remount,rw,bind /usr && echo out'")
    assert "out\n" not in printed(ran)


async def test_this_python_and_its_packages_are_there(place: Place):
    installed = pydantic.__file__.startswith(sys.prefix)  # else it comes from a PYTHONPATH
    needed = "pydantic" if installed else "sqlite3"
    ran = await place.python(f"import {needed}, sys; print(sys.prefix, sys.executable)")
    assert printed(ran) == f"{sys.prefix} {sys.executable}\n"
    (place.root / "mine.py").write_text("x = 5")
    assert printed(await place.python("import mine; print(mine.x)")) == "5\n"


async def test_our_own_state_is_hidden_but_for_outputs(place: Place):
    state = place.root / ".ipyagent"
    (state / "outputs").mkdir(parents=True)
    (state / "outputs" / "a.txt").write_text("an output")
    (state / "session.db").write_text(CANARY)
    ran = await place.shell("cat .ipyagent/*; cat .ipyagent/outputs/*; echo x > .ipyagent/x")
    assert "an output" in printed(ran)
    assert CANARY not in printed(ran)
    assert not (state / "x").exists()


async def test_the_person_s_decisions_are_hidden_where_they_lie_in_the_workspace(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("XDG_DATA_HOME", str(place.root / "share"))
    own = place.root / "share" / "ipyagent" / "trust.json"
    own.parent.mkdir(parents=True)
    own.write_text(CANARY)
    ran = await place.shell("cat share/ipyagent/*; echo x > share/ipyagent/trust.json")
    assert CANARY not in printed(ran)
    assert own.read_text() == CANARY


async def test_an_environment_in_the_workspace_is_read_only(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    for folder in ("bin", "lib"):
        (place.root / folder).mkdir()
    monkeypatch.setattr(sys, "prefix", str(place.root))
    ran = await place.shell("echo x > bin/python; echo x > lib/x; echo x > fine.txt")
    assert printed(ran).count("Read-only file system") == 2
    assert (place.root / "fine.txt").exists()


async def test_packages_of_a_pythonpath_are_read(place: Place, monkeypatch: pytest.MonkeyPatch):
    """As clusters offer them; other folders of the path are the user's."""
    for name in ("site-packages", "letters"):
        (place.outside / name).mkdir()
        (place.outside / name / "text.py").write_text(f"in {name}")
        monkeypatch.syspath_prepend(str(place.outside / name))
    ran = await place.shell("cat ../outside/*/text.py")
    assert "in site-packages" in printed(ran)
    assert "in letters" not in printed(ran)


@pytest.mark.parametrize("made", [True, False])
async def test_what_lies_beside_an_environment_around_the_workspace_is_not_read(
    place: Place, monkeypatch: pytest.MonkeyPatch, made: bool
):
    """Be it a project that is one, or a home with a Python in its `bin`."""
    around, secret = place.root.parent, place.outside / "secret.txt"
    naive = place.bubblewrap(extra=["--ro-bind", str(around), str(around)])
    assert CANARY in output_of([*naive, "/bin/cat", str(secret)])
    (around / "bin").mkdir()
    (around / "bin" / "tool").write_text("a tool")
    if made:
        (around / "pyvenv.cfg").touch()
    monkeypatch.setattr(sys, "prefix", str(around))
    ran = await place.shell("cat ../bin/tool; cat ../outside/secret.txt; ls ..; : > fine.txt")
    assert printed(ran).startswith("a tool")
    assert CANARY not in printed(ran)
    assert printed(ran).split()[-3 if made else -2 :] == ["bin", *["pyvenv.cfg"] * made, "ws"]
    assert (place.root / "fine.txt").exists()


async def test_a_workspace_that_is_too_large_to_look_through_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(protected_paths, "MAX_ENTRIES", 5)
    with pytest.raises(AgentError, match=r"too large .*; choose a smaller workspace\.root"):
        await place.shell("true")
    monkeypatch.setattr(protected_paths, "MAX_ENTRIES", 100)
    ran = await place.shell("for n in $(seq 200); do : > $n; done; mkdir x; : > x/conftest.py")
    assert len(ran.notes) == 1, "what a command makes is looked through whatever it costs"


async def test_a_workspace_that_was_replaced_is_refused(place: Place):
    place.root.rename(place.root.with_name("old"))
    with pytest.raises(AgentError, match="moved or replaced"):
        await place.shell("true")
    place.root.mkdir()
    with pytest.raises(AgentError, match="moved or replaced"):
        await place.shell("true")


@pytest.mark.parametrize("root", ["/", "/usr", "/etc", "/proc"])
def test_a_folder_of_the_system_is_no_workspace_of_a_sandbox(root: str):
    why = Sandbox(Workspace(Path(root))).unavailable_reason
    assert why is not None
    assert "belongs to the system" in why


@pytest.mark.slow
@as_root
def test_all_that_holds_for_an_ordinary_user_too(tmp_path_factory: pytest.TempPathFactory):
    """The same tests once more, as nobody and with a Python that nobody may start."""
    source = Path(processes.__file__).parents[3]
    here = Path(__file__).parent
    packages = Path(pytest.__file__).parents[1]
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "-i"]
    path = f"PYTHONPATH={source}:{here.parent}:{here}:{packages}"
    python = [*user, path, "/usr/bin/python3", "-B"]
    needed = f"import pytest, ipyagent.tools.sandbox; open({str(here / 'boxes.py')!r})"
    importable = [*python, "-c", needed]
    if not shutil.which("setpriv") or subprocess.run(importable, check=False).returncode:
        pytest.skip("no second Python that another user may start")
    folder = Path("/tmp", f"ipyagent-nobody-{os.getpid()}")
    ends = (
        "test_what_it_leaves_behind_ends_with_it",
        "test_a_fork_bomb_is_stopped_before_it_takes_the_machine",
    )
    tests = [str(here / "test_sandbox.py"), *(f"{here}/test_sandbox_ends.py::{n}" for n in ends)]
    options = ["-q", "-p", "no:cacheprovider", f"--basetemp={folder}"]
    try:
        done = subprocess.run(
            [*python, "-m", "pytest", *options, *tests], capture_output=True, text=True, check=False
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert escape_probe.CANARY not in done.stdout
    assert not alive("ipyagent-nobody")
