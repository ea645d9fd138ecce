"""What runs or rules by itself later is changed only by a call that a person approved."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness import ALWAYS, Lab, call
from ipyagent.errors import PathValidationError
from ipyagent.schema import ToolStatus
from ipyagent.tools.file_tools import file_tools, search_tools
from ipyagent.tools.workspace import Workspace

CHANGES = ("write_file", "edit_file", "delete_file")


def reasons(root: Path, path: str) -> set[str | None]:
    """Why each tool that changes files asks about a path."""
    tools = {tool.name: tool for tool in file_tools(Workspace(root), allow_delete=True)}
    asks = [tools[name].always_asks for name in CHANGES]
    return {each(path=path, content="x", old_string="y") for each in asks if each is not None}


GIT = [".git", ".GIT", ".Git", ".gIt", ".ｇｉｔ", "．git", ".git ", ".git.", ".git...", ".git. ."]
GIT += [".git::$INDEX_ALLOCATION", ".git:stream", ".g\u200cit", ".gi\ufefft", ".\u200dgit", "GIT~1"]
GIT += [".ＧＩＴ", ".gi\u00adt", ".git\\hooks", "x／.git", ".gi\ufe0ft"]


@pytest.mark.spec("A41", "A42")
@pytest.mark.parametrize("name", GIT)
def test_every_spelling_of_git_is_asked_about(tmp_path: Path, name: str) -> None:
    for path in (f"{name}/hooks/pre-commit", f"sub/{name}/config", name, f"{tmp_path}/{name}/x"):
        (reason,) = reasons(tmp_path, path)
        assert reason.endswith("is executed or loaded automatically later")
        assert reason.isprintable(), "what hides in a name is spelt out"


PROTECTED = [".vscode/settings.json", ".github/workflows/x.yml", "conftest.py", "sub/conftest.py"]
PROTECTED += ["Conftest.PY", "sitecustomize.py", "sitecustomize/__init__.py", "usercustomize.pyc"]
PROTECTED += ["x.pth", ".envrc", ".pdbrc", "pyproject.toml", "PyProject.toml", "ipyagent.yaml"]
PROTECTED += [".mcp.json", ".ipython/profile_default/startup/x.py", ".jupyter/x", ".bashrc"]
PROTECTED += ["jupyter_server_config.py", "jupyter_server_config.d/x.json", "kernels/x/kernel.json"]
PROTECTED += [".venv/lib/x.py", "lib/site-packages/x/y.py", ".ipynb_checkpoints/x.ipynb"]
PROTECTED += [
    "__pycache__/mine.cpython-311.pyc",
    ".config/autostart/x",
    ".local/bin/x",
    ".gitconfig",
]
PROTECTED += [
    # instructions for other agents
    *("AGENTS.md", "sub/agents.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md"),
    *("GEMINI.md", ".cursorrules", ".cursor/rules/x.mdc", ".windsurfrules", ".windsurf/rules/x"),
    *(".clinerules", ".clinerules/x.md", ".roorules", ".roo/rules/x", ".roomodes", ".goosehints"),
    *(".aider.conf.yml", ".continue/config.json", ".continuerules", ".zed/tasks.json", ".rules"),
    *(".github/copilot-instructions.md", "copilot-instructions.md", "x.instructions.md"),
    *(".codex/config.toml", ".claude/settings.json", ".claude.json", ".junie/guidelines.md"),
    # continuous integration
    *(".circleci/config.yml", ".travis.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml"),
    *("Jenkinsfile", "JENKINSFILE", "ci/Jenkinsfile.release", ".gitlab-ci.yml", ".drone.yml"),
    *(".buildkite/pipeline.yml", "appveyor.yml", ".cirrus.yml", ".woodpecker/x.yml"),
    # environments, shells and editors
    *("venv/bin/activate", "env/bin/activate.fish", "env/Scripts/Activate.ps1", "env/bin/python"),
    *("env/bin/python3.11", "venv/x.py", "env/pyvenv.cfg", ".vimrc", ".exrc", ".nvimrc"),
    *(".nvim.lua", ".dir-locals.el", ".inputrc", ".Rprofile", ".zshrc", ".direnvrc", "mise.toml"),
    *("pip.conf", ".condarc", ".yarnrc.yml", ".gitattributes", ".hgrc"),
    *(".devcontainer.json", "devcontainer.json", ".gitpod.yml", "x.desktop", "lefthook.yml"),
    *(".streamlit/config.toml", "nbconvert_config.py", "jupyter_nbconvert_config.json"),
    *("templates/nbconvert/index.html.j2", "nbconvert/templates/x.tpl"),
    *(".amazonq/rules/x.md", ".tool-versions", "lab/overrides.json", ".gdbinit", ".lldbinit"),
    *(".python_startup.py", "autorun.inf", "desktop.ini", ".asdfrc", ".pylintrc", ".tmux.conf"),
    *(".cshrc", ".xinitrc", ".curlrc", ".psqlrc", ".emacs", ".gdbinit.local"),
    # spelt otherwise
    *("Agents.MD", "ＡＧＥＮＴＳ.md", "AGENTS.md.", "AGENTS.md:stream", "CLAU\u200bDE.md"),
    *("env/BIN/Activate", ".ｃｉｒｃｌｅｃｉ/config.yml", "env/bin/activate. "),
]


@pytest.mark.spec("A41", "A42")
@pytest.mark.parametrize("path", PROTECTED)
def test_what_runs_or_rules_by_itself_is_asked_about(tmp_path: Path, path: str) -> None:
    (reason,) = reasons(tmp_path, path)
    assert reason.endswith(" is executed or loaded automatically later")
    assert reason.isprintable()
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).touch()
    assert reasons(tmp_path, path) == {reason}, "whether it exists or not"


@pytest.mark.spec("A41")
@pytest.mark.parametrize(
    "path",
    [
        "yaml.py",
        "sub/yaml.py",
        "YAML.PY",
        "PIL.py",
        "json.py",
        "Random.py",
        "litellm/__init__.py",
        "sub/pydantic/__init__.py",
        "numpy.cpython-311-x86_64-linux-gnu.so",
    ],
)
def test_a_module_that_would_shadow_an_installed_one_is_asked_about(
    tmp_path: Path, path: str
) -> None:
    (reason,) = reasons(tmp_path, path)
    assert reason.startswith(f"{path} would be imported instead of '")


def test_modules_inside_a_package_and_ones_own_names_are_not_asked_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    workspace = Workspace(tmp_path)
    for path in (
        "sales.py",
        "sales.py",
        "mine/__init__.py",
        "mine/yaml.py",
        "mine/json/__init__.py",
    ):
        assert workspace.write_approval_reason(path) is None
        workspace.write_atomic(path, b"x = 1\n")
    assert workspace.write_approval_reason("yaml.py") is not None

    # An environment inside the workspace is still the environment.
    site = tmp_path / "env" / "lib" / "site-packages"
    site.mkdir(parents=True)
    (site / "installed_there.py").touch()
    assert workspace.write_approval_reason("installed_there.py") is None
    monkeypatch.syspath_prepend(site)
    assert "'installed_there'" in (workspace.write_approval_reason("installed_there.py") or "")


def test_ordinary_names_are_not_asked_about(tmp_path: Path) -> None:
    names = [".gitignore", "git", "config/x", "local.py", "kernels.json", "env.txt", "Makefile"]
    names += ["naïve résumé.md", "数据.csv", "my.pthx", "legit/x", "a b.txt", "test.py", "../out"]
    for path in names:
        assert reasons(tmp_path, path) == {None}


ASKED_FOR = ["Makefile", "setup.py", "setup.cfg", "tox.ini", "noxfile.py", "pytest.ini", "justfile"]
ASKED_FOR += ["package.json", "Dockerfile", "docker-compose.yml", "Taskfile.yml", "Rakefile"]
ASKED_FOR += ["requirements.txt", "environment.yml", "model.joblib", "data.pkl", "agents.py"]
ASKED_FOR += [
    "agents/plan.md",
    "agents_report.md",
    "claude_notes.md",
    "bin/python_notes.py",
    "bin/run.sh",
    "bin/plot.py",
    "activate.py",
]
ASKED_FOR += [
    "templates/report.html",
    "rules.md",
    "scripts/clean.py",
    "gemini.csv",
    "src/pip.py.md",
]


@pytest.mark.parametrize("path", ASKED_FOR)
def test_source_files_that_users_ask_for_are_not_protected(tmp_path: Path, path: str) -> None:
    assert reasons(tmp_path, path) == {None}


@pytest.mark.spec("A41")
def test_an_environment_is_known_by_what_lies_in_it(tmp_path: Path) -> None:
    assert reasons(tmp_path, "tools/lib/x.txt") == {None}
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/pyvenv.cfg").touch()
    for path in ("tools/lib/x.txt", "tools/share/deep/er.txt"):
        assert reasons(tmp_path, path) == {f"{path} is executed or loaded automatically later"}


@pytest.mark.parametrize("home", [".", "home", "Own"])
def test_the_person_s_own_settings_are_asked_about_where_they_lie_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    (tmp_path / home / "settings").mkdir(parents=True, exist_ok=True)
    (tmp_path / "alias").symlink_to(tmp_path / home)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "alias" / "settings"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / home / "data"))
    folder = os.path.normpath(home)
    for path in (
        f"{folder}/settings/ipyagent/config.yaml",
        f"{folder}/data/ipyagent/trust.json",
        f"{folder}/Settings/IPYAGENT/x/../skills/y/SKILL.md",
        f"{folder}/data/ipyagent",
    ):
        (reason,) = reasons(tmp_path, path)
        assert reason.endswith("is where ipyagent keeps your settings and decisions")
    for path in (f"{folder}/settings/other", f"{folder}/data/ipyagent2/x", f"{folder}/ipyagent/x"):
        assert reasons(tmp_path, path) == {None}
    own = tmp_path / home / "settings" / "ipyagent"
    own.mkdir()
    assert Workspace(own).write_approval_reason("config.yaml") is not None, (
        "or where the workspace lies in them"
    )


@pytest.mark.spec("A40", "A41", "A42")
def test_a_file_with_several_names_is_asked_about_and_not_searched(tmp_path: Path) -> None:
    root, secret = tmp_path / "ws", tmp_path / "secret"
    root.mkdir()
    secret.write_text("token\n")
    (root / "a.txt").hardlink_to(secret)
    (root / "b.txt").write_text("token\n")
    assert (root / "a.txt").read_text() == "token\n", "a plain read reaches the file outside"

    workspace = Workspace(root)
    read = file_tools(workspace, allow_delete=True)[1].always_asks
    for asked in (*reasons(root, "a.txt"), read(path="./a.txt", offset=1)):
        assert asked.startswith("a.txt has another name (a hard link)")
    for path in ("b.txt", "nope", "../secret", "a\0"):
        assert read(path=path) is None
        assert reasons(root, path) == {None}
    found = search_tools(workspace)[0].function("token")
    assert found == "b.txt:1: token\n(not searched: 1 binary, large, linked or private files)"


STATE = [".ipyagent/state.db", ".ipyagent/outputs/x.txt", ".ipyagent/skills/x/SKILL.md"]
STATE += [".IPYAGENT/x", ".ipyagent ", "sub/.ipyagent/notes.json", ".ＩＰＹagent/x"]


@pytest.mark.spec("A54")
@pytest.mark.parametrize("path", STATE)
def test_our_own_state_is_not_changed_by_any_call(tmp_path: Path, path: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text("ours")
    workspace = Workspace(tmp_path)
    for change in (lambda: workspace.write_atomic(path, b"x"), lambda: workspace.delete(path)):
        with pytest.raises(PathValidationError, match="private state"):
            change()
    assert (tmp_path / path).read_text() == "ours"


def test_outputs_and_skills_are_the_parts_of_our_state_that_are_read(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    paths = ("outputs/x.txt", "skills/x/SKILL.md", "skills/x/.env", "notes.json", "state.db")
    for path in paths:
        (tmp_path / ".ipyagent" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / ".ipyagent" / path).touch()
    assert [workspace.is_file(f".ipyagent/{path}") for path in paths] == [True, True, *[False] * 3]


@pytest.mark.spec("A41", "A42")
@pytest.mark.parametrize("path", ["conftest.py", ".git/hooks/pre-commit", "yaml.py", "linked.txt"])
@pytest.mark.parametrize("mode", ["yolo", "confirm-sensitive"])
def test_no_standing_permission_covers_a_protected_path(
    tmp_path: Path, path: str, mode: str
) -> None:
    (tmp_path / "other").write_text("old")
    (tmp_path / "linked.txt").hardlink_to(tmp_path / "other")
    lab = Lab(tmp_path)
    write = [call("write_file", path="plain.txt", content="x")]
    lab.run([{"calls": write}, "Done."], answer=ALWAYS, confirm_mode=mode)
    write = [call("write_file", path=each, content="x") for each in ("more.txt", path)]
    run = lab.run([{"calls": write}, "Done."], confirm_mode=mode)
    assert [each.status for each in run.executions] == [ToolStatus.SUCCESS, ToolStatus.DENIED]
    assert [each.subject.call.arguments["path"] for each in lab.watcher.asked] == [path]
    assert (tmp_path / "other").read_text() == "old"
    assert path == "linked.txt" or not (tmp_path / path).exists()

    # The person may say yes to this very call, and the next one is asked about again.
    for _ in range(2):
        if path == "linked.txt":  # writing gave it a file of its own
            (tmp_path / path).unlink()
            (tmp_path / path).hardlink_to(tmp_path / "other")
        run = lab.run([{"calls": write[1:]}, "Done."], answer=ALWAYS, confirm_mode=mode)
        assert [each.status for each in run.executions] == [ToolStatus.SUCCESS]
        assert len(lab.watcher.asked) == 1
    assert (tmp_path / path).read_text() == "x"
    assert (tmp_path / "other").read_text() == "old"
