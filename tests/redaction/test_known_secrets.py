"""What of the environment is secret."""

from pathlib import Path

import pytest

from ipyagent.redaction import HIDDEN, MASK, Redactor, known_secrets, masked, secret_name


@pytest.mark.spec("A06", "H15")
@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "DB_PASSWORD", "JUPYTER_TOKEN", "client_secret", "GITLAB_PWD", "MyApiKey"],
)
def test_the_values_of_variables_named_like_secrets_are_known(name: str) -> None:
    assert known_secrets({name: " l0velace1815\n", "HOME": "/home/ada"}) == {"l0velace1815"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("API_KEY", "1234567"),
        ("API_KEY", ""),
        ("MAX_TOKENS_KEY", "128000000"),
        ("USE_TOKEN", "disabled"),
        ("KEY_TIME", "1.5e+100000"),
        ("TOKEN_URL", "https://example.org/token"),
        ("POSTGRES_PASSWORD", "postgres"),
        ("MY_API_KEY", "my_api_key"),
        ("HOSTNAME", "l0velace1815"),
        ("MONKEY", "l0velace1815"),
    ],
)
def test_what_is_no_secret_is_left_out(name: str, value: str) -> None:
    assert known_secrets({name: value}) == frozenset()


def test_a_file_is_left_out_and_a_name_of_none_is_not(tmp_path: Path) -> None:
    path = tmp_path / "credentials.json"
    assert known_secrets({"CREDENTIALS": str(path)}) == {str(path)}
    path.touch()
    assert known_secrets({"CREDENTIALS": str(path)}) == frozenset()
    # Neither is what no system takes for a path.
    assert known_secrets({"API_KEY": "x" * 100_000})
    assert known_secrets({"API_KEY": "a\0l0velace"})


def test_an_address_with_credentials_is_known() -> None:
    address = "redis://ada:l0velace@example.org"
    assert known_secrets({"SECRET_STORE": address}) == {address}


@pytest.mark.spec("A06")
def test_what_the_environment_holds_is_told_nowhere() -> None:
    environ = {"LITELLM_API_KEY": "no-pattern-knows-this", "EDITOR": "vi"}
    text = "LITELLM_API_KEY=no-pattern-knows-this EDITOR=vi"
    assert Redactor().text(text) == text
    assert Redactor(known_secrets(environ)).text(text) == f"LITELLM_API_KEY={HIDDEN} EDITOR=vi"


@pytest.mark.spec("H15")
def test_arguments_are_masked_by_their_names() -> None:
    given = {"url": "x", "api_key": "k", "more": [{"accessToken": "t"}], "tokens": ["a"], "key": 1}
    assert masked(given) == {
        "url": "x", "api_key": MASK, "more": [{"accessToken": MASK}], "tokens": [MASK], "key": 1,
    }  # fmt: skip
    assert not secret_name("keyword")
