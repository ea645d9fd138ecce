"""The confinement of rehearsals: the files of the sandbox for commands, and nothing more.

One policy for both: what a sandboxed command cannot read, code on a copy of the kernel cannot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from ipyagent.kernel.rehearsal.confinement import Confinement, Way
from ipyagent.tools.path_rules import STATE
from ipyagent.tools.sandbox import bubblewrap, seccomp
from ipyagent.tools.sandbox.protected_paths import WorkspaceScan

_LIMITS = (
    *("cpu.max", "memory.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"),
    "memory.limit_in_bytes",
)


def machine_facts(groups: str) -> Iterator[str]:
    """Yield the files by which libraries choose how many threads they start, and memory they take.

    They are the same for code on a copy, which so need not be asked about for having read them.
    `groups` is the text of `/proc/self/cgroup`.
    """
    yield "/sys/devices/system/cpu"
    for line in groups.splitlines():
        _, controllers, group = line.split(":", 2)
        for controller in {"", "cpu", "memory"} & {*controllers.split(",")}:
            top = Path("/sys/fs/cgroup", controller)
            for folder in {top, top / group.lstrip("/")}:
                yield from (str(folder / name) for name in _LIMITS)


def build_confinement(
    root: Path, secrets: Collection[str] = (), way: Way = "namespaces"
) -> Confinement:
    """Return the confinement for a workspace; raises AgentError if there is too much to scan."""
    python = bubblewrap.python_paths(str(root))
    guarded = WorkspaceScan(root, python).run()
    links, readable = bubblewrap.system_paths()
    state = (f"{root}/{STATE}/{name}" for name in bubblewrap.READABLE_STATE)
    own = str(Path(__file__).parents[2])
    groups = Path("/proc/self/cgroup").read_text()
    return Confinement(
        root=str(root),
        readable=(*readable, *sorted(python), own, *state, *machine_facts(groups)),
        links=tuple(links.items()),
        hidden_files=tuple(guarded.hidden_files),
        hidden_folders=(STATE, *guarded.hidden_folders),
        call_filter=seccomp.build_filter(processes=False, namespaces=way == "namespaces"),
        variables=frozenset(bubblewrap.kept_variables()),
        secrets=frozenset(secrets),
        way=way,
    )
