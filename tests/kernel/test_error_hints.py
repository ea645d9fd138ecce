"""What the model reads of an error: the user's line, the error, and what repairs it."""

from __future__ import annotations

import pandas as pd
import pytest

from ipyagent.kernel.namespace import Namespace
from ipyagent.schema import ToolResult

COLUMNS = [
    "PassengerId",
    "Survived",
    "Pclass",
    "Name",
    "Sex",
    "Age",
    "SibSp",
    "Parch",
    "Ticket",
    "Fare",
    "Cabin",
    "Embarked",
]


class Touchy:
    """An object that must not be asked."""

    asked: list[str] = []  # noqa: RUF012

    def __repr__(self) -> str:
        self.asked.append("repr")
        return "touchy"

    def __getattr__(self, name: str) -> object:
        if not name.startswith("_"):
            self.asked.append(name)
        raise AttributeError(name)

    @property
    def fare(self) -> int:
        self.asked.append("property")
        return 1


@pytest.fixture
def namespace() -> Namespace:
    table = pd.DataFrame({name: [1, 2] for name in COLUMNS})
    return Namespace(
        {"df": table, "other": pd.DataFrame({"a": [1]}), "pd": pd, "rates": {"usd": 1, "eur": 2}}
    )


def fail(namespace: Namespace, code: str) -> ToolResult:
    result = namespace.run(code)
    assert not result.success
    assert result.for_model is not None
    return result


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        ('df["fare"]', "df has no column 'fare'; near: 'Fare'. Columns: PassengerId, Survived"),
        ("df.fare.mean()", "near: 'Fare'"),
        ('df[["Fare", "embarkd"]]', "near: 'Embarked'"),
        ('df.groupby("sex")["Fare"].mean()', "near: 'Sex'"),
        ('df.sort_values(by="passenger id")', "near: 'PassengerId'"),
        ('df.drop(columns=["fare"])', "near: 'Fare'"),
        ('other["a"] + df["pclass"]', "df has no column 'pclass'; near: 'Pclass'"),
        ('df.query("fare > 3")', "near: 'Fare'"),
        ('rates["USD"]', "rates has no key 'USD'; near: 'usd'. Keys: usd, eur"),
        ("dff.head()", "Near: 'df'"),
    ],
)
def test_an_error_names_what_would_be_right(namespace: Namespace, code: str, hint: str) -> None:
    result = fail(namespace, code)
    assert hint in str(result.for_model)
    assert hint not in result.output


def test_an_error_of_a_table_takes_few_characters(namespace: Namespace) -> None:
    result = fail(namespace, 'df["fare"]')
    assert len(str(result.for_model)) <= 300 < len(result.output) + 100
    assert "site-packages" not in str(result.for_model)
    assert ".pyx" not in str(result.for_model)


def test_only_the_users_own_frames_are_named(namespace: Namespace) -> None:
    code = 'def load(table):\n    return table["age"].mean()\n\nload(\n    df\n)'
    assert str(fail(namespace, code).for_model).splitlines()[:2] == [
        "line 4: load(",
        'line 2 in load: return table["age"].mean()',
    ]
    assert "table has no column 'age'; near: 'Age'" in str(fail(namespace, code).for_model)


def test_the_error_that_the_users_code_turned_into_another_is_named(
    namespace: Namespace,
) -> None:
    code = "try:\n    1 / 0\nexcept Exception as error:\n    raise ValueError('bad') from error"
    assert str(fail(namespace, code).for_model).endswith(
        "ValueError: bad\ncaused by ZeroDivisionError: division by zero"
    )


def test_no_code_of_the_users_classes_runs_for_a_hint() -> None:
    Touchy.asked.clear()
    namespace = Namespace({"touchy": Touchy(), "rates": {"a": Touchy()}})
    for code in ('rates["A"], touchy', "touchy_ + touchy", "len(1, touchy)"):
        fail(namespace, code)
    assert Touchy.asked == []
    fail(namespace, "touchy.fair")
    assert Touchy.asked == ["fair"]  # the code itself asks once


def test_a_syntax_error_shows_its_place(namespace: Namespace) -> None:
    assert "SyntaxError" in str(fail(namespace, "x = (\n").for_model)


def test_an_error_without_a_hint_is_short(namespace: Namespace) -> None:
    assert (
        fail(namespace, "1 / 0").for_model == "line 1: 1 / 0\nZeroDivisionError: division by zero"
    )
