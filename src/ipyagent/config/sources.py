"""The sources of settings: the user's file, the environment, `%agent config`, other files.

The user's decisions about folders are read here, too. They are stored in the user's own directory,
never in the folder. A folder's files arrive with a download or a checkout, and a tool may have
written them, so there are limits to what they may set.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import platformdirs
from pydantic import ValidationError

from ipyagent.atomic_files import lock_file, replace_file
from ipyagent.config import sections
from ipyagent.config.rules import PARTIAL, SECRET_HOLDERS, Names, Rule
from ipyagent.errors import ConfigError
from ipyagent.json_types import JsonDict, JsonMapping, object_of, parse_json
from ipyagent.plaintext import join_words, visible, word_set

MAX_BYTES = 250_000  # YAML is slow to read

PREFIX = "IPYAGENT_"

HOME_VARIABLES = (
    "HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "USERPROFILE",
    "APPDATA",
    "LOCALAPPDATA",
)
"""The variables that set where a user's own files are."""


@dataclass(frozen=True)
class Layer:
    """Values from one source, as nested sections; `source` is its name in messages.

    A layer that is not `trusted` comes from `folder` and may only make things stricter. One that
    is `binding` comes from an administrator: the layers above may only be stricter than it.
    `notices` are what the user should know about the source. `text` is the file's, for line
    numbers.
    """

    source: str
    values: JsonMapping = field(repr=False)
    trusted: bool = True
    binding: bool = False
    folder: Path | None = None
    notices: tuple[str, ...] = ()
    text: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        SECRET_HOLDERS[id(self)] = self


def own_folders() -> tuple[Path, Path]:
    """Return the folders of the user's own settings and data; they need not exist."""
    return _own_folders(*map(os.environ.get, HOME_VARIABLES))


@lru_cache(maxsize=8)
def _own_folders(*places: str | None) -> tuple[Path, Path]:
    return platformdirs.user_config_path("ipyagent"), platformdirs.user_data_path("ipyagent")


def config_folder() -> Path:
    """Return the folder of the user's own settings."""
    return own_folders()[0]


def user_file() -> Path:
    """Return the path of the user's configuration file; it need not exist."""
    return config_folder() / "config.yaml"


POLICY_FILES = tuple(
    place / "etc" / "ipyagent" / "policy.yaml"
    for place in ([Path(sys.prefix)] if os.name == "nt" else [Path(sys.prefix), Path("/")])
)
"""The files of the administrator, of the environment and of the machine; no variable moves them."""


def policy_layers() -> list[Layer]:
    """Return the values that an administrator has set for everybody; raises ConfigError."""
    try:
        layers = [replace(from_file(path), binding=True) for path in POLICY_FILES]
        for layer in layers:
            validate_layer(layer)
            if not layer.text.strip() and Path(layer.source).exists():
                raise ConfigError(f"{layer.source} is empty")
    except ConfigError as error:
        raise ConfigError(
            f"{error}. Ask your administrator: nothing runs until it is right"
        ) from None
    return [layer for layer in layers if layer.values]


def from_file(path: Path) -> Layer:
    """Return the values in a YAML file; none if there is no such file."""
    text = read_config_file(path, str(path))
    return Layer(str(path), parse_yaml(text, str(path)), text=text)


