"""Names in folders: secrets that are never read, files that run automatically, and entries.

The walk through a folder has a budget.
"""

from __future__ import annotations

import os
import stat
import sys
import time
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.machinery import PathFinder
from itertools import pairwise
from pathlib import Path
from typing import Literal

from ipyagent.globs import any_text_pattern
from ipyagent.imports import PACKAGES
from ipyagent.plaintext import human_size, spell, word_set

STATE = ".ipyagent"
"""The folder of ipyagent's own state, in the workspace's root."""

SKILLS = f"{STATE}/skills"
"""The folder of the workspace's own skills."""

_READABLE_STATE = ([STATE, "outputs"], [STATE, "skills"])

_SENSITIVE = word_set("""
    .env .env.* *.env *.pem *.key *.p12 *.pfx *.jks *.keystore *.kdbx id_rsa id_dsa id_ecdsa
    id_ed25519 .netrc .pgpass .pypirc .npmrc .htpasswd .git-credentials .ssh .aws .gnupg .kube
    jpserver-*.json secrets.toml secrets.json secrets.y*ml credentials.json client_secret*.json
    service-account*.json service_account*.json
""")

# Files that some program runs or obeys without being asked: hooks, start-up files, policies. Files
# that a user runs by name stay free (Makefile, setup.py, package.json): they ask for such files.
_PROTECTED_BY_KIND = {
    "version control, whose settings name programs to run": """
        .git git~[0-9] .gitmodules .gitattributes .gitconfig .hg .hgrc .svn .husky
        .pre-commit-config.yaml lefthook*.y*ml .lefthook*
    """,
    "instructions and tools of other agents": """
        .mcp.json mcp.json agents.md agents.*.md .agents claude.md claude.*.md .claude* .codex
        gemini.md .gemini qwen.md warp.md crush.md copilot-instructions.md *.instructions.md .cursor
        .cursorrules .windsurf .windsurfrules .continue* .amazonq .aider* .cline* .roo* .kilocode*
        .kiro .junie .goosehints .opencode .zed .rules
    """,
    "editors and their containers": """
        .vscode .idea .exrc .vimrc .gvimrc .nvimrc .nvim.lua .dir-locals*.el .devcontainer*
        devcontainer.json .gitpod*
    """,
    "continuous integration": """
        .github .gitea .forgejo .gitlab-ci* .circleci .travis.yml .appveyor.yml appveyor.yml
        .azure-pipelines* azure-pipelines* bitbucket-pipelines.y*ml .buildkite .cirrus.* .drone.*
        .woodpecker* .semaphore jenkinsfile* cloudbuild.y*ml buildspec.y*ml
    """,
    "shells, and settings of interpreters and installers": """
        .config .local .envrc .direnvrc .mise* mise*.toml .inputrc .bashrc .bash_* .profile .zshrc
        .zshenv .zprofile .zlogin .pdbrc .pythonrc* .rprofile .renviron rprofile.site pip.conf
        pip.ini .pip .condarc .tool-versions .asdfrc .gdbinit* .lldbinit* .python_startup*
        .pythonstartup* .pylintrc .cshrc .tcshrc .kshrc .login .xinitrc .xsession* .wgetrc .curlrc
        .psqlrc .sqliterc .irbrc .tmux.conf .screenrc .nanorc .emacs* autorun.inf desktop.ini .npmrc
        .yarnrc* .yarn .pnp.* *.desktop
    """,
    "Python and its environments": """
        .venv venv pyvenv.cfg site-packages dist-packages __pycache__ conftest.py sitecustomize
        sitecustomize.* usercustomize usercustomize.* *.pth
    """,
    "Jupyter, and files that it loads": """
        .ipython .jupyter .ipynb_checkpoints kernel.json overrides.json ipython*_config.*
        jupyter*_config.* nbconvert*_config.* .streamlit
    """,
    "policies": """
        pyproject.toml ipyagent.yaml ipyagent.yml
    """,
}
_PROTECTED = word_set(" ".join(_PROTECTED_BY_KIND.values()))

# The same by folder and name, if the name alone is an ordinary one.
_PROTECTED_PAIRS = (
    ("bin", "activate*"),
    ("scripts", "activate*"),
    ("bin", "python"),
    ("bin", "python[0-9]*"),
    ("scripts", "python*.exe"),
    ("templates", "nbconvert"),
    ("nbconvert", "templates"),
)

IMPORTABLE = (".py", ".pyc", ".pyd", ".so")
"""Endings of modules that Python can import."""

# Skipped when a tree is listed or searched: large, and nobody's work.
_SKIPPED_FOLDERS = frozenset(
    {".git", STATE, ".ipynb_checkpoints", "__pycache__", "node_modules", ".venv"}
)


def is_sensitive(path: str) -> bool:
    """Return whether the path names a secret, or an unreadable part of ipyagent's state."""
    if is_state(path) and path.split("/")[:2] not in _READABLE_STATE:
        return True
    return _any_part_matches(path, _SENSITIVE)


def is_state(path: str) -> bool:
    """Return whether the path is, or lies in, a folder of ipyagent's own state."""
    return any(STATE in _equivalent_names(part) for part in path.split("/"))


