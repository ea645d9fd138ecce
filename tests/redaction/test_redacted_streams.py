"""Text that comes in pieces: a secret is never shown in part, and all else soon."""

import itertools
import re
from collections.abc import Iterable

import pytest
from canaries import ENCODINGS, LETTERS, ORDINARY, PLACED, TOKENS, of
from hypothesis import given, strategies as st

from ipyagent.redaction import HIDDEN, Redactor

KNOWN = [
    "correct horse battery staple",
    "tr0ub4dor&3",
    "秘密の合言葉はこれです",
    "a\nkey\n\nof lines",
]
KINDS = itertools.islice({**TOKENS, **{k: secret for k, (_, secret) in PLACED.items()}}.items(), 40)
CANARIES = {
    f"{kind}, {encoding}": (secret, ENCODINGS[encoding](secret))
    for kind, secret in KINDS
    for encoding in ("plain", "base64", "base64url", "hex", "percent")
}
BY_LOOKS = Redactor()


def streamed(redactor: Redactor, pieces: Iterable[str]) -> list[str]:
    stream = redactor.stream()
    return [*map(stream.add, pieces), stream.end()]


def pieces(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


@pytest.mark.slow
@pytest.mark.spec("H15", "A06")
def test_two_hundred_canaries_in_pieces_are_hidden_where_a_naive_filter_shows_them() -> None:
    assert len(CANARIES) == 200
    secrets = [secret for secret, _ in CANARIES.values()]
    naive = ""
    for piece in pieces(" ".join(form for _, form in CANARIES.values()), 7):
        for secret in secrets:
            piece = piece.replace(secret, HIDDEN)
        naive += piece
    assert sum(form in naive for _, form in CANARIES.values()) == 200

    for redactor in (Redactor(secrets), BY_LOOKS):
        for size in (1, 3, 7, 64):
            text = "".join(f"{name}: {form}.\n" for name, (_, form) in CANARIES.items())
            shown = "".join(streamed(redactor, pieces(text, size)))
            assert shown == redactor.text(text)
            assert [name for name, (_, form) in CANARIES.items() if form[4:-4] in shown] == []
            assert all(name in shown for name in CANARIES)


@pytest.mark.spec("H15")
@pytest.mark.parametrize("kind", [*PLACED, "GitHub", "OpenAI project", "JSON web token", *KNOWN])
def test_a_secret_may_be_cut_anywhere(kind: str) -> None:
    text, secret = PLACED.get(kind, ())[:2] or (TOKENS.get(kind, kind),) * 2
    text = f"See\n{text}\nor so."
    redactor = Redactor(KNOWN)
    whole = redactor.text(text)
    assert secret not in whole
    assert "".join(streamed(redactor, text)) == whole
    for cut in range(0, len(text), 1 + len(text) // 300):
        assert "".join(streamed(redactor, (text[:cut], text[cut:]))) == whole
        # What was shown by then is never a part of it.
        assert whole.startswith(redactor.stream().add(text[:cut]))


_PIECES = st.sampled_from(
    [*TOKENS.values(), *(t for t, _ in PLACED.values()), *KNOWN, *ORDINARY, HIDDEN, "sk-", "\n"]
)


@given(
    parts=st.lists(st.one_of(_PIECES, st.text(max_size=12)), max_size=6),
    cuts=st.lists(st.integers(0, 600)),
)
def test_pieces_show_what_the_whole_shows(parts: list[str], cuts: list[int]) -> None:
    text = "".join(parts)
    bounds = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    cut = [text[a:b] for a, b in itertools.pairwise(bounds)]
    redactor = Redactor(KNOWN)
    told = streamed(redactor, cut)
    assert "".join(told) == redactor.text(text)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_waits_for_the_end_of_a_word_only(text: str) -> None:
    stream = BY_LOOKS.stream()
    shown = ""
    for read, char in enumerate(text, start=1):
        shown += stream.add(char)
        assert text.startswith(shown)
        if "PRIVATE KEY" not in text:
            assert not any(map(str.isspace, text[len(shown) : read]))
    assert shown + stream.end() == text


def test_text_without_blanks_between_its_words_does_not_wait() -> None:
    stream = Redactor(KNOWN).stream()
    for char in "你好，世界。これはテストです。안녕하세요ภาษาไทย🎉":
        assert stream.add(char) == char
    # The beginning of a known value does, as long as it may be one.
    assert [stream.add(char) for char in "秘密は"] == ["", "", "秘密は"]


def test_what_is_held_back_is_bounded() -> None:
    stream = BY_LOOKS.stream()
    text = of(200_000, LETTERS + '{":,}')
    read = shown = 0
    for piece in pieces(text, 500):
        read += len(piece)
        shown += len(stream.add(piece))
        assert read - shown <= 9_000
    assert shown + len(stream.end()) == len(text)


@pytest.mark.spec("H15")
def test_a_secret_in_a_word_without_end_is_hidden_wherever_it_is() -> None:
    token = TOKENS["GitHub"]
    for place in range(3_900, 8_400, 37):
        text = "x," * (place // 2) + "y" * (place % 2) + f",{token}," + "z," * 5_000
        for size in (61, 4_096):
            shown = "".join(streamed(BY_LOOKS, pieces(text, size)))
            assert shown == text.replace(token, HIDDEN)


@pytest.mark.spec("H15")
def test_a_secret_without_end_costs_neither_memory_nor_a_letter() -> None:
    stream = BY_LOOKS.stream()
    text = "key: sk-proj-" + of(300_000)
    shown = "".join(map(stream.add, pieces(text, 999)))
    assert shown == f"key: {HIDDEN}"
    assert stream.add(", and so on ") + stream.end() == ", and so on "


SENTENCES = (
    "The revenue of the North fell by a third in the third quarter, because two shops were closed. "
    "It's not the price: units didn't change much elsewhere, and **margins** (as expected) held. "
    "Penguins weigh more on Biscoe. Les équipes étaient prêtes, und die Läden waren geschlossen."
)
KEYS = ["sk-proj-aB3dE6gH9jK2mN5pQ8sT1", "tr0ub4dor&3", "hunter2hunter2"]


def test_a_word_is_shown_with_the_blank_after_it() -> None:
    tokens = re.findall(r"\s?[^\W\d_']+(?:'\w+)?|\W", SENTENCES)
    assert "".join(tokens) == SENTENCES
    for redactor in (BY_LOOKS, Redactor(KEYS)):
        stream, told, read = redactor.stream(), "", ""
        for token in tokens:
            read += token
            told += stream.add(token)
            assert read.startswith(told)
            assert not re.search(r"\s", read[len(told) :])
        assert told + stream.end() == read


def leak(redactor: Redactor, text: str, secret: str) -> str:
    """What is shown of the secret, in parts of four characters, where each byte comes alone."""
    stream, shown = redactor.stream(), ""
    for char in text:
        shown += stream.add(char)
    shown += stream.end()
    parts = (secret[at : at + 4] for at in range(len(secret) - 3))
    return "".join(part for part in parts if part in shown.replace(HIDDEN, "\0"))


@pytest.mark.spec("H15")
def test_no_secret_of_any_kind_is_shown_in_part_though_it_comes_byte_by_byte() -> None:
    secrets = {**{kind: (token, token) for kind, token in TOKENS.items()}, **PLACED}
    for known in KNOWN:
        secrets[known] = known, known
    redactor = Redactor(KNOWN)
    told = {
        kind: leak(redactor, f"See the\n{text}\nor so.", secret)
        for kind, (text, secret) in secrets.items()
    }
    assert {kind: each for kind, each in told.items() if each} == {}


@pytest.mark.spec("H15")
def test_hardly_a_letter_is_shown_where_another_kind_of_text_comes_after_each() -> None:
    secrets = {**{kind: (token, token) for kind, token in TOKENS.items()}, **PLACED}
    shown = {}
    for kind, (text, secret) in secrets.items():
        stream, told = Redactor().stream(), ""
        for char in f"See the\n{text}\nor so.":
            told += stream.add(char) + stream.pause()
        told += stream.end()
        shown[kind] = next(n for n in range(len(secret), -1, -1) if secret[:n] in told)
    assert {kind: count for kind, count in shown.items() if count > 4} == {}


@pytest.mark.spec("H15")
def test_a_secret_that_begins_with_a_word_is_hidden_where_its_place_gives_it_away() -> None:
    for kind, (text, secret) in PLACED.items():
        worded = "mother4xQ9" + secret
        text = f"See the\n{text.replace(secret, worded)}\nor so."
        if "mother" not in BY_LOOKS.text(text):
            assert not leak(BY_LOOKS, text, worded), kind
