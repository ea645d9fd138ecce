"""Secrets are known from the environment, by their looks and places, and hidden in everything."""

import base64
import json
import random
import string
import weakref
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from canaries import ENCODINGS, LETTERS, ORDINARY, PLACED, TOKENS, of
from hypothesis import given, strategies as st

from growth import LINEAR, growth
from ipyagent.redaction import (
    HIDDEN,
    MASK,
    Redactor,
    Secrecy,
    is_secret_name,
    is_secret_value,
    known_secrets,
    mask_arguments,
    secrecy,
    url_passwords,
)
from ipyagent.schema import (
    ImageContent,
    Message,
    Role,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolExecution,
    ToolFinished,
    ToolResult,
    ToolStatus,
)
from ipyagent.schema.messages import OpaqueContent
from ipyagent.schema.results import Display

BY_LOOKS = Redactor()
KNOWN = [
    "tr0ub4dor&3",
    "correct horse battery",
    "秘密の合言葉はこれです",
    'with "quotes"\nand lines',
]


@pytest.mark.spec("A54", "H15")
@pytest.mark.parametrize("kind", TOKENS)
def test_a_token_is_hidden_wherever_it_stands(kind: str) -> None:
    token = TOKENS[kind]
    assert is_secret_value(token)
    for text in (
        "{}",
        "a {} b",
        '"{}",',
        "key={};",
        "({})",
        "x\n{}\ny",
        "密{}密",
        r"a\n{}\n",
        "`{}`",
    ):
        assert BY_LOOKS.text(text.format(token)) == text.format(HIDDEN)


@pytest.mark.spec("A54", "H15")
@pytest.mark.parametrize("kind", TOKENS)
def test_a_token_is_hidden_that_begins_where_a_known_value_ends(kind: str) -> None:
    value = "quietly42morning"
    assert Redactor([value]).text(f"a {value}{TOKENS[kind]} b") == f"a {HIDDEN} b"


@pytest.mark.spec("A54", "H15")
@pytest.mark.parametrize("kind", PLACED)
def test_of_what_its_place_gives_away_only_the_secret_is_hidden(kind: str) -> None:
    text, secret = PLACED[kind]
    assert is_secret_value(text)
    hidden = BY_LOOKS.text(text)
    before, after = text.split(secret, 1)
    assert hidden.startswith(before + HIDDEN)
    # Of base64 the padding may go too.
    assert hidden.removeprefix(before + HIDDEN) in (after, after.lstrip("="))


@pytest.mark.parametrize(
    ("url", "passwords"),
    [
        ("postgresql://ada:pa%40ss@h:1/d", {"pa%40ss", "pa@ss"}),
        ("postgresql://ada:p@ss?w@h/d?a=b@c", {"p@ss?w"}),
        ("postgresql://h/d?user=ada&password=p%2Fw", {"p%2Fw", "p/w"}),
        ("postgresql://ada:12/w0rd@h/d?a=b@c", {"12/w0rd"}),
        ("postgresql://ada@h/d?sslpassword=w0rd", {"w0rd"}),
        ("postgresql://ada@h:5432/d?options=-csearch_path%3Da:b@c", set()),
        ("", set()),
    ],
)
def test_the_password_of_a_url_is_known_as_written_and_as_meant(
    url: str, passwords: set[str]
) -> None:
    assert url_passwords(url) == passwords


@pytest.mark.spec("A54", "H15")
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_looks_like_a_secret_does_so_when_it_is_encoded(encoding: str) -> None:
    encode = ENCODINGS[encoding]
    for kind, token in TOKENS.items():
        for prefix in ("", " ", "= ", "user: "):
            text = f"x {encode(prefix + token)} y"
            hidden = BY_LOOKS.text(text)
            assert encode(token)[4:-4] not in hidden, (kind, prefix)
            assert len(hidden) < 4 * len(prefix) + 24, (kind, prefix)
    for kind, (text, secret) in PLACED.items():
        if encoding == "form" and kind in ("option", "netrc", "mysql", "sshpass"):
            continue  # + for blanks is recognised by the escapes beside it, and here are none
        hidden = BY_LOOKS.text(encode(text))
        assert HIDDEN in hidden, kind
        # At either end a character of base64 says something of its neighbour too.
        assert encode(secret)[4:-4] not in hidden or len(secret) < 10, kind


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text: str) -> None:
    assert BY_LOOKS.text(text) is text
    assert Redactor(KNOWN).text(text) is text