def is_protected(path: str) -> bool:
    """Return whether a part names a file or folder that runs, or is loaded, automatically later."""
    parts = path.split("/")
    return _any_part_matches(path, _PROTECTED) or any(
        _matches_any(folder, frozenset({place})) and _matches_any(name, frozenset({pattern}))
        for folder, name in pairwise(parts)
        for place, pattern in _PROTECTED_PAIRS
    )


def is_deceptive(path: str) -> bool:
    """Return whether a new file of that name would look like another name or place."""
    plain = [unicodedata.normalize("NFKC", part) for part in path.split("/")]
    return not path.isprintable() or any(each in {".", ".."} or "/" in each for each in plain)


def is_within(path: str, folder: str) -> bool:
    """Return whether some file system could take `path` for `folder` or a path in it."""
    inner, outer = path.split("/"), folder.split("/")
    pairs = zip(inner, outer, strict=False)
    return len(inner) >= len(outer) and all(
        {*_equivalent_names(a)} & {*_equivalent_names(b)} for a, b in pairs
    )


def is_skipped_folder(name: str) -> bool:
    """Return whether a folder is skipped unless it is named."""
    return name in _SKIPPED_FOLDERS


def find_shadowed_module(path: str, root: Path) -> str | None:
    """Return the installed or standard module that a file at `path` would shadow."""
    *folders, name = path.split("/")
    if not name.casefold().endswith(IMPORTABLE):
        return None
    stem = name.split(".")[0]
    if stem == "__init__":
        stem = folders[-1] if folders else ""
    names = (stem, *_equivalent_names(stem))
    return next((each for each in names if _is_installed(each, root)), None)


def _is_installed(module: str, root: Path) -> bool:
    if module in sys.stdlib_module_names:
        return True
    if not module.isidentifier() or module == "test":  # Python's own tests: nobody imports them
        return False
    elsewhere = [
        entry for entry in sys.path if entry and not _is_user_import_path(Path(entry), root)
    ]
    try:
        return PathFinder.find_spec(module, elsewhere) is not None
    except (ImportError, OSError, ValueError):
        return False


def _is_user_import_path(entry: Path, root: Path) -> bool:
    """Return whether an import path holds the user's modules; an environment may be inside."""
    installed = not set(PACKAGES).isdisjoint(entry.parts)
    return not installed and entry.resolve().is_relative_to(root)


def _any_part_matches(path: str, patterns: frozenset[str]) -> bool:
    return any(_matches_any(part, patterns) for part in path.split("/"))


_pattern_of = cache(any_text_pattern)


@lru_cache(maxsize=10_000)  # whole trees are judged, again and again
def _matches_any(part: str, patterns: frozenset[str]) -> bool:
    wanted = _pattern_of(patterns)
    return any(wanted.fullmatch(name) for name in _equivalent_names(part))


def _equivalent_names(part: str) -> Iterator[str]:
    """Yield the names that some file system takes for `part`: case, width, dots, streams."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", part).casefold())
    visible = "".join(c for c in plain if unicodedata.category(c) not in {"Cf", "Cc", "Mn"})
    for name in visible.replace("\\", "/").split("/"):
        yield name.split(":")[0].rstrip(". ")


Kind = Literal["file", "folder", "link", "special"]


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a folder; `path` is relative to the folder that was walked."""

    path: str
    kind: Kind
    size: int

    def __str__(self) -> str:
        note = {"file": f"  {human_size(self.size)}", "folder": "/"}
        return spell(self.path) + note.get(self.kind, f"  ({self.kind}, not followed)")

    @classmethod
    def from_dir_entry(cls, entry: os.DirEntry[str], *, with_size: bool = True) -> Entry:
        """Return the entry for a directory's entry; links are not followed.

        Without the size it costs a tenth of the time.
        """
        if entry.is_symlink():
            return cls(entry.name, "link", 0)
        if entry.is_dir(follow_symlinks=False):
            return cls(entry.name, "folder", 0)
        if not with_size:
            return cls(entry.name, "file" if entry.is_file(follow_symlinks=False) else "special", 0)
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return cls(entry.name, "special", 0)
        return cls(
            entry.name, "file" if stat.S_ISREG(status.st_mode) else "special", status.st_size
        )


_CALLS = 50


class WalkBudget:
    """Limits for the cost of a walk, so that any tree gets an answer.

    The work of its thread is counted, since on a busy machine a clock runs on while nothing is
    done; a clock ends it too, much later, for a slow disk.
    """

    def __init__(
        self, entries: int = 100_000, seconds: float = 1.5, waiting: float | None = None
    ) -> None:
        """Allow `seconds` of processor time, and of `waiting` altogether: four times that."""
        self._entries = entries
        self._calls = 0
        self._work_until = time.thread_time() + seconds
        self._until = time.monotonic() + (4 * seconds if waiting is None else waiting)
        self.exhausted = False

    def spend(self, entries: int = 1) -> bool:
        """Count entries before they are visited; return False, and set `exhausted`, if too many."""
        self._entries -= entries
        self._calls += 1
        if self._entries < 0 or self._is_late():
            self.exhausted = True
        return not self.exhausted

    def _is_late(self) -> bool:
        if time.monotonic() > self._until:
            return True
        # To ask for a thread's time takes as long as an entry.
        return self._calls % _CALLS == 1 and time.thread_time() > self._work_until
