"""Strings that variables, keys, attributes and columns name as secret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
import polars as pl
import pytest

from growth import CONSTANT, growth
from ipyagent.kernel.namespace import Namespace
from ipyagent.redaction import HIDDEN, Redactor
from ipyagent.values import describe
from ipyagent.values.describe import MOST_SECRETS, secret_strings
from ipyagent.values.describe.libraries import table_of

SECRET = "correcthorsebattery"
RANDOM = "Xk29-fjQ8v_Lz0pRt"


@dataclass
class Login:
    user: str
    password: str


NAMED: dict[str, Any] = {
    "variable": {"password": SECRET},
    "key": {"conf": {"host": "db", "smtp_pass": SECRET}},
    "key in a list": {"conf": [{"a": 1}, {"b": {"client_secret": SECRET}}]},
    "values below a name": {"credentials": {"ada": SECRET}},
    "list below a name": {"passwords": ["", SECRET]},
    "attribute": {"login": Login("ada", SECRET)},
    "column": {"df": pd.DataFrame({"name": ["a", "b"], "Password": [None, SECRET]})},
    "column at the end": {"df": pd.DataFrame({"password": [""] * 1_000 + [SECRET]})},
    "series": {"s": pd.Series([SECRET], name="api_key")},
    "polars": {"df": pl.DataFrame({"api_key": [SECRET, None]})},
    "table below a name": {"secrets": pd.DataFrame({"value": [SECRET]})},
}


@pytest.mark.spec("H15")
@pytest.mark.parametrize("kind", NAMED)
def test_a_string_is_secret_by_its_name(kind: str) -> None:
    assert secret_strings(NAMED[kind]) == {SECRET}


def test_ambiguous_names_need_a_value_that_looks_secret() -> None:
    frame = pd.DataFrame(
        {"token": [RANDOM, "the"], "salt": ["NaCl2H2O", "KBr"], "key": ["a1", "b"]}
    )
    assert secret_strings({"df": frame}) == {RANDOM}


ORDINARY: dict[str, Any] = {
    "strength": pd.DataFrame({"password_strength": ["very_strong", "quite_weak"] * 5}),
    "categories": pd.DataFrame({"password": ["expired_or_not_set", "set_by_the_user"] * 20}),
    "numbers": pd.DataFrame({"tokens": [1, 2], "password_length": [12, 14], "key": [1.5, 2.5]}),
    "numbers as text": pd.DataFrame({"api_key": ["12345678", "2024-01-01 10:00"]}),
    "methods": pd.DataFrame({"auth_method": ["oauth2-with-pkce", "password-grant"]}),
    "words": {"tokens": ["tokenization", "internationalization"], "password": "short"},
    "keys of tables": {"primary_key": "customer_id_2024", "sort_key": "date"},
    "compasses": {"compass": RANDOM, "author": RANDOM, "path": RANDOM},
}


@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_data_is_not_mistaken_for_secrets(kind: str) -> None:
    assert secret_strings({"data": ORDINARY[kind]}) == frozenset()


class Hostile:
    """An object whose own code must not run."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)

    def __iter__(self) -> Any:
        raise AssertionError

    __len__ = __eq__ = __hash__ = __repr__ = __bool__ = __iter__


class Password(str):
    def __len__(self) -> int:
        raise AssertionError


class Settings(dict):
    def items(self) -> Any:
        raise AssertionError


def test_the_search_runs_no_code_of_the_user_and_ends() -> None:
    loop: list[Any] = []
    loop.append(loop)
    deep: dict[str, Any] = {}
    for _ in range(1_000):
        deep = {"password": deep}
    values = {
        "password": Hostile(),
        "secret": Password("x" * 20),
        "credentials": Settings(a="b"),
        "api_key": (Hostile() for _ in [1]),
        "secrets": loop,
        "passwords": deep,
        "many": {f"password_{i}": f"{SECRET}{i}" for i in range(MOST_SECRETS * 3)},
    }
    assert 0 < len(secret_strings(values)) <= MOST_SECRETS


@pytest.mark.slow
def test_a_large_table_is_searched_only_at_its_ends() -> None:
    frame = pd.DataFrame({f"password_{i}": range(400_000) for i in range(10)})
    assert growth(lambda size: secret_strings({"df": frame[:size]}), 100_000) < CONSTANT


@pytest.mark.spec("H15")
def test_secrets_in_a_result_are_learned_before_it_is_read() -> None:
    redactor = Redactor()
    namespace = Namespace({}).watched_by(redactor)
    result = namespace.run(f"conf = {{'password': {SECRET[::-1]!r}[::-1]}}; print(conf)")
    assert SECRET in result.output
    assert redactor.text(f"It is {SECRET}.") == f"It is {HIDDEN}."


def test_a_redactor_keeps_the_secrets_that_it_learned() -> None:
    redactor = Redactor(["first-secret"])
    redactor.learn(["second-secret", "short"])
    redactor.learn([])
    assert redactor.text("first-secret second-secret short") == f"{HIDDEN} {HIDDEN} short"


def test_the_types_of_a_tables_columns_are_read_only_if_one_is_secret(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[object] = []

    def read_and_note(value: object) -> object:
        read.append(value)
        return table_of(value)

    monkeypatch.setattr(describe, "table_of", read_and_note)
    ordinary = pd.DataFrame({"city": ["Hamburg, Altona, north"]})
    password = pd.DataFrame({"password": ["correct horse battery"]})
    assert secret_strings({"a": ordinary, "b": password}) == {"correct horse battery"}
    assert [each is password for each in read if type(each) is pd.DataFrame] == [True]
    assert secret_strings({"api_key": pd.DataFrame({0: ["Xy7-9aB2kQ-plmr"]})}) == {
        "Xy7-9aB2kQ-plmr"
    }


def test_of_a_large_graph_of_objects_each_class_is_judged_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged: list[type] = []
    monkeypatch.setattr(describe, "table_reader", lambda value: judged.append(type(value)))
    logins = [[Login("ada", f"{SECRET}{n}-{m}") for m in range(100)] for n in range(15)]
    found = secret_strings({"servers": logins, "clients": {"last": logins[-1][-1]}})
    assert len(found) == MOST_SECRETS
    assert f"{SECRET}14-99" in found
    assert sorted(each.__name__ for each in judged) == ["Login", "dict", "list"]


def test_numbers_hide_no_secret_behind_them() -> None:
    numbers: dict[str, object] = {f"n{i}": i for i in range(6_000)}
    assert secret_strings(numbers | {"password": "correct horse battery"}) == {
        "correct horse battery"
    }


@pytest.mark.parametrize(
    ("module", "is_searched"),
    [("ipyagent.api", False), ("ipyagent.schema.results", True), ("ipyagents.own", True)],
)
def test_an_agent_is_not_searched_and_records_of_runs_are(module: str, is_searched: bool) -> None:
    holder = type("Holder", (), {"__module__": module})()
    holder.password = "l0velace1815"
    assert (secret_strings({"holder": holder}) == {"l0velace1815"}) is is_searched
