"""Patterns of rules: what they fit, that no spelling gets past them, and how long they take."""

import fnmatch
import posixpath
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipyagent.config.patterns import (
    MAX_PATTERN,
    folded,
    folded_path,
    path_pattern,
    spellings,
    text_pattern,
)
from ipyagent.tools.globs import Glob


@given(st.text("ab*?.\n", max_size=8), st.text("ab.\n", max_size=10))
def test_a_text_pattern_fits_what_fnmatch_fits(pattern: str, text: str) -> None:
    assert bool(text_pattern(pattern).match(text)) == fnmatch.fnmatchcase(text, pattern)


def test_brackets_mean_themselves() -> None:
    assert text_pattern("df[0]").match("df[0]")
    assert not text_pattern("df[0]").match("df0")
    assert path_pattern("a[1].csv", below=False).match("a[1].csv/")


PARTS = st.sampled_from(["a", "b", "*", "a*", "?b", "**", "a*b*"])


@given(st.lists(PARTS, min_size=1, max_size=5), st.lists(st.text("ab", min_size=1, max_size=3)))
def test_a_path_pattern_fits_what_the_globs_of_list_files_fit(
    pattern: list[str], path: list[str]
) -> None:
    text, glob = "/".join(path) or ".", "/".join(pattern)
    assert bool(path_pattern(glob, below=False).match(f"{text}/")) == Glob(glob).matches(text)


@pytest.mark.parametrize(
    ("pattern", "path", "fits", "fits_below"),
    [
        ("secrets", "secrets", True, True),
        ("secrets", "secrets/a/b", False, True),
        ("secrets", "x/secrets", True, True),
        ("./secrets", "x/secrets", False, False),
        ("secrets/", "secrets", True, True),
        ("secrets/", "secrets/a", True, True),
        ("secrets/", "x/secrets/a", False, False),
        ("secrets/*", "secrets/a", True, True),
        ("secrets/*", "secrets/a/b", False, True),
        ("secrets/*", "secrets", False, False),
        ("*.csv", "data/a.csv", True, True),
        ("*.csv", "a.csv.bak", False, False),
        ("data/*.csv", "data/x/a.csv", False, False),
        ("data/**/*.csv", "data/a.csv", True, True),
        ("data/**/*.csv", "data/x/y/a.csv", True, True),
        ("**", ".", True, True),
        ("**", "/etc/passwd", False, True),
        ("passwd", "/etc/passwd", False, True),
        ("etc/passwd", "/etc/passwd", False, False),
        ("*/etc/passwd", "/etc/passwd", False, False),
        ("/etc/**", "/etc/passwd", True, True),
        ("/etc/**", "etc/passwd", False, False),
        ("a\nb", "a\nb", True, True),
    ],
)
def test_what_allows_fits_less_than_what_forbids(
    pattern: str, path: str, fits: bool, fits_below: bool
) -> None:
    assert bool(path_pattern(pattern, below=False).match(f"{path}/")) is fits
    assert bool(path_pattern(pattern, below=True).match(f"{path}/")) is fits_below


def test_no_pattern_takes_long() -> None:
    for pattern in ("*a" * (MAX_PATTERN // 2) + "b", "?*" * (MAX_PATTERN // 2) + "b"):
        assert not text_pattern(pattern).match("a" * 20_000)
    deep = "/".join(["**", "a*a*"] * 40) + "/b"
    for below in (True, False):
        assert not path_pattern(deep, below=below).match("aa/" * 1_300)


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
    pattern = path_pattern(folded_path("Secrets/**"), below=True)
    for seen_from in (root, root.parent / "alias"):
        assert any(map(pattern.match, spellings(path, seen_from).alike))


def test_that_takes_more_than_the_plain_comparison() -> None:
    naive = [a for a in ALIASES if fnmatch.fnmatchcase(posixpath.normpath(a), "secrets/*")]
    assert len(naive) < len(ALIASES) / 2


@pytest.mark.parametrize("path", ["secret/key.txt", "xsecrets/key.txt", "x/key.txt", "key.txt"])
def test_and_fits_no_other_path(root: Path, path: str) -> None:
    pattern = path_pattern("secrets/**", below=True)
    assert not any(map(pattern.match, spellings(path, root).alike))


def test_a_path_that_no_file_can_have_leads_nowhere(root: Path) -> None:
    found = spellings("secrets/\0", root)
    assert found.real == ()
    assert any(map(path_pattern("secrets/**", below=True).match, found.alike))


def test_folding_is_stable_and_leaves_plain_text_alone() -> None:
    assert folded("a b*?/[x]_1") == "a b*?/[x]_1"
    assert folded("ＡＢ\u200bc") == "abc"
    for text in ("Straße", "İ", "ﬁ", "Å", "\u1e9b\u0323"):
        assert folded(folded(text)) == folded(text)
