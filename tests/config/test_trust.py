"""A person trusts a folder: as it is now, and only where the person keeps such things."""

import json
import multiprocessing
from pathlib import Path

import pytest

from ipyagent.config import is_trusted, resolve_layers, trust, workspace_layers
from ipyagent.config.trust import TRUST_FILE
from ipyagent.errors import ConfigError

LOOSE = "agent: {confirm_mode: yolo}\nllm: {api_key: sk-canary-1}\n"


def mode(folder: Path) -> str:
    return resolve_layers(*workspace_layers(folder)).config.agent.confirm_mode


@pytest.fixture
def loose(folder: Path) -> Path:
    (folder / "ipyagent.yaml").write_text(LOOSE)
    return folder


def test_a_trusted_folder_may_loosen_until_its_settings_change(loose: Path) -> None:
    assert mode(loose) == "confirm-sensitive"
    assert not is_trusted(loose)
    said = trust(loose)
    assert "agent.confirm_mode = yolo   (ipyagent.yaml)" in said
    assert "sk-canary" not in said
    assert is_trusted(loose)
    assert mode(loose) == "yolo"
    (loose / "ipyagent.yaml").write_text(LOOSE + "tools: {python: true}\n")
    assert not is_trusted(loose)
    assert mode(loose) == "confirm-sensitive"
    (loose / "ipyagent.yaml").write_text(LOOSE)
    assert mode(loose) == "yolo"


def test_of_pyproject_only_our_table_counts(folder: Path) -> None:
    path = folder / "pyproject.toml"
    table = "[tool.ipyagent.agent]\nconfirm_mode = 'yolo'\n"
    path.write_text(table)
    trust(folder)
    path.write_text(f"[project]\nname = 'x'\n\n{table}")
    assert mode(folder) == "yolo"
    path.write_text(table + "max_steps = 30\n")
    assert mode(folder) == "confirm-sensitive"
    path.write_text(table)
    (folder / "ipyagent.yaml").write_text("llm: {model: x}")
    assert mode(folder) == "confirm-sensitive"


def test_trust_is_of_the_real_folder(loose: Path, tmp_path: Path) -> None:
    link, copy = tmp_path / "link", tmp_path / "copy"
    link.symlink_to(loose)
    copy.mkdir()
    (copy / "ipyagent.yaml").write_text(LOOSE)
    trust(link)
    assert is_trusted(loose)
    assert is_trusted(loose / ".." / loose.name)
    assert not is_trusted(copy)
    link.unlink()
    link.symlink_to(copy)
    assert not is_trusted(link)


def test_trust_is_kept_with_the_person_and_not_in_the_folder(
    loose: Path, own_folders: Path
) -> None:
    before = sorted(loose.rglob("*"))
    trust(loose)
    assert sorted(loose.rglob("*")) == before
    assert TRUST_FILE.path.is_relative_to(own_folders)
    assert TRUST_FILE.path.stat().st_mode & 0o077 == 0
    assert "sk-canary" not in TRUST_FILE.path.read_text()
    listed = TRUST_FILE.path.read_text()
    for name in ("trust.json", ".ipyagent/trust.json", "ipyagent/trust.json"):
        (loose / name).parent.mkdir(exist_ok=True)
        (loose / name).write_text(listed)
    TRUST_FILE.path.unlink()
    assert not is_trusted(loose)


def test_nothing_and_nonsense_cannot_be_trusted(folder: Path) -> None:
    assert "nothing to trust" in trust(folder)
    assert not TRUST_FILE.path.exists()
    (folder / "ipyagent.yaml").write_text("llm: {modle: x}")
    with pytest.raises(ConfigError, match=r"llm\.model"):
        trust(folder)
    assert not TRUST_FILE.path.exists()


def test_what_is_trusted_cannot_hide_in_the_answer(folder: Path) -> None:
    prompt = "Hi\n  tools.python = false\x1b[2K\u202e"
    values = {"agent": {"system_prompt": prompt, "confirm_mode": "yolo"}}
    (folder / "ipyagent.yaml").write_text(json.dumps(values))
    lines = trust(folder).splitlines()
    assert (
        lines[1]
        == "  agent.system_prompt = Hi↵  tools.python = false⟨U+001B⟩[2K⟨U+202E⟩   (ipyagent.yaml)"
    )
    assert len(lines) == 4


CORRUPT = {
    "empty of sense": b"{",
    "a list": b"[]",
    "no digests": b'{"/x": true}',
    "not text": b"\xff\xfe",
    "deep": b"[" * 100_000,
    "large": b" " * 300_000,
}


@pytest.mark.parametrize("data", CORRUPT.values(), ids=CORRUPT)
def test_a_list_that_cannot_be_read_trusts_nothing_and_says_so(loose: Path, data: bytes) -> None:
    trust(loose)
    TRUST_FILE.path.write_bytes(data)
    settled = resolve_layers(*workspace_layers(loose))
    assert settled.config.agent.confirm_mode == "confirm-sensitive"
    assert not is_trusted(loose)
    assert str(TRUST_FILE.path) in settled.notices[0]
    trust(loose)
    assert is_trusted(loose)


def test_a_broken_list_does_not_bother_where_no_settings_are(folder: Path) -> None:
    TRUST_FILE.path.parent.mkdir(parents=True)
    TRUST_FILE.path.write_text("{")
    assert resolve_layers(*workspace_layers(folder)).notices == ()


def test_a_list_that_cannot_be_written_is_said_and_nothing_changes(
    loose: Path, own_folders: Path
) -> None:
    own_folders.mkdir(exist_ok=True)
    (own_folders / "data").write_text("a file stands in the way")
    with pytest.raises(ConfigError, match=r"trust\.json cannot be written"):
        trust(loose)
    assert not is_trusted(loose)


def _trust_again_and_again(folder: Path) -> None:
    for _ in range(15):
        trust(folder)


@pytest.mark.slow
def test_two_that_write_at_once_never_tear_the_list(loose: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "ipyagent.yaml").write_text(LOOSE)
    trust(loose)
    fork = multiprocessing.get_context("spawn")
    writers = [fork.Process(target=_trust_again_and_again, args=(f,)) for f in (loose, other)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert isinstance(json.loads(TRUST_FILE.path.read_bytes()), dict)
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    left = {each.name for each in TRUST_FILE.path.parent.iterdir()}
    assert left == {"trust.json", "trust.lock"}


def test_a_token_that_is_written_out_is_told_about(folder: Path) -> None:
    server = {"name": "s", "url": "https://h", "token": "sk-canary-2"}
    (folder / "ipyagent.yaml").write_text(json.dumps({"mcp": {"servers": [server]}}))
    (refusal,) = resolve_layers(*workspace_layers(folder)).notices
    assert "mcp.servers is ignored" in refusal
    trust(folder)
    (notice,) = resolve_layers(*workspace_layers(folder)).notices
    assert "token_env" in notice
    assert "sk-canary" not in notice