def read_config_file(path: Path, source: str, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the bytes of a configuration file; none if there is no such file."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - of two paths in each prompt
            raise ConfigError(f"{source} is not a file; rename or remove it")
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
        if is_missing and not (_is_broken_link(path) or _is_broken_link(path.parent)):
            return b""
        raise ConfigError(
            f"{source} cannot be read ({error.strerror}); make it readable or remove it"
        ) from None
    if len(data) > max_bytes:
        raise ConfigError(f"{source} is larger than {max_bytes:,} bytes; settings are not")
    return data


def _is_broken_link(path: Path) -> bool:
    return path.is_symlink() and not path.exists()


def parse_yaml(data: bytes, source: str) -> JsonDict:
    """Parse YAML sections; raises ConfigError, which quotes nothing: it may be a key."""
    if not data.strip():
        return {}
    import yaml  # many folders and users have no settings

    class StrictLoader(yaml.SafeLoader):
        """Refuses a repeated key: of two sections of one name, the first would not count."""

        def compose_mapping_node(self, anchor: dict[str, yaml.Node]) -> yaml.MappingNode:
            node = super().compose_mapping_node(anchor)
            known = dict[str, object]()
            for key, _ in node.value:
                if known.setdefault(str(key.value), key) is not key:
                    raise yaml.MarkedYAMLError(problem_mark=key.start_mark, note="has a key twice")
            return node

    try:
        values = yaml.load(data.decode("utf-8"), StrictLoader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        at = error.problem_mark
        where = f"line {at.line + 1}, column {at.column + 1}" if at else "somewhere"
        raise ConfigError(f"{source} {error.note or 'is not YAML'}: look at {where}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigError(f"{source} is not YAML: a value in it cannot be read") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{source}: expected sections such as `llm:` with keys below them")
    return values


def from_environment(environ: Mapping[str, str], start: Mapping[str, str] | None = None) -> Layer:
    """Return the values of variables such as IPYAGENT_LLM__API_BASE; IPYAGENT_MODEL is llm.model.

    `start` is the environment with which the process began: pinned keys are taken only from it.
    """
    values: JsonDict = {}
    ignored = set() if start is None else set(late_variables(environ, start))
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in ignored:
            try:
                sections.put_value(values, _setting_key(name), environ[name])
            except (TypeError, AttributeError):
                raise ConfigError(
                    f"{visible(name)} and a variable for the whole section are both set; "
                    "name single settings, such as IPYAGENT_LLM__MODEL"
                ) from None
    return Layer(f"the environment ({PREFIX}…)", values)


def late_variables(environ: Mapping[str, str], start: Mapping[str, str]) -> list[str]:
    """Return variables for pinned keys that were set later, perhaps by a `.env` file."""
    return [
        name
        for name in environ
        if name.startswith(PREFIX)
        and limit_key(_setting_key(name)) in PINNED_KEYS
        and start.get(name) != environ.get(name)
    ]


def _setting_key(name: str) -> tuple[str, ...]:
    """Return the setting of an IPYAGENT_ variable."""
    if name == "IPYAGENT_MODEL":
        return ("llm", "model")
    return tuple(name.removeprefix(PREFIX).lower().split("__"))


def check_homes(environ: Mapping[str, str], start: Mapping[str, str] | None) -> None:
    """Raise ConfigError if the user's files were moved since the process began.

    A `.env` file that could move them would bring settings and a list of trusted folders of its
    own.
    """
    moved = [
        name
        for name in HOME_VARIABLES
        if start is not None and environ.get(name) != start.get(name)
    ]
    if moved:
        undo = "; ".join(_restore_statement(name, start or {}) for name in moved)
        raise ConfigError(
            f"{', '.join(moved)} changed after this kernel started, perhaps by a .env file, so it "
            "is not certain which settings are yours. To go on in this kernel, run "
            f"`import os; {undo}` in a cell; otherwise restart the kernel."
        )


def _restore_statement(name: str, start: Mapping[str, str]) -> str:
    """Return the statement that restores the first value of a variable."""
    if name in start:
        return f"os.environ[{name!r}] = {start[name]!r}"
    return f"os.environ.pop({name!r}, None)"


def validate_layer(layer: Layer) -> sections.Config:
    """Validate a layer on its own; raises ConfigError, which names its source."""
    try:
        return sections.Config.model_validate(dict(layer.values), context=PARTIAL)
    except ValidationError as error:
        keys = [each["loc"] for each in error.errors(include_context=False)]
        where = describe_lines(layer.text, keys)
        raise ConfigError(f"{layer.source}{where}: {sections.explain_error(error)}") from None


def describe_lines(text: bytes, keys: Iterable[tuple[object, ...]]) -> str:
    """Return ", line 3" or ", lines 3 and 5" for settings in a YAML text; "" for none."""
    import yaml

    try:
        root = yaml.compose(text.decode("utf-8"), yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return ""
    lines = sorted({line for key in keys if (line := _find_line(root, key))})
    if not lines:
        return ""
    return f", {'lines' if len(lines) > 1 else 'line'} {join_words(map(str, lines))}"


def _find_line(node: Any, key: tuple[object, ...]) -> int | None:
    """Return the line of the last existing part of a key, counted from 1."""
    line = None
    for part in key:
        kind, entries = getattr(node, "id", ""), []
        if kind == "mapping":
            entries = [pair for pair in node.value if pair[0].value == str(part)]
        elif kind == "sequence" and isinstance(part, int):
            entries = [(each, each) for each in node.value[part : part + 1]]
        if not entries:
            break
        line, node = entries[0][0].start_mark.line + 1, entries[0][1]
    return line


def merge(below: Mapping[str, object], above: Mapping[str, object]) -> JsonDict:
    """Merge nested sections, `above` winning."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = merge(old, value)
        merged[key] = value
    return merged


Data = JsonDict


def folder_key(folder: Path) -> str:
    """Return the key of a folder in such files: its resolved path."""
    return os.path.realpath(folder)


class UserDataFile:
    """A JSON object in the user's data directory; it need not exist."""

    def __init__(self, name: str, max_bytes: int = MAX_BYTES) -> None:
        self._name, self._max_bytes = name, max_bytes

    @property
    def path(self) -> Path:
        """The path of the file, existing or not."""
        return own_folders()[1] / self._name

    def read(self) -> Data:
        """Return the content; raises ConfigError if it cannot be read."""
        path = self.path
        data = parse_json(read_config_file(path, str(path), self._max_bytes) or b"{}")
        if not isinstance(data, dict):
            raise ConfigError(f"{path} is not the JSON that ipyagent wrote; move it away")
        return data

    def read_of(self, folder: Path) -> JsonDict:
        """Return the object that is stored of a folder; raises ConfigError."""
        data = self.read()
        return object_of(data.get(folder_key(folder))) if data else {}

    def rewrite_of(self, folder: Path, edit: Callable[[JsonDict], JsonDict]) -> None:
        """Replace the object that is stored of a folder, as `rewrite` does."""
        key = folder_key(folder)
        self.rewrite(lambda data: {**data, key: edit(object_of(data.get(key)))})

    def rewrite(self, edit: Callable[[Data], Data]) -> None:
        """Replace the content by the result of `edit`, one process at a time.

        A file that cannot be read is set aside, not lost. Raises ConfigError; nothing is changed
        then.
        """
        path = self.path
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with lock_file(path.with_suffix(".lock")):
                replace_file(path, json.dumps(edit(self._read_or_set_aside()), indent=1))
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be written ({error.strerror}), so nothing was changed; make its "
                "folder writable"
            ) from None

    def _read_or_set_aside(self) -> Data:
        try:
            return self.read()
        except ConfigError:
            self.path.replace(self.path.with_suffix(".corrupt"))
            return {}


_SECRET = UserDataFile("secret.json")


def read_user_secret() -> str:
    """Return this user's secret, made when it is first asked for; raises ConfigError.

    A file that comes with a folder cannot hold what was signed with it.
    """
    with suppress(ConfigError, KeyError):
        return str(_SECRET.read()["secret"])
    made = {"secret": token_hex(32)}
    _SECRET.rewrite(lambda known: made | known)
    return str(_SECRET.read()["secret"])


CONFIRM_MODES = ("yolo", "confirm-sensitive", "confirm-all")


class WorkspaceLimit(NamedTuple):
    """A check whether a folder may set `value` over the layers below, and the reason if not.

    `allowed_part` returns the part of a refused value that applies all the same.
    """

    allows: Callable[[Any, Any, Path | None], bool]
    reason: str
    allowed_part: Callable[[Any], object] = lambda value: None


def _is_subset(value: Names, below: Names, _folder: Path | None) -> bool:
    return not below or (bool(value) and set(value) <= set(below))


def _is_at_most(value: float | None, below: float | None, _folder: Path | None) -> bool:
    return below is None or (value is not None and bool(value <= below))


def _is_inside(value: str | Path, below: str | Path, folder: Path | None) -> bool:
    if folder is None:
        return False
    try:
        home = folder.resolve()
        target = (home / value).resolve()
        return target.is_relative_to(home) and target.is_relative_to((home / below).resolve())
    except (OSError, RuntimeError, ValueError):  # a loop of links, a name that cannot be one
        return False


def _is_folder_inside(value: Path, below: Path, folder: Path | None) -> bool:
    return folder is not None and _is_inside(value, below, folder) and (folder / value).is_dir()


def _is_file_inside(value: str | Path | None, _below: object, folder: Path | None) -> bool:
    # Relative to the workspace's root, which may be another folder: so no way up at all.
    path = Path(value or "/")
    leads_out = path.is_absolute() or ".." in path.parts or str(path).startswith("~")
    return not leads_out and _is_inside(path, ".", folder)


def _is_log_inside(value: Any, below: object, folder: Path | None) -> bool:
    # Lines are added to it: it must not be a file that is there for something else.
    return _is_file_inside(value, below, folder) and Path(value).suffix in {".jsonl", ".log"}


def _restrictive_rules(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    return tuple(rule for rule in rules if rule.effect != "allow")


_BUDGETS = word_set("""
    agent.max_steps agent.max_seconds agent.step_seconds agent.max_tokens agent.max_usd
    agent.rehearse_seconds tools.timeout tools.max_timeout workspace.edit_seconds
""")
_SWITCHES = word_set("""
    agent.look_freely agent.adopt_new workspace.allow_delete tools.files tools.python
    tools.namespace tools.notebook tools.scripts tools.shell tools.notes tools.skills tools.mcp
""")
_USERS_OWN = word_set("""
    llm.provider llm.mode llm.api_base llm.api_key_env llm.api_key mcp.servers chat.persist
    chat.enable_observability store.url
""")

LIMITS: Mapping[str, WorkspaceLimit] = {
    "agent.confirm_mode": WorkspaceLimit(
        lambda value, below, _: CONFIRM_MODES.index(value) >= CONFIRM_MODES.index(below),
        "may only make it ask about more",
    ),
    "agent.allowed_tools": WorkspaceLimit(_is_subset, "may only leave tools out"),
    "agent.system_prompt_path": WorkspaceLimit(
        _is_file_inside, "may only name a file inside of it"
    ),
    "agent.plan": WorkspaceLimit(
        lambda value, below, _: value or not below, "may only switch it on"
    ),
    "agent.numbers": WorkspaceLimit(
        lambda value, below, _: value == "ask" or below in ("off", value),
        "may only make it check more",
    ),
    "workspace.root": WorkspaceLimit(_is_folder_inside, "may only name a folder inside of it"),
    "undo.memory": WorkspaceLimit(lambda *_: False, "may not decide what can be taken back"),
    "logging.file": WorkspaceLimit(
        _is_log_inside, "may only name a .jsonl or .log file inside of it"
    ),
    "policy.rules": WorkspaceLimit(
        lambda value, _, __: _restrictive_rules(value) == value,
        "may only add rules that ask or deny; those hold",
        _restrictive_rules,
    ),
    "chat.validators": WorkspaceLimit(lambda *_: False, "may not bring code that runs"),
    **dict.fromkeys(_BUDGETS, WorkspaceLimit(_is_at_most, "may only lower it")),
    **dict.fromkeys(_SWITCHES, WorkspaceLimit(_is_at_most, "may only switch it off")),
    **dict.fromkeys(
        _USERS_OWN,
        WorkspaceLimit(lambda *_: False, "may not decide where requests, keys and records go"),
    ),
}
"""The limits of settings that matter for safety; all others are free."""

PINNED_KEYS = frozenset(LIMITS) - _BUDGETS
"""Keys that a `.env` file loaded later must not set either."""


_OTHER_NAMES = {
    ("agent", "workspace_dir"): "workspace.root",
    ("tools", "enable_file_tools"): "tools.files",
    ("tools", "enable_bash"): "tools.shell",
    ("tools", "enable_note"): "tools.notes",
    ("tools", "enable_skills"): "tools.skills",
    ("tools", "enable_mcp"): "tools.mcp",
}


def limit_key(key: sections.Key) -> str:
    """Return the key under which limits know it: a named agent's settings are agent settings."""
    if key in _OTHER_NAMES:
        return _OTHER_NAMES[key]
    return f"agent.{key[2]}" if key[0] == "agents" and len(key) > 2 else ".".join(key)


def find_violations(
    values: Mapping[sections.Key, object], below: Mapping[sections.Key, object], folder: Path | None
) -> dict[sections.Key, WorkspaceLimit]:
    """Return the settings that would loosen the layers below, each with the limit it breaks."""
    limits = {}
    for key, value in values.items():
        limit = LIMITS.get(limit_key(key))
        if limit and not limit.allows(value, _value_below(key, below), folder):
            limits[key] = limit
    return limits


def _value_below(key: sections.Key, below: Mapping[sections.Key, object]) -> object:
    general = ("agent", key[2]) if key[0] == "agents" and len(key) > 2 else key
    return below.get(key, below.get(general, sections.DEFAULTS.get(general)))