@pytest.mark.spec("A06", "H15")
@pytest.mark.parametrize("value", KNOWN)
def test_a_known_value_is_hidden_in_every_form(value: str) -> None:
    redactor = Redactor(KNOWN)
    raw = value.encode()
    forms = {value, quote(value), quote(value, safe="").lower(), raw.hex(), raw.hex().upper()}
    forms |= {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    forms |= {repr(value)[1:-1]}
    for form in forms:
        assert redactor.text(f"-{form}-") == f"-{HIDDEN}-"
    for encode in (base64.b64encode, base64.urlsafe_b64encode, base64.encodebytes):
        for before in range(4):
            text = encode(b"<" * before + raw + b">>").decode()
            hidden = redactor.text(text)
            assert raw[1:-1] not in base64.urlsafe_b64decode(_without_mark(hidden))
            assert len(hidden) < 20 + before


def _without_mark(text: str) -> str:
    text = text.replace(HIDDEN, "").replace("\n", "").replace("+", "-").replace("/", "_")
    text = text.rstrip("=")
    return text[: len(text) - (len(text) % 4 == 1)] + "=" * (-len(text) % 4)


@pytest.mark.spec("A06")
def test_a_value_counts_from_eight_characters_on() -> None:
    assert Redactor(["1234567", " 1234567 "]).text("a 1234567 b") == "a 1234567 b"
    assert Redactor(["\0" * 8]).text("\0" * 20) == "\0" * 20
    assert Redactor(["12345678\n"]).text("a 12345678 b") == f"a {HIDDEN} b"


def test_the_longer_of_two_values_is_hidden_as_a_whole() -> None:
    redactor = Redactor(["lovelace", "lovelace1815", "15analytical"])
    assert redactor.text("lovelace1815 lovelace18") == f"{HIDDEN} {HIDDEN}18"
    assert redactor.text("lovelace1815analytical") == HIDDEN


_PIECES = st.sampled_from(
    [*TOKENS.values(), *(t for t, _ in PLACED.values()), *KNOWN, *ORDINARY, HIDDEN, "sk-", "="]
)
_TEXTS = st.lists(st.one_of(_PIECES, st.text(max_size=12)), max_size=6).map("".join)


@pytest.mark.slow
@given(text=_TEXTS)
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    for redactor in (BY_LOOKS, Redactor(KNOWN)):
        once = redactor.text(text)
        assert redactor.text(once) == once
        assert redactor.text(text) == once


_VALUES = st.text(min_size=8).filter(lambda value: len(value.strip().strip("\0")) >= 8)


@given(text=st.text(), value=_VALUES)
def test_a_value_is_hidden_whatever_it_is(text: str, value: str) -> None:
    hidden = Redactor([value]).text(text + value + text)
    assert HIDDEN in hidden
    assert value.strip() not in hidden.replace(HIDDEN, "\x00")


def test_half_characters_do_no_harm() -> None:
    token = TOKENS["GitHub"]
    assert BY_LOOKS.text(f"\ud83d {token} \ude00") == f"\ud83d {HIDDEN} \ude00"


# Data and records ---------------------------------------------------------------------------------


@pytest.mark.spec("H15")
def test_data_is_clean_in_values_and_keys() -> None:
    token = TOKENS["GitHub"]
    data = {"a": [1, None, {token: f"x {token}"}], "b": ("plain", True), "c": 2.5}
    clean = BY_LOOKS.data(data)
    assert clean == {"a": [1, None, {HIDDEN: f"x {HIDDEN}"}], "b": ("plain", True), "c": 2.5}
    assert clean["b"] is data["b"]
    assert BY_LOOKS.data(clean) is clean


def test_what_is_nested_without_end_is_hidden() -> None:
    data: Any = "deep"
    for _ in range(5_000):
        data = [data]
    clean, depth = BY_LOOKS.data(data), 0
    while isinstance(clean, list):
        clean, depth = clean[0], depth + 1
    assert (clean, depth) == (HIDDEN, 200)


@pytest.mark.spec("H15", "A06")
def test_a_record_is_clean_however_deep() -> None:
    token = TOKENS["OpenAI project"]
    call = ToolCall(id="c1", name="f", arguments={"code": [f"k = '{token}'"]})
    result = ToolResult(
        output=f"out {token}",
        value=[token],
        displays=(Display(data={"text/html": f"<b>{token}</b>", "image/png": token}),),
    )
    execution = ToolExecution(call=call, status=ToolStatus.SUCCESS, result=result)
    clean = BY_LOOKS.record(ToolFinished(step=1, execution=execution))
    assert type(clean) is ToolFinished
    assert clean.execution.call.arguments == {"code": [f"k = '{HIDDEN}'"]}
    kept = clean.execution.result
    assert (kept.output, kept.full_output) == (f"out {HIDDEN}",) * 2
    # The living object and the picture are nobody's text.
    assert kept.value is result.value
    assert kept.displays[0].data == {"text/html": f"<b>{HIDDEN}</b>", "image/png": token}
    assert token in execution.model_dump_json()
    assert BY_LOOKS.record(clean) is clean


def test_what_a_provider_or_a_picture_needs_verbatim_is_not_touched() -> None:
    token = TOKENS["GitHub"]
    message = Message(
        role=Role.ASSISTANT,
        content=(
            ThinkingContent(thinking="x", signature=token, encrypted_content=token),
            ImageContent(data=token),
            ToolCall(id=token, name="f", thought_signature=token, item_id=token),
        ),
    )
    assert BY_LOOKS.record(message) is message
    said = message.model_copy(update={"content": (*message.content, TextContent(text=token))})
    clean = BY_LOOKS.record(said)
    assert clean.content[:3] == message.content
    assert clean.content[3] == TextContent(text=HIDDEN)


def test_a_block_of_an_unknown_kind_is_clean_too() -> None:
    block = OpaqueContent.model_validate({"type": "new", "said": {"x": TOKENS["GitHub"]}})
    assert BY_LOOKS.record(block).to_dict() == {"type": "new", "said": {"x": HIDDEN}}


class Reply(str):
    """A text of which one can tell whether it is still held."""


@pytest.mark.parametrize("length", [5, 5_000])
def test_texts_that_were_looked_at_are_not_kept_for_ever(length: int) -> None:
    redactor, first = Redactor(), Reply("word " * length)
    held = weakref.ref(first)
    assert redactor.text(first) == first
    del first
    assert held() is not None
    for number in range(600):
        redactor.text(f"{number} " * length)
    assert held() is None


# Time ---------------------------------------------------------------------------------------------

_RNG = random.Random(1)
LARGE = {
    "prose": "The basic token of the password: bearer of the key, login and secret. ",
    "CSV": "2024-01-01,9fceb02d0ae598e95dc970b74767f19372d61af8,3750.0\n",
    "base64": "".join(_RNG.choices(string.ascii_letters + string.digits + "+/", k=100_000)),
    "a": "a",
    "blank lines": "\n",
    "sk-": "sk-",
    "BEGIN": "-----BEGIN PRIVATE KEY-----\n",
    "URLs": "://a:",
    "escapes": "\\n%20",
    "headers": 'authorization: "bearer ',
    "keys": "sk-proj-abcdefghijklmnop123 ",
    "one key": "sk-proj-",
    "one name": "KEY=" + "a1_b-" * 199_000 + "!",
    "one line": "KEY=x1a" + "-" * 990_000 + "! ",
    "one call": "PASSWORD=f" + "(a).b" * 199_000 + "! ",
    "one form": "password=l0velace" + "&a" * 490_000 + "=",
    "PEM": "-----BEGIN PRIVATE KEY-----\n" + "A" * 64 + "\n",
}


@pytest.mark.slow
@pytest.mark.spec("H15")
@pytest.mark.parametrize("kind", LARGE)
def test_the_time_grows_with_the_length_whatever_the_text_is(kind: str) -> None:
    redactor = Redactor([of(40, LETTERS) for _ in range(50)])
    text = (LARGE[kind] * (400_000 // len(LARGE[kind]) + 1))[:400_000]
    assert growth(lambda size: redactor.text(text[:size]), 100_000) < LINEAR


@pytest.mark.parametrize("before", ["", "It is long. " * 200])
def test_what_is_learnt_later_is_hidden_in_texts_that_were_seen_before(before: str) -> None:
    redactor, text = Redactor(), f"{before}The word is swordfish9"
    streaming = redactor.stream()
    assert redactor.text(text) == text
    assert streaming.add(text) + streaming.end() == text
    begun = redactor.stream()
    begun.add(text)
    redactor.learn(["swordfish9"])
    begun.end()
    assert redactor.text(text) == f"{before}The word is {HIDDEN}"


def test_a_text_without_secrets_is_the_same_object_however_often_it_is_seen() -> None:
    redactor = Redactor()
    for _ in range(2):
        text = "".join(["plain", " text"])
        assert redactor.text(text) is text


@pytest.mark.spec("A06", "H15")
@pytest.mark.parametrize(
    "name",
    ["OPENAI_API_KEY", "DB_PASSWORD", "JUPYTER_TOKEN", "client_secret", "GITLAB_PWD", "MyApiKey"],
)
def test_the_values_of_variables_named_like_secrets_are_known(name: str) -> None:
    assert known_secrets({name: " l0velace1815\n", "HOME": "/home/ada"}) == {"l0velace1815"}


@pytest.mark.parametrize(
    "name",
    ["SESSION_ID", "SESSIONID", "X_SESSION", "ACCESS_CODE", "SNMP_COMMUNITY"],
)
def test_random_values_of_sessions_and_codes_are_known_in_the_environment(name: str) -> None:
    assert known_secrets({name: "l0velace1815"}) == {"l0velace1815"}
    assert known_secrets({name: "interactive"}) == frozenset()


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
        ("KEY_COLUMN", "timestamp"),
        ("PRIMARY_KEY", "customer_id"),
        ("API_KEY_HEADER", "Authorization"),
        ("IPYAGENT_LLM__API_KEY_ENV", "OPENAI_API_KEY"),
        ("MY_TOKEN_VAR", "HF_TOKEN_2"),
        ("AWS_SECRET_REGION", "us-east-1"),
        ("PASSWORD_FIELD", "user_password"),
        ("JUPYTER_TOKEN", "datascience"),
        ("SSH_AUTH_SOCK", "/tmp/ssh-XXXXabcd1234/agent.99"),
        ("AUTH_METHOD", "password-grant"),
        ("AUTH", "disabled"),
        ("COOKIE_POLICY", "same-site-lax"),
        ("PASSWORD_STRENGTH", "very_strong"),
        ("RANDOM_SEED", "20241122"),
        ("SESSION_COOKIE_NAME", "sessionid"),
        ("SESSION_COOKIE_SAMESITE", "none-or-lax"),
        ("SESSION_COOKIE_DOMAIN", "intranet.example"),
        ("FILE_PAT", "quarterly_report"),
        ("CONTEXT_PAT", "quarterly_report"),
        ("FORWARD_PASS", "layer_12_output"),
        ("TOKEN_CACHE", "~/.cache/tokens-2024a"),
    ],
)
def test_what_is_no_secret_is_left_out(name: str, value: str) -> None:
    assert known_secrets({name: value}) == frozenset()


def test_a_key_is_known_also_where_its_name_was_asked_for() -> None:
    assert known_secrets({"IPYAGENT_LLM__API_KEY_ENV": "l0velace1815"}) == {"l0velace1815"}


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
    given = {
        "url": "x", "api_key": "k", "more": [{"accessToken": "t"}], "tokens": ["l0velace-1815"],
        "key": 1, "x-api-key": "k",
    }  # fmt: skip
    assert mask_arguments(given) == {
        "url": "x", "api_key": MASK, "more": [{"accessToken": MASK}], "tokens": [MASK],
        "key": 1, "x-api-key": MASK,
    }  # fmt: skip
    assert not is_secret_name("keyword")


def test_arguments_stay_that_only_sound_like_secrets() -> None:
    given = {
        "sort_key": "date", "token_count": "3", "tokens": ["the", "cat"], "pad_token": "<pad>",
        "merge_keys": ["customer_id_2"], "primary_key": "0a1b2c3d4e", "password_length": 12,
    }  # fmt: skip
    assert mask_arguments(given) == given


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("password", Secrecy.SURE), ("db_password_2", Secrecy.SURE), ("secretKey", Secrecy.SURE),
        ("secrets", Secrecy.SURE), ("AWS_SECRET_ACCESS_KEY", Secrecy.SURE),
        ("hf_token", Secrecy.SURE), ("token", Secrecy.MAYBE), ("key", Secrecy.MAYBE),
        ("secret_santa", Secrecy.MAYBE), ("api_key_header", Secrecy.MAYBE),
        ("foreign_key_id", Secrecy.NONE), ("session_id", Secrecy.NONE),
        ("orders_primary_key", Secrecy.NONE),
        ("S3_SECRET_KEY", Secrecy.SURE), ("cacheKey", Secrecy.NONE), ("keyboard", Secrecy.NONE),
    ],
)  # fmt: skip
def test_how_surely_a_name_tells_of_a_secret(name: str, expected: Secrecy) -> None:
    assert secrecy(name) is expected


