"""Looks where Landlock takes the place of namespaces: what they see, and what they say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ipyagent.kernel.namespace import Namespace
from ipyagent.rehearsal.confinement import Confinement, Limits
from ipyagent.rehearsal.on_copy import start_rehearsal
from ipyagent.tools.rehearsal import build_confinement
from rehearsal_trial import SECONDS, rehearse, run_in_fork

pytestmark = pytest.mark.parametrize("isolation_way", ["Landlock"], indirect=True)


def rehearse_in(confinement: Confinement, code: str) -> dict[str, Any]:
    started = start_rehearsal(Namespace({}), [code], confinement, Limits(SECONDS))
    ((report, _),), _ = started.finish()
    return report


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace that hides something in the middle of it."""
    made = tmp_path / "workspace"
    (made / "sub" / "deep").mkdir(parents=True)
    (made / "sub" / "deep" / "seen.txt").write_text("seen")
    (made / "sub" / "seen.txt").write_text("seen")
    (made / "sub" / ".env").write_text("canary")
    return made


def test_what_lies_beside_a_hidden_file_is_read_and_listed(root: Path) -> None:
    code = (
        "import glob\n"
        "print([open(each).read() for each in glob.glob(root + '/**/*.txt', recursive=True)])"
    )
    report = rehearse(code, {"root": str(root)}, root)
    assert report["result"]["output"].strip() == "['seen', 'seen']"
    assert report["attempts"] == []


def test_a_workspace_in_a_folder_that_is_readable_hides_the_same(root: Path) -> None:
    """As /usr/src/app, where many containers have their work."""
    confinement = build_confinement(root, "Landlock")
    above = replace(confinement, readable=(*confinement.readable, str(root.parent)))
    (root.parent / "beside.txt").write_text("beside")
    seen = rehearse_in(above, f"open('{root.parent}/beside.txt').read()")
    hidden = rehearse_in(above, f"open('{root}/sub/.env').read()")
    assert seen["result"]["output"] == "'beside'"
    assert "PermissionError" in hidden["result"]["error"]


def test_a_readable_folder_of_the_workspace_is_no_way_out_of_it(root: Path) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "private.txt").write_text("canary")
    (root / ".ipyagent").mkdir()
    (root / ".ipyagent" / "outputs").symlink_to(outside)
    code = f"open('{root}/.ipyagent/outputs/private.txt').read()"
    report = rehearse(code, {}, root)
    assert "PermissionError" in report["result"]["error"]


def test_a_write_that_fails_unnoticed_is_told(root: Path) -> None:
    code = "try: open(root + '/new.txt', 'w')\nexcept OSError: pass"
    report = rehearse(code, {"root": str(root)}, root)
    assert report["result"]["success"]
    assert report["attempts"] == [["changes", f"{root}/new.txt"]]


def test_the_null_device_can_be_written(root: Path) -> None:
    report = rehearse("import os\nprint(open(os.devnull, 'w').write('x'))", {}, root)
    assert (report["result"]["output"].strip(), report["attempts"]) == ("1", [])


@pytest.mark.parametrize("name", ["maps", "statm", "status", "cgroup"])
def test_code_can_read_about_its_own_process(root: Path, name: str) -> None:
    report = rehearse(f"len(open('/proc/self/{name}').read()) > 5", {}, root)
    assert report["result"]["output"] == "True"


@pytest.mark.parametrize("name", ["self/net/tcp", "1/cmdline", "net/unix", "self/mountinfo", ""])
def test_code_can_read_nothing_else_about_processes(root: Path, name: str) -> None:
    code = f"import os\nos.listdir('/proc') if '{name}' == '' else open('/proc/{name}').read()"
    report = rehearse(code, {}, root)
    assert "PermissionError" in report["result"]["error"]


@pytest.mark.parametrize("family", ["AF_INET", "AF_UNIX", "AF_NETLINK"])
def test_a_socket_that_cannot_be_made_is_told(root: Path, family: str) -> None:
    code = f"import socket\ntry: socket.socket(socket.{family}, 2)\nexcept OSError: pass"
    report = rehearse(code, {}, root)
    assert report["attempts"] == [["says", "uses the network"]]


def test_what_is_mounted_is_not_listed(root: Path) -> None:
    every, itself = (1 << 64) - 1, 24
    code = (
        "import ctypes, struct\n"
        f"asked = ctypes.create_string_buffer(struct.pack('IIQQ', {itself}, 0, {every}, 0))\n"
        "print('mounts', ctypes.CDLL(None).syscall(458, asked, (ctypes.c_uint64 * 512)(), 512, 0))"
    )
    assert rehearse(code, {}, root)["result"]["output"].strip() == "mounts -1"
    assert "mounts -1" not in run_in_fork(code, {}), "the naive version does not fail"
