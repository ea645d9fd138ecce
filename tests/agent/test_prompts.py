"""What the model is told beside the prompt."""

from __future__ import annotations

import pytest

from harness import Lab
from ipyagent.agent.prompts import Context, describe_mentions, system_prompt
from ipyagent.kernel.namespace import installed_packages
from ipyagent.tools.tables import find_named_tables


def test_a_mentioned_variable_is_described_and_a_mentioned_file_named() -> None:
    found = describe_mentions(
        "Compare @sales with @data/old.csv, and mail me@work.org about @nothing.",
        {"sales": [1, 2, 3], "work": 1},
        lambda path: path == "data/old.csv",
    )
    assert len(found) == 2
    assert found[0].startswith("sales: list")
    assert "data/old.csv" in found[1]


def test_names_of_any_alphabet_are_mentioned() -> None:
    variables = {"größe": 1, "данные": 2, "数据": 3}
    assert (
        len(describe_mentions("Compare @größe, @данные and @数据.", variables, lambda _: False))
        == 3
    )


def test_without_anything_to_tell_there_is_no_context() -> None:
    assert Context().write() == ""


def test_variables_and_files_travel_with_the_prompt_and_not_in_the_system_prompt(lab: Lab) -> None:
    lab.variables["answer"] = 42
    (lab.environment.workspace.root / "notes.txt").write_text("hello")
    run = lab.run(["Ok."], "What is @answer?")
    assert "answer: int = 42" in run.context
    assert "notes.txt" in run.context
    system, asked, told = lab.client.requests[0].messages
    assert system.text == system_prompt(installed_packages())
    assert (asked.text, asked.synthetic) == ("What is @answer?", False)
    assert (told.text, told.synthetic) == (run.context, True)


def test_braces_in_a_prompt_are_left_alone(lab: Lab) -> None:
    assert lab.run(["Ok."], "Use f'{x}' and {y}.").prompt == "Use f'{x}' and {y}."


def test_a_server_that_cannot_be_reached_is_told_and_the_run_goes_on(lab: Lab) -> None:
    servers = [{"name": "weather", "url": "http://127.0.0.1:1/mcp"}]
    run = lab.run(["Hello."], settings={"mcp": {"servers": servers}})
    assert any("weather" in note for note in run.notes)
    assert run.outcome == "success"
    assert not any("mcp.servers" in note for note in lab.run(["Hello."]).notes)


# Tables that the prompt names


PATHS = ["titanic.csv", "data/Sales 2024.xlsx", "gapminder_cleaned.csv", "a/train.csv"]
PATHS += ["b/train.csv", "b/train.parquet", "x.csv"]


@pytest.mark.parametrize(
    ("prompt", "named"),
    [
        ("Mean fare in titanic.csv?", ["titanic.csv"]),
        ("Mean fare in @titanic.csv.", ["titanic.csv"]),
        ("mean fare in TITANIC", ["titanic.csv"]),
        ("the 'Titanic' passengers", ["titanic.csv"]),
        ("Open `Sales 2024.xlsx`", ["data/Sales 2024.xlsx"]),
        ('Open @"data/Sales 2024.xlsx" please', ["data/Sales 2024.xlsx"]),
        ("sales_2024 by region", ["data/Sales 2024.xlsx"]),
        ("gapminder cleaned: life expectancy", ["gapminder_cleaned.csv"]),
        ("compare a/train.csv with titanic", ["a/train.csv", "titanic.csv"]),
        ("use train.csv", ["a/train.csv", "b/train.csv"]),
        ("use train", ["a/train.csv", "b/train.csv", "b/train.parquet"]),
        ("x.csv", ["x.csv"]),
        ("solve for x", []),
        ("titanik and sales 2023", []),
        ("my titanic.csv.bak and titanics2", []),
        ("training of titanical models", []),
        ("", []),
    ],
)
def test_names_are_found_in_the_prompt(prompt: str, named: list[str]) -> None:
    assert find_named_tables(prompt, PATHS) == named


def test_a_longer_name_wins_over_a_part_of_it() -> None:
    paths = ["sales.csv", "sales 2024.csv"]
    assert find_named_tables("Plot sales 2024", paths) == ["sales 2024.csv"]
    assert find_named_tables("Plot sales 2024 and sales", paths) == ["sales 2024.csv", "sales.csv"]


def test_three_tables_are_enough() -> None:
    paths = [f"table{n}.csv" for n in range(10, 20)]
    assert find_named_tables(" ".join(reversed(paths)), paths) == paths[:-4:-1]


def test_only_the_beginning_of_an_enormous_prompt_is_searched() -> None:
    for words, named in ((100, ["titanic.csv"]), (200_000, [])):
        assert find_named_tables("word " * words + "titanic.csv", PATHS) == named