AS_PEOPLE_WRITE_THEM = """
SMTP_PASS DB_PASS MYSQL_PASS EMAIL_PASS REDIS_PASS LDAP_PASS POSTGRES_PASS PG_PASS FTP_PASS
RABBITMQ_PASS ADMIN_PASS USER_PASS MONGO_PASS PROXY_PASS SMTP_PW DB_PW ADMIN_PW LDAP_PW ROOT_PW
WIFI_PASS KEYSTORE_PASS DOCKER_PASS APP_PASS2 MAIL_PASSWD DB_PWD SSH_PASSPHRASE VPN_PASSCODE
DB_CREDS AWS_CREDENTIALS MNEMONIC WALLET_MNEMONIC SEED_PHRASE RECOVERY_PHRASE SECRET APP_SECRET
CLIENT_SECRET DJANGO_SECRET_KEY JWT_SECRET OAUTH_CLIENT_SECRET WEBHOOK_SECRET OPENAI_API_KEY
ANTHROPIC_API_KEY APIKEY PRIVATE_KEY ACCESS_KEY AUTH_TOKEN ACCESS_TOKEN HF_TOKEN GITHUB_TOKEN
SLACK_BOT_TOKEN SESSION_TOKEN PASSWORD PGPASSWORD MYSQL_ROOT_PASSWORD DBPWD MYSQLPWD STOREPASS
KENNWORT CONTRASEÑA MOT_DE_PASSE SENHA_DB GITHUB_PAT GH_PAT AZURE_DEVOPS_EXT_PAT MY_GITLAB_PAT GLPAT
PERSONAL_ACCESS_PAT SESSION_COOKIE AUTH_COOKIE LOGINCOOKIE
"""
BY_THEIR_VALUE_TOO = """
PASS PW JWT USER_JWT COOKIE SALT MY_PAT TRACKING_COOKIE
PASSWORD_SALT AUTH BASIC_AUTH NPM_AUTH STORAGE_SAS AZURE_SAS SAS_TOKEN CONN_STR DB_CONN_STR
CONNECTION_STRING AZURE_STORAGE_CONNECTION_STRING SQLCONNSTR_CONN_STRING DSN SENTRY_DSN WALLET_SEED
WIFI_PSK TOTP ENCRYPTION_KEY TOKEN LICENSE_KEY STRIPE_SK AWS_SK XSRF CSRF_TOKEN API_TOK PW1
RECOVERY_CODE BACKUP_CODES
"""


