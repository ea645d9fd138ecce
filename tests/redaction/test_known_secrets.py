"""What of the environment is secret."""

from pathlib import Path

import pytest

from ipyagent.redaction import (
    HIDDEN,
    MASK,
    Redactor,
    Secrecy,
    is_secret_name,
    known_secrets,
    mask_arguments,
    secrecy,
)


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
