"""Names with a meaning: secrets that stay unread, and files that run by themselves later."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib.machinery import PathFinder
from pathlib import Path

STATE = ".ipyagent"
"""Where ipyagent keeps its own state, at the workspace's root."""

_SENSITIVE = (
    ".env",
    ".env.*",
    "*.env",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    ".netrc",
    ".pgpass",
    ".pypirc",
    ".npmrc",
    ".htpasswd",
    ".git-credentials",
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    "jpserver-*.json",
    "secrets.toml",
)

# What some program runs or obeys without being asked: hooks, start-up files, policies.
_PROTECTED = (
    ".git",
    "git~[0-9]",
    ".gitmodules",
    ".hg",
    ".svn",
    STATE,
    ".ipython",
    ".jupyter",
    ".ipynb_checkpoints",
    ".vscode",
    ".idea",
    ".cursor",
    ".claude",
    ".codex",
    ".gemini",
    ".github",
    ".gitlab-ci.yml",
    ".husky",
    ".devcontainer",
    ".pre-commit-config.yaml",
    ".venv",
    "site-packages",
    "dist-packages",
    "conftest.py",
    "sitecustomize.py",
    "usercustomize.py",
    "*.pth",
    "ipython*_config.*",
    "jupyter*_config.*",
    ".envrc",
    ".bashrc",
    ".bash_*",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".mcp.json",
    "mcp.json",
    "pyproject.toml",
    "ipyagent.yaml",
    "ipyagent.yml",
)

_IMPORTABLE = (".py", ".pyc", ".pyd", ".so")

# Not entered by themselves when a tree is listed or searched: large, and nobody's work.
_DULL = frozenset({".git", STATE, ".ipynb_checkpoints", "__pycache__", "node_modules", ".venv"})


def shown(name: str) -> str:
    """The name with every invisible or undecodable character spelled out."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name
    )


def is_sensitive(path: str) -> bool:
    """Whether some component names a secret, or ipyagent's own state other than its outputs."""
    parts = path.split("/")
    if any(STATE in _folded(part) for part in parts) and parts[:2] != [STATE, "outputs"]:
        return True
    return _matches(path, _SENSITIVE)


def is_protected(path: str) -> bool:
    """Whether some component names a file or folder that runs, or rules, by itself later."""
    return _matches(path, _PROTECTED)


def is_deceptive(path: str) -> bool:
    """Whether a new file of that name would look like another, or like another place."""
    for part in path.split("/"):
        plain = unicodedata.normalize("NFKC", part)
        if not part.isprintable() or plain in {".", ".."} or "/" in plain:
            return True
    return False


def is_dull(name: str) -> bool:
    """Whether a folder is left alone unless it is named."""
    return name in _DULL


def shadowed(path: str, root: Path) -> str | None:
    """The installed package or standard module that a file at `path` would be imported for."""
    *folders, name = path.split("/")
    if not name.casefold().endswith(_IMPORTABLE):
        return None
    stem = name.split(".")[0]
    if stem == "__init__":
        if not folders:
            return None
        stem = folders[-1]
    return next((each for each in (stem, *_folded(stem)) if _is_installed(each, root)), None)


def _is_installed(module: str, root: Path) -> bool:
    if module in sys.stdlib_module_names:
        return True
    if not module.isidentifier() or module == "test":  # Python's own tests: nobody imports them
        return False
    elsewhere = [entry for entry in sys.path if entry and not _is_own(Path(entry), root)]
    try:
        return PathFinder.find_spec(module, elsewhere) is not None
    except (ImportError, OSError, ValueError):
        return False


def _is_own(entry: Path, root: Path) -> bool:
    """Whether an import path holds the person's own modules; an environment may lie inside, too."""
    installed = {"site-packages", "dist-packages"}.intersection(entry.parts)
    return not installed and entry.resolve().is_relative_to(root)


def _matches(path: str, patterns: tuple[str, ...]) -> bool:
    names = {name for part in path.split("/") for name in _folded(part)}
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _folded(part: str) -> Iterator[str]:
    """The names that some file system takes `part` for: case, width, dots, streams, invisibles."""
    plain = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", part).casefold())
    visible = "".join(c for c in plain if unicodedata.category(c) not in {"Cf", "Cc", "Mn"})
    for name in visible.replace("\\", "/").split("/"):
        yield name.split(":")[0].rstrip(". ")


def human_size(size: int) -> str:
    """A number of bytes as people write it."""
    if size < 1000:
        return f"{size} B"
    units = ["kB", "MB", "GB", "TB"]
    amount = size / 1000
    while amount >= 999.95 and len(units) > 1:
        amount /= 1000
        del units[0]
    return f"{amount:.1f} {units[0]}"
