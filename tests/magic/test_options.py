"""The first line of an agent cell: options, and text that belongs to the prompt."""

from __future__ import annotations

from pathlib import Path

import pytest

from ipyagent.errors import ConfigError
from ipyagent.magic.options import parse, split_expectations

PROMPTS = [
    "How many rows has x?",
    "What's the mean?",
    "Compare 'a' with \"b",
    "Plot {x} and {{y}}, not $HOME or $x",
    "Which # of rows is C:\\new\\table\\",
    "Is df.sort(-1) - or -5 - right -- and --?",
    "two   blanks",
    "@x and @data/y.csv",
    "explain it",
    "x = 3; y",
    "Why does -x fail?",
    "",
]

OPTIONS = {
    "": {},
    "--plan": {"plan": True},
    "-m offline/explorer": {"model": "offline/explorer"},
    "--model=offline/explorer --dry-run": {"model": "offline/explorer", "dry_run": True},
    "-s 'my session' -o kept": {"session": "my session", "out": "kept"},
    "-vv": {},
}


@pytest.mark.spec("H30")
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("prompt", PROMPTS)
def test_the_text_behind_the_options_is_the_prompt_as_it_is_written(
    options: str, prompt: str
) -> None:
    parsed = parse(f"{options} {prompt}  ", Path())
    expected = dict(OPTIONS[options])
    model = expected.pop("model", None)
    assert parsed.prompt == prompt
    assert {name: getattr(parsed, name) for name in expected} == expected
    assert parsed.layers[-1].values.get("llm", {}).get("model") == model


def test_long_options_may_also_end_the_line() -> None:
    parsed = parse("How many rows has x? --dry-run --session c9", Path())
    assert (parsed.prompt, parsed.dry_run, parsed.session) == ("How many rows has x?", True, "c9")
    assert parse("reviewer -s c9 --plan", Path()).prompt == "reviewer"


UNCLEAR = {
    "--modle x How many rows?": "unrecognized arguments: --modle",
    "How many rows? --modle x": "--modle is in the prompt",
    "How many rows? --dryrun": "unrecognized arguments: --dryrun",
    "What does --dry-run do?": "--dry-run is in the prompt",
    "How do I run python -m venv": "-m is in the prompt",
    "-m": "expected one argument",
    "-s 'open": "No closing quotation",
    "-": "unrecognized arguments: -",
}


@pytest.mark.parametrize("line", UNCLEAR)
def test_options_are_not_taken_for_the_prompt_nor_words_of_it_for_options(line: str) -> None:
    with pytest.raises(ConfigError, match=UNCLEAR[line]):
        parse(line, Path())


PROFILES = ["explain", "reviewer"]


@pytest.mark.spec("A50")
@pytest.mark.parametrize(
    ("line", "agent", "prompt"),
    [
        ("reviewer", "reviewer", ""),
        ("@reviewer", "reviewer", ""),
        ("--plan @reviewer", "reviewer", ""),
        ("-a reviewer", "reviewer", ""),
        ("reviewer --plan", "reviewer", ""),
        ("reviewr", "reviewr", ""),
        ("-a explain reviewer", "explain", "reviewer"),
        ("Hello", None, "Hello"),
        ("@penguins", None, "@penguins"),
    ],
)
def test_a_single_word_may_choose_a_profile(line: str, agent: str | None, prompt: str) -> None:
    options = parse(line, Path()).name_profile(PROFILES)
    assert (options.agent, options.prompt) == (agent, prompt)


@pytest.mark.spec("H27")
def test_expectations_are_options_and_lines_of_their_own() -> None:
    line = "--expect \"'north' in answer\" -m x/y Which region? --expect near(3)"
    parsed = parse(line, Path())
    assert (parsed.expected, parsed.prompt) == (("'north' in answer", "near(3)"), "Which region?")
    text = "Which region\n--expect near(3, 0.1)\n  --expect is a word\n--expect 'a' in answer \n"
    expected = ["near(3, 0.1)", "'a' in answer"]
    assert split_expectations(text) == ("Which region\n  --expect is a word\n", expected)
