"""An answer without the form that the prompt asks for is asked for once more; others never are."""

from __future__ import annotations

import pytest

from harness import Lab
from ipyagent.agent.signs import find_missing_form

NUMBER, OBJECT = "The mean is 3.14159.", '{"mean": 3.14}'
TABLE = "| a | b |\n|---|---|\n| 1 | 2 |"

LACKING = [
    (prompt, NUMBER)
    for prompt in [
        "Respond only with JSON.",
        "Respond with a JSON object.",
        "Answer in JSON.",
        "Reply with valid JSON only.",
        "Return a JSON array of the names.",
        "Only JSON, please: the mean and the median.",
        "What are the means? Answer as a JSON object with the keys mean and std.",
        "Output just JSON.",
        "Give the result as JSON.",
        "Return the mean of the column Age as a JSON object.",
        "Answer with only a JSON object.",
        "Please answer with a single JSON object with the mean of column Fare.",
        "Compare the regions. Answer as a table.",
        "Give the means by class as a table.",
        "Give me the counts in a small table.",
        "Summarise the columns in a Markdown table.",
        "Present the results as a markdown table.",
        "List the models and their scores in a table.",
        "Report mean and median as a short table.",
        "Make a Markdown table of it.",
        "Round to two decimals.",
        "What is the mean? Round to 2 decimal places.",
        "Give the mean with three decimals.",
        "The mean, rounded to 3 decimal places.",
        "Use exactly two decimal places.",
        "Report the correlation rounded to two decimal digits.",
        "Mean fare, to 1 decimal.",
        "Answer with four decimals.",
    ]
] + [
    ("Answer as a JSON array.", OBJECT),
    ("Answer as a JSON object.", "[1, 2]"),
    ("Answer in JSON.", "Here it is: {mean: 3}"),
    ("Round to two decimals.", "It is 0.3333 and 0.6667."),
]  # fmt: skip

ORDINARY = [
    (prompt, NUMBER)
    for prompt in [
        "What is the mean fare?",
        "Describe @df.",
        "Compare @sales and @costs[0].",
        "Is @df['Fare'] normal?",
        "Load data.json and show the first rows.",
        "Write the result to out.json as JSON.",
        "Write a function that returns JSON.",
        "Save the table as JSON.",
        "Parse the JSON in the column payload.",
        "What does this JSON mean?",
        "Convert it to a JSON object and save it as a file.",
        "How do I return JSON from Flask?",
        "Is the answer in the JSON file?",
        "Read config.json.",
        "The API responds with JSON; which fields does it have?",
        "Give me the JSON schema of the settings.",
        "Only JSON files are of interest; how many are there?",
        "Just JSON data are loaded. How many rows?",
        "Load the table and tell me its size.",
        "Which table has the most rows?",
        "Show the table df.",
        "Show the means as a table.",
        "Save the means as a table in results.md.",
        "Join the two tables.",
        "Create a pivot table in a new cell.",
        "Write a function that prints a table.",
        "What is in the table of contents?",
        "How many decimals does the column Price have?",
        "Write a function that rounds to two decimals.",
        "Round the column Fare to two decimals.",
        "Why are there three decimals in column x?",
        "Plot it with two decimals on the axis.",
        "Mail me@work.org about it.",
        "Set the decorator @cache on f.",
        "Explain `@property`.",
        "What does @app.route['/'] do?",
        "Plot the distribution of ages.",
        "Fit a linear regression and interpret it.",
        "Which columns have missing values?",
        "Clean the data.",
        "Find outliers.",
        "Summarise the notebook.",
        "Explain the error.",
        "Rename the columns to snake case.",
        "Merge both files on id.",
        "Count the words in notes.txt.",
        "Draw a histogram.",
        "What is the p-value?",
        "Add a cell that loads the data.",
        "Train a classifier and report its accuracy.",
        "List the variables.",
        "```\nAnswer in JSON.\n```\nWhat does this prompt mean?",
        "Translate the column names.",
        "Sort by date.",
    ]
] + [
    ("Answer in JSON.", OBJECT),
    ("Answer in JSON.", f"Here:\n\n```json\n{OBJECT}\n```\n"),
    ("Answer as a JSON array.", "[1, 2]"),
    ("Answer in JSON.", "Which of the two files do you mean?"),
    ("Answer as a table.", TABLE),
    ("Answer as a table.", "a | b\n--- | ---\n1 | 2"),
    ("Round to two decimals.", "It is 3.14."),
    ("Round to two decimals.", "It is 3.1."),
    ("Round to two decimals.", "It is 3."),
    ("Round to two decimals.", "It is 3.14 (3.14159 before rounding)."),
    ("Round to two decimals.", ""),
    ("Answer in JSON.", "The call was denied, so there is nothing to report."),
]  # fmt: skip


def test_the_lists_are_long_enough() -> None:
    assert len(LACKING) >= 30
    assert len(ORDINARY) >= 60


@pytest.mark.parametrize(("prompt", "answer"), LACKING)
def test_an_answer_without_the_form_asked_for_is_noticed(prompt: str, answer: str) -> None:
    assert find_missing_form(prompt, answer) is not None


@pytest.mark.parametrize(("prompt", "answer"), ORDINARY)
def test_an_ordinary_answer_is_left_alone(prompt: str, answer: str) -> None:
    assert find_missing_form(prompt, answer) is None


def test_the_model_is_asked_once_more_and_the_card_says_so(lab: Lab) -> None:
    run = lab.run(["It is 3.", OBJECT], "Answer in JSON.")
    assert run.output == OBJECT
    assert any("JSON" in note for note in run.notes)
    assert lab.client is not None
    first, second = lab.client.requests
    assert second.messages[: len(first.messages)] == first.messages
    assert "JSON" in second.messages[-1].text


def test_the_model_is_reminded_of_one_form_only_once(lab: Lab) -> None:
    prompt = "Answer in JSON, and make a Markdown table of it."
    run = lab.run(["It is 3.", OBJECT, "Never asked for."], prompt)
    assert run.output == OBJECT
    assert run.outcome == "success"


def test_the_setting_switches_reminders_off(lab: Lab) -> None:
    run = lab.run(["It is 3.", "Never."], "Answer in JSON.", check_form=False)
    assert run.output == "It is 3."
    assert not any("asked once more" in note for note in run.notes)


def test_a_plan_is_no_answer_of_any_form(lab: Lab) -> None:
    run = lab.run(["I need to know more.", "Never."], "Answer in JSON.", plan=True)
    assert len(run.steps) == 1
