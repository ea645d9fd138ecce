"""Names with a meaning: secrets that stay unread, and files that run by themselves later."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from fnmatch import translate
from functools import cache, lru_cache
from importlib.machinery import PathFinder
from itertools import pairwise
from pathlib import Path

STATE = ".ipyagent"
"""Where ipyagent keeps its own state, at the workspace's root."""

SKILLS = f"{STATE}/skills"
"""Where the workspace's own skills are."""

_READABLE = ([STATE, "outputs"], [STATE, "skills"])

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
    "secrets.json",
    "secrets.y*ml",
    "credentials.json",
    "client_secret*.json",
    "service-account*.json",
    "service_account*.json",
)

# What some program runs or obeys without being asked: hooks, start-up files, policies. What a user
# runs by name stays free (Makefile, setup.py, package.json): they ask for such files.
_PROTECTED = (
    # Version control, whose settings name programs to run
    ".git",
    "git~[0-9]",
    ".gitmodules",
    ".gitattributes",
    ".gitconfig",
    ".hg",
    ".hgrc",
    ".svn",
    ".husky",
    ".pre-commit-config.yaml",
    "lefthook*.y*ml",
    ".lefthook*",
    # Instructions and tools of other agents
    ".mcp.json",
    "mcp.json",
    "agents.md",
    "agents.*.md",
    ".agents",
    "claude.md",
    "claude.*.md",
    ".claude*",
    ".codex",
    "gemini.md",
    ".gemini",
    "qwen.md",
    "warp.md",
    "crush.md",
    "copilot-instructions.md",
    "*.instructions.md",
    ".cursor",
    ".cursorrules",
    ".windsurf",
    ".windsurfrules",
    ".continue*",
    ".aider*",
    ".cline*",
    ".roo*",
    ".kilocode*",
    ".kiro",
    ".junie",
    ".goosehints",
    ".opencode",
    ".zed",
    ".rules",
    # Editors and their containers
    ".vscode",
    ".idea",
    ".exrc",
    ".vimrc",
    ".gvimrc",
    ".nvimrc",
    ".nvim.lua",
    ".dir-locals*.el",
    ".devcontainer*",
    "devcontainer.json",
    ".gitpod*",
    # Continuous integration
    ".github",
    ".gitea",
    ".forgejo",
    ".gitlab-ci*",
    ".circleci",
    ".travis.yml",
    ".appveyor.yml",
    "appveyor.yml",
    ".azure-pipelines*",
    "azure-pipelines*",
    "bitbucket-pipelines.y*ml",
    ".buildkite",
    ".cirrus.*",
    ".drone.*",
    ".woodpecker*",
    ".semaphore",
    "jenkinsfile*",
    "cloudbuild.y*ml",
    "buildspec.y*ml",
    # Shells, and settings of interpreters and installers
    ".config",
    ".local",
    ".envrc",
    ".direnvrc",
    ".mise*",
    "mise*.toml",
    ".inputrc",
    ".bashrc",
    ".bash_*",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".pdbrc",
    ".pythonrc*",
    ".rprofile",
    ".renviron",
    "rprofile.site",
    "pip.conf",
    "pip.ini",
    ".pip",
    ".condarc",
    ".npmrc",
    ".yarnrc*",
    ".yarn",
    ".pnp.*",
    "*.desktop",
    # Python and its environments
    ".venv",
    "venv",
    "pyvenv.cfg",
    "site-packages",
    "dist-packages",
    "__pycache__",
    "conftest.py",
    "sitecustomize",
    "sitecustomize.*",
    "usercustomize",
    "usercustomize.*",
    "*.pth",
    # Jupyter, and what it loads
    ".ipython",
    ".jupyter",
    ".ipynb_checkpoints",
    "kernel.json",
    "ipython*_config.*",
    "jupyter*_config.*",
    "nbconvert*_config.*",
    ".streamlit",
    # Policies
    "pyproject.toml",
    "ipyagent.yaml",
    "ipyagent.yml",
)

# The same by folder and name, where the name alone is an ordinary one.
_PROTECTED_PLACES = (
    ("bin", "activate*"),
    ("scripts", "activate*"),
    ("bin", "python"),
    ("bin", "python[0-9]*"),
    ("scripts", "python*.exe"),
    ("templates", "nbconvert"),
    ("nbconvert", "templates"),
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
    """Whether some component names a secret, or ipyagent's own state but for what is to be read."""
    if is_state(path) and path.split("/")[:2] not in _READABLE:
        return True
    return _matches(path, _SENSITIVE)


def is_state(path: str) -> bool:
    """Whether the path is, or lies in, a folder where ipyagent keeps its own state."""
    return any(STATE in _folded(part) for part in path.split("/"))


def is_protected(path: str) -> bool:
    """Whether some component names a file or folder that runs, or rules, by itself later."""
    parts = path.split("/")
    return _matches(path, _PROTECTED) or any(
        _is_among(folder, (place,)) and _is_among(name, (pattern,))
        for folder, name in pairwise(parts)
        for place, pattern in _PROTECTED_PLACES
    )


def is_deceptive(path: str) -> bool:
    """Whether a new file of that name would look like another, or like another place."""
    for part in path.split("/"):
        plain = unicodedata.normalize("NFKC", part)
        if not part.isprintable() or plain in {".", ".."} or "/" in plain:
            return True
    return False


def is_within(path: str, folder: str) -> bool:
    """Whether some file system could take the absolute `path` for one in `folder`, or for it."""
    inner, outer = path.split("/"), folder.split("/")
    pairs = zip(inner, outer, strict=False)
    return len(inner) >= len(outer) and all({*_folded(a)} & {*_folded(b)} for a, b in pairs)


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
    return any(_is_among(part, patterns) for part in path.split("/"))


@lru_cache(maxsize=10_000)  # whole trees are judged, again and again
def _is_among(part: str, patterns: tuple[str, ...]) -> bool:
    wanted = _any_of(patterns)
    return any(wanted.fullmatch(name) for name in _folded(part))


@cache
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


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
