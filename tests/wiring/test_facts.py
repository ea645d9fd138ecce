"""Facts about tables as objects: from variables of both libraries, and from files."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

from harness import YES, Lab
from ipyagent.explorer import ExplorerClient
from ipyagent.kernel.namespace import Namespace
from ipyagent.schema.tables import ColumnFacts, TableFacts
from ipyagent.tools.workspace import Workspace
from ipyagent.wiring.environment import Environment, list_table_facts

COLUMNS = {
    "id": ["a1", "a2", "a3"],
    "kind": ["red", "blue", "red"],
    "price": [1.5, None, 3.0],
    "day": ["2024-01-03", "2024-02-01", None],
    "paid": [True, False, True],
}
KINDS = [
    ("id", "text", True), ("kind", "text", False), ("price", "number", False),
    ("day", "date", False), ("paid", "bool", False),
]  # fmt: skip


def environment(root: Path, **variables: object) -> Environment:
    return Environment(Workspace(root), Namespace(variables))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_variable_has_columns_with_kinds_and_choices(tmp_path: Path, library: str) -> None:
    table = (pd if library == "pandas" else pl).DataFrame(COLUMNS)
    facts = environment(tmp_path, t=table, s=pd.Series([1]), pd=pd, n=3).collect_facts()
    (found,) = facts.tables
    assert (found.variable, found.library) == ("t", library)
    assert [(c.name, c.kind, c.is_key) for c in found.columns or ()] == KINDS
    assert [c.choices for c in found.columns or ()][1] == ("red", "blue")
    assert facts.variables["pd"] == "pandas"
    assert facts.variables["n"] == "int"


def test_a_file_has_columns_only_if_it_was_described(tmp_path: Path) -> None:
    pd.DataFrame(COLUMNS).to_csv(tmp_path / "t.csv", index=False, sep=";")
    (tmp_path / "other.csv").write_text("a\n1\n")
    (tmp_path / "notes.txt").write_text("x")
    context, _ = environment(tmp_path).prompt_context("mean of a in t.csv", with_facts=True)
    facts = context.facts
    assert facts is not None
    assert sorted(facts.files) == ["notes.txt", "other.csv", "t.csv"]
    tables = {each.path: each for each in facts.tables}
    assert tables["other.csv"] == TableFacts(path="other.csv")
    found = tables["t.csv"]
    assert found.call == "pd.read_csv('t.csv', sep=';')"
    assert [(c.name, c.kind) for c in found.columns or ()] == [each[:2] for each in KINDS]


def test_labels_that_are_no_text_are_left_out() -> None:
    (found,) = list_table_facts({"t": pd.DataFrame([[1, 2]], columns=[2024, "a"])})
    assert found.columns == (ColumnFacts("a", "int64", "number"),)


def test_only_a_client_that_reads_facts_gets_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("ort;preis;menge\nUlm;1,50;3\nBonn;2,50;4\nK;5;5\n")
    lab = Lab(tmp_path)
    run = lab.run([], "Load t.csv", model=ExplorerClient(), answer=YES)
    assert "3 rows, 3 columns" in str(run.output)
    run = lab.run([], "mean of preis", model=ExplorerClient(), answer=YES)
    assert "**3** (3 values" in str(run.output)
    run = lab.run([], "and by ort?", model=ExplorerClient(), answer=YES)
    assert "| Ulm | 1.5 | 1 |" in str(run.output)
    lab.run(["Hello."], "Hi")
    assert lab.environment.prompt_context("Hi")[0].facts is None
    assert "ort" not in json.dumps(lab.session.conversation.messages[-1].to_dict())


def test_a_question_goes_on_from_one_about_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("town,year,price\nUlm,2023,1\nBonn,2024,3\nUlm,2024,5\n")
    lab = Lab(tmp_path)
    lab.run([], "mean price by town in t.csv", model=ExplorerClient(), answer=YES)
    run = lab.run([], "and by year?", model=ExplorerClient(), answer=YES)
    assert "**Mean of `price` by `year`** in `t`" in str(run.output)
    assert "`t.csv` is loaded" not in str(run.output), "it is there"