@pytest.mark.spec("A06", "H15")
@pytest.mark.parametrize("name", (AS_PEOPLE_WRITE_THEM + BY_THEIR_VALUE_TOO).split())
def test_secrets_are_known_by_the_names_that_people_give_them(name: str) -> None:
    value = "Xk29-fjQ8v_Lz0pRt"
    assert known_secrets({name: value, name.lower(): value}) == {value}


@pytest.mark.parametrize("name", AS_PEOPLE_WRITE_THEM.split())
def test_passwords_of_letters_alone_are_known_where_the_name_is_sure(name: str) -> None:
    assert known_secrets({name: "correcthorsebattery"}) == {"correcthorsebattery"}


def test_an_address_that_lets_one_write_is_known() -> None:
    secret = "https://example.org/hooks/9f8a7b6c5d4e3f2a1b0c9d8e7f6a"
    assert known_secrets({"TEAMS_WEBHOOK": secret, "ALERT_WEBHOOK_URL": secret}) == {secret}
    assert (
        known_secrets({"WEBHOOK_URL": "https://example.org/hooks/incoming/alerts"}) == frozenset()
    )


NEAR_MISSES = """
COMPASS BYPASS_CACHE ENCOMPASS PASSENGERS AUTHOR AUTHORS AUTHORITY PATH PATTERN PATIENT CAPATH
KEYBOARD MONKEY DONKEY KEYWORDS TOKENIZER TOKENIZERS_PARALLELISM SALTY BASALT COOKIECUTTER SASS
CONNECTION STRING SEEDLING DESPAIR OUTPUT HOSTNAME SHELL TERM LANG EDITOR
XAUTHORITY SSH_ASKPASS PYTHONHASHSEED CREDIT MASSPASSAGE SPATIAL
RISK TASK DISK SK_LEARN STOCK_CODES TOKYO PWM_DUTY
"""


@pytest.mark.parametrize("name", NEAR_MISSES.split())
def test_names_that_only_contain_such_a_word_are_ordinary(name: str) -> None:
    assert known_secrets({name: "Xk29-fjQ8v_Lz0pRt"}) == frozenset()
