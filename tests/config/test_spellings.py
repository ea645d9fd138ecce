"""Spellings of paths: no rule that restricts is passed by writing a path otherwise."""

import fnmatch
import posixpath
from pathlib import Path

import pytest

from ipyagent.config.rules import fold_path, fold_text, path_spellings
from ipyagent.globs import path_pattern

ALIASES = [
    "secrets/key.txt",
    "./secrets/key.txt",
    "secrets//key.txt",
    "secrets/./key.txt",
    "x/../secrets/key.txt",
    "x/y/../../secrets/key.txt",
    "missing/../secrets/key.txt",
    "secrets/x/../key.txt",
    "SECRETS/key.txt",
    "Secrets/KEY.TXT",
    "secrets /key.txt",
    "secrets./key.txt",
    "secrets/key.txt.",
    "secrets/key.txt::$DATA",
    "secrets\\key.txt",
    "x\\..\\secrets\\key.txt",
    "\uff53\uff45\uff43\uff52\uff45\uff54\uff53/key.txt",
    "secrets\uff0fkey.txt",
    "x/\uff0e\uff0e/secrets/key.txt",
    "sec\u200brets/key.txt",
    "sec\u00adrets/key.txt",
    "secret\u017f/key.txt",
    "secrets/\u202ekey.txt",
    "link/key.txt",
    "x/up/secrets/key.txt",
    "file",
    "{root}/secrets/key.txt",
    "/{root}/secrets/key.txt",
    "//{root}/secrets/key.txt",
    "{root}/x/../secrets/key.txt",
    "{alias}/secrets/key.txt",
    "{alias}/link/key.txt",
    "../alias/secrets/key.txt",
    "../root/secrets/key.txt",
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "secrets").mkdir(parents=True)
    (root / "x").mkdir()
    (root / "secrets/key.txt").touch()
    (root / "link").symlink_to("secrets")
    (root / "file").symlink_to("secrets/key.txt")
    (root / "x/up").symlink_to("..")
    (tmp_path / "alias").symlink_to("root")
    return root


@pytest.mark.parametrize("alias", ALIASES)
def test_what_forbids_fits_a_path_in_every_spelling(root: Path, alias: str) -> None:
    path = alias.format(root=root, alias=root.parent / "alias")
    pattern = path_pattern(fold_path("Secrets/**"), below=True)
    for seen_from in (root, root.parent / "alias"):
        assert any(map(pattern.match, path_spellings(path, seen_from).folded_forms))


def test_that_takes_more_than_the_plain_comparison() -> None:
    naive = [a for a in ALIASES if fnmatch.fnmatchcase(posixpath.normpath(a), "secrets/*")]
    assert len(naive) < len(ALIASES) / 2


@pytest.mark.parametrize("path", ["secret/key.txt", "xsecrets/key.txt", "x/key.txt", "key.txt"])
def test_and_fits_no_other_path(root: Path, path: str) -> None:
    pattern = path_pattern("secrets/**", below=True)
    assert not any(map(pattern.match, path_spellings(path, root).folded_forms))


def test_a_path_that_no_file_can_have_leads_nowhere(root: Path) -> None:
    found = path_spellings("secrets/\0", root)
    assert found.real == ()
    assert any(map(path_pattern("secrets/**", below=True).match, found.folded_forms))


def test_folding_is_stable_and_leaves_plain_text_alone() -> None:
    assert fold_text("a b*?/[x]_1") == "a b*?/[x]_1"
    assert fold_text("ＡＢ\u200bc") == "abc"
    for text in ("Straße", "İ", "ﬁ", "Å", "\u1e9b\u0323"):
        assert fold_text(fold_text(text)) == fold_text(text)
