"""Digests are kept in files and journals: what they are may not change."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

import ipyagent
from ipyagent.digests import digest_content, digest_json, digest_text

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(VALUES, VALUES)
def test_two_values_have_one_digest_only_if_they_are_the_same_json(
    one: object, two: object
) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(two, sort_keys=True)
    assert (digest_json(one) == digest_json(two)) is same


def test_the_order_of_keys_does_not_count_and_types_do() -> None:
    assert digest_json({"a": 1, "b": 2}) == digest_json({"b": 2, "a": 1})
    assert len({digest_json(each) for each in (1, 1.0, "1", True, [1])}) == 5


@pytest.mark.parametrize("text", ["", "a", "ä", "\ud800"])
def test_every_text_has_the_digest_of_its_bytes(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    assert digest_text(text) == digest_content(data) == hashlib.sha256(data).hexdigest()


def test_no_file_has_no_digest() -> None:
    assert digest_content(None) is None
    assert digest_content(b"") is not None


def test_no_other_module_hashes_by_itself() -> None:
    root = Path(ipyagent.__file__).parent
    files = (each for each in root.rglob("*.py") if "import hashlib" in each.read_text("utf-8"))
    assert [str(each.relative_to(root)) for each in files] == ["digests.py"]
