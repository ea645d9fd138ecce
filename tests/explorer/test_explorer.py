"""The explorer as a partner in the conversation: steps, ends, and the tables it works on."""

from __future__ import annotations

import copy
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
import polars as pl
import pytest
from explorer_runner import TOOLS, Kernel, offered, reply
from matplotlib import pyplot as plt

from ipyagent.explorer import ExplorerReply
from ipyagent.explorer.lexer import names_of
from ipyagent.explorer.workspace import of_context
from repository import ROOT

PENGUINS = Path(__file__).parents[2] / "notebooks" / "data" / "penguins.csv"
CONTEXT = (
    "<context>\nVariables:\n- t: DataFrame, 3 rows × 2 columns (a: int64, kind: str)\n"
    "Files:\n- data/t.csv (1.0 kB)\n</context>"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    mpl.use("Agg")
    (tmp_path / "data").mkdir()
    shutil.copy(PENGUINS, tmp_path / "data")
    return tmp_path


def asked(prompt: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": f"{prompt}\n{CONTEXT}"}]


def called(said: ExplorerReply, output: str, number: int = 1) -> list[dict[str, Any]]:
    ((name, arguments),) = said.calls
    call = {"id": f"c{number}", "function": {"name": name, "arguments": arguments}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": output},
    ]


def after(prompt: str, output: str, tools: list[str] = TOOLS) -> ExplorerReply:
    """What is said once the first call returned this."""
    messages = asked(prompt)
    return reply(messages + called(reply(messages, offered(*tools)), output), offered(*tools))


def test_it_imports_neither_pandas_nor_litellm() -> None:
    code = (
        "import sys; from ipyagent import explorer; explorer.reply([], []);"
        "print({'pandas', 'polars', 'litellm', 'IPython'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_rule_that_fired_is_its_thinking() -> None:
    said = reply(asked("mean of a"), offered(*TOOLS))
    assert said.thinking == "Rule: mean of a (t)."
    assert said.text == ""
    assert said.calls[0][0] == "run_python"


def test_the_same_conversation_gives_the_same_reply_and_stays_as_it_was() -> None:
    messages = asked("mean of a by kind")
    before = copy.deepcopy(messages)
    assert reply(messages, offered(*TOOLS)) == reply(messages, offered(*TOOLS))
    assert messages == before


def test_prompt_and_context_may_be_parts_of_one_message() -> None:
    parts = [{"type": "text", "text": "mean of a"}, {"type": "text", "text": CONTEXT}]
    assert reply([{"role": "user", "content": parts}], offered(*TOOLS)).calls


def test_only_the_newest_prompt_counts() -> None:
    old = asked("mean of a")
    done = old + called(reply(old, offered(*TOOLS)), "figures 3 2.0\n")
    done.append({"role": "assistant", "content": "The mean of `a` is 2."})
    said = reply([*done, *asked("median of a")], offered(*TOOLS))
    assert "median()" in said.calls[0][1]["code"]


def test_an_empty_conversation_gets_help() -> None:
    assert "not a language model" in reply([], []).text


def test_without_a_context_it_looks_for_itself(root: Path) -> None:
    kernel = Kernel(root, penguins=pd.read_csv(PENGUINS))
    answer = kernel.ask("mean body mass", context=False)
    assert "**4201.75**" in answer.text
    assert [tool for tool, _ in kernel.calls] == ["list_variables", "run_python"]


def test_without_a_context_it_looks_for_files_to_load(root: Path) -> None:
    kernel = Kernel(root)
    assert "344 rows, 8 columns" in kernel.ask("Load penguins", context=False).text
    assert [tool for tool, _ in kernel.calls] == ["list_variables", "list_files", "run_python"]


@pytest.mark.parametrize("output", ["Error: KeyError: 'a'", "Error: Traceback\nValueError: no"])
def test_an_error_ends_it_with_what_went_wrong(output: str) -> None:
    said = after("mean of a", output)
    assert said.calls == ()
    assert "`run_python` failed, so I stopped" in said.text
    assert output.removeprefix("Error: ") in said.text


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("Error: The user denied this call of run_python; it was not run.", ""),
        (
            "Error: The user denied this call of run_python; it was not run. "
            "Do not repeat it; ask or find another way.",
            "",
        ),
        (
            "Error: The user denied this call of run_python; it was not run. Their reason: "
            "only the top one. Do not repeat it; ask or find another way.",
            "only the top one.",
        ),
        (
            "Error: run_python was not run: nobody can be asked; use --confirm yolo",
            "nobody can be asked; use --confirm yolo",
        ),
    ],
)
def test_a_denial_ends_it_and_gives_the_reason_but_no_words_for_a_model(
    output: str, reason: str
) -> None:
    said = after("mean of a", output)
    assert said.calls == ()
    assert "was not approved" in said.text
    assert reason in said.text
    assert not re.search("The person|Do not repeat|ask or find", said.text)
    assert said.text.endswith("it was not run." if not reason else "```")


def test_a_denied_look_ends_it_too() -> None:
    said = after("mean of a for red", "Error: The user denied this call of run_python")
    assert said.calls == ()
    assert "was not approved" in said.text


def test_a_missing_library_is_named_with_how_to_get_it() -> None:
    said = after("mean of a", "Error: ModuleNotFoundError: No module named 'scipy'")
    assert "`%pip install scipy`" in said.text
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for requirement in project["optional-dependencies"]["data"]:
        name = requirement.partition(">")[0]
        said = after("mean of a", f"Error: ModuleNotFoundError: No module named '{name}.x'")
        assert "`%pip install 'ipyagent[data]'`" in said.text


@pytest.mark.parametrize("output", ["", "(no output)", "statistic,b\nmean,2\n", "dry run: not run"])
def test_nothing_is_concluded_from_output_that_it_cannot_read(output: str) -> None:
    said = after("mean of a", output)
    assert said.calls == ()
    assert "**2**" not in said.text


def test_output_is_found_between_warnings_and_image_notes() -> None:
    output = "FutureWarning: x\nfigures 3 2.5\n\n[image 7×4 not shown]"
    assert "**2.5** (3 values" in after("mean of a", output).text


def test_a_tool_that_is_not_on_offer_is_named() -> None:
    said = reply(asked("mean of a"), offered("list_files"))
    assert said.calls == ()
    assert "I would need `run_python`" in said.text


def test_it_stops_after_six_calls_whatever_comes_back() -> None:
    messages = asked("mean of a")
    said = reply(messages, offered(*TOOLS))
    for number in range(6):
        messages += called(said, "figures 3 2.0\n", number)
    assert reply(messages, offered(*TOOLS)).calls == ()


def test_it_ends_for_every_sequence_of_useless_outputs() -> None:
    context = CONTEXT.replace("(a: int64, kind: str)", "(a: int64, … 1 more)")
    messages = [{"role": "user", "content": f"mean of a for red\n{context}"}]
    for number in range(8):
        said = reply(messages, offered(*TOOLS))
        if not said.calls:
            return
        messages += called(said, "t: DataFrame, 3 rows", number)
    raise AssertionError("it goes on")


def test_a_call_that_it_did_not_make_is_not_taken_for_an_answer() -> None:
    strange = ExplorerReply("", "", (("run_python", {"code": "print('statistic,a')"}),))
    messages = asked("mean of a") + called(strange, "figures 3 9.0\n")
    said = reply(messages, offered(*TOOLS))
    assert "9" not in said.text


def test_columns_that_the_context_leaves_out_are_looked_up_first(root: Path) -> None:
    wide = pd.DataFrame({f"m{i}": [i, i + 2] for i in range(40)} | {"Last One (kg)": [1.0, 4.0]})
    kernel = Kernel(root, wide=wide)
    assert "**2.5**" in kernel.ask("mean last one").text
    assert kernel.calls[0][0] == "inspect_variable"


def test_names_with_quotes_commas_and_colons_are_understood(root: Path) -> None:
    names = ["a, b: int64", "it's", 'say "x"', "back\\slash", "per cent (%)"]
    kernel = Kernel(root, odd=pd.DataFrame({name: [1.0, 2.0, 6.0] for name in names}))
    assert "**3**" in kernel.ask("mean per cent").text
    assert "**3**" in kernel.ask("mean of `back\\slash`").text
    assert "5 columns" in kernel.ask("profile odd").text


def test_a_table_that_is_not_loaded_is_loaded_first(root: Path) -> None:
    kernel = Kernel(root)
    assert "| Gentoo | 5076.02 | 123 |" in kernel.ask("mean body mass by species").text
    assert kernel.code[0].startswith("import pandas as pd\n\npenguins = pd.read_csv(")
    assert len(kernel.namespace["penguins"]) == 344


def test_nothing_is_loaded_for_a_prompt_that_is_declined_anyway(root: Path) -> None:
    kernel = Kernel(root)
    kernel.ask("why did revenue drop")
    assert kernel.calls == []


def test_loading_again_overwrites_only_when_told_so(root: Path) -> None:
    mine = pd.DataFrame({"mine": [1]})
    kernel = Kernel(root, penguins=mine)
    assert "already" in kernel.ask("Load data/penguins.csv").text
    assert kernel.namespace["penguins"] is mine
    assert "no duplicate rows" in kernel.ask("Profile data/penguins.csv").text
    assert kernel.namespace["penguins"] is mine
    assert len(kernel.namespace["penguins_2"]) == 344
    kernel.ask("Load data/penguins.csv as penguins")
    assert len(kernel.namespace["penguins"]) == 344


def test_a_variable_that_is_no_table_is_never_overwritten_by_loading(root: Path) -> None:
    kernel = Kernel(root, penguins="mine")
    kernel.ask("Load data/penguins.csv")
    assert kernel.namespace["penguins"] == "mine"
    assert len(kernel.namespace["penguins_2"]) == 344


def test_a_name_that_would_hide_something_is_refused(root: Path) -> None:
    kernel = Kernel(root)
    for name in ("print", "pd", "class", "_x", "2x", "ä"):
        kernel.ask(f"Load data/penguins.csv as {name}")
        assert kernel.calls == [], name


@pytest.mark.parametrize(
    ("ending", "write"),
    [("tsv", "to_csv"), ("json", "to_json"), ("jsonl", "to_json")],
)
def test_other_formats_are_loaded_as_what_they_are(root: Path, ending: str, write: str) -> None:
    options = {"tsv": {"sep": "\t", "index": False}, "jsonl": {"orient": "records", "lines": True}}
    table = pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]})
    getattr(table, write)(root / f"t.{ending}", **options.get(ending, {}))
    assert "3 rows, 2 columns" in Kernel(root).ask(f"load t.{ending}").text


def test_with_several_tables_it_asks_which_one(root: Path) -> None:
    table = pd.read_csv(PENGUINS)
    kernel = Kernel(root, one=table, two=table)
    assert "`two` and `one`: please name the table" in kernel.ask("mean body mass").text
    assert "**4201.75** (342 values in `two`)" in kernel.ask("mean body mass in two").text


def test_the_only_table_with_such_columns_is_taken(root: Path) -> None:
    kernel = Kernel(root, penguins=pd.read_csv(PENGUINS), sales=pd.DataFrame({"revenue": [1, 2]}))
    assert "**1.5** (2 values in `sales`)" in kernel.ask("mean revenue").text


def test_a_name_that_fits_two_columns_is_not_guessed(root: Path) -> None:
    kernel = Kernel(root, t=pd.DataFrame({"mass_kg": [1.0, 2.0], "mass_g": [3.0, 4.0]}))
    assert kernel.ask("mean mass").thinking.startswith("Rule: declined")
    assert "**1.5**" in kernel.ask("mean mass_kg").text


def test_a_column_named_like_a_word_is_read_as_what_makes_sense(root: Path) -> None:
    kernel = Kernel(root, t=pd.DataFrame({"count": [1, 2, 6], "size": [3, 3, 3], "a": [5, 6, 7]}))
    assert "**3**" in kernel.ask("mean count").text
    assert "**3**" in kernel.ask("mean of `size`").text
    assert "**6**" in kernel.ask("mean of a").text
    assert "**3 rows**" in kernel.ask("how many rows").text


def sales() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "order date": pd.to_datetime(["2024-01-03", "2024-01-20", "2024-02-11", "2024-04-01"]),
            "Region": ["North", "South", "North", "East"],
            "Revenue (USD)": [10.5, 20.0, None, 7.25],
            "paid": [True, False, True, True],
        }
    )


OF_SALES = [
    ("date range", ["2024-01-03", "2024-04-01"]),
    ("total revenue by month", ["| 2024-01 | 30.50 | 2 |", "| 2024-04 | 7.25 | 1 |"]),
    ("monthly mean revenue", ["| 2024-01 | 15.25 | 2 |"]),
    ("total revenue per quarter", ["| 2024Q1 | 30.50 | 2 |"]),
    ("rows per month", ["| 2024-01 | 2 |", "| 2024-02 | 1 |"]),
    ("sum of revenue by region", ["| South | 20.00 | 1 |"]),
    ("mean revenue where paid is true", ["**8.875** (2 values"]),
    ("mean revenue where paid is false", ["**20** (1 values"]),
    ("how many sales where order date after 2024-02-01", ["**2** of 4 rows"]),
    ("mean revenue where order date between 2024-01-01 and 2024-01-31", ["**15.25**"]),
    ("how many sales after 2024-02-01", ["**2** of 4 rows"]),
    ("mean revenue since 2024-01-20", ["**13.62** (2 values"]),
    ("sales per month", ["| 2024-01 | 2 |"]),
    ("plot total revenue by month", ["| 2024-01 | 30.50 |", "| 2024-02 | 0.00 |"]),
    ("revenue by month", ["| 2024-01 | 30.50 | 15.25 | 15.25 | 2 |"]),
    ("plot revenue over order date", ["4 rows"]),
]


def test_dates_and_truth_values_are_understood(root: Path) -> None:
    found = {}
    for prompt, expected in OF_SALES:
        text = Kernel(root, sales=sales()).ask(prompt).text
        plt.close("all")
        if any(part not in text for part in expected):
            found[prompt] = text
    assert found == {}


def test_dates_that_are_text_are_converted(root: Path) -> None:
    table = pd.DataFrame({"date": ["2024-01-03", "2024-02-20", "2024-02-21"], "x": [1, 2, 4]})
    assert "| 2024-02 | 6 | 2 |" in Kernel(root, t=table).ask("total x by month").text


def test_two_tables_are_compared(root: Path) -> None:
    table = pd.read_csv(PENGUINS)
    kernel = Kernel(root, old=table.head(100), new=table.iloc[20:130].assign(extra=1))
    text = kernel.ask("compare old and new").text
    assert "| rows | 100 | 110 |" in text
    assert "- Only in `new`: `extra`" in text
    assert "80 in both, 20 only in `old`, 30 only in `new`" in text


def test_two_tables_are_compared_by_a_key(root: Path) -> None:
    one = pd.DataFrame({"id": [1, 2, 3], "price": [1.0, 2.0, None], "name": ["a", "b", "c"]})
    two = pd.DataFrame({"id": [2, 3, 4], "price": [2.5, None, 3.0], "name": ["b", "c", "d"]})
    text = Kernel(root, one=one, two=two).ask("compare one and two by id").text
    assert "share 2 values of `id`" in text
    assert "| `price` | 1 |" in text
    assert "| `name` | 0 |" in text


POLARS = [
    ("profile penguins", "`sex` (11, 3.2 %)", "| 2700 | 4050 | 6300 | 0 |"),
    ("missing values", "19 missing values"),
    ("which rows have missing data", "11 of 344 rows"),
    ("any duplicates?", "No duplicate rows"),
    ("outliers in body mass", "| `body_mass_g` | 0 | 0 | 1750 | 6550 |"),
    ("mean body mass", "**4201.75**"),
    ("mean body mass rounded to 1 decimal", "**4201.8**"),
    ("skewness of body mass", "**0.4703**"),
    ("quartiles of body mass", "3550", "4750"),
    ("0.25 quantile of bill length", "**39.23**"),
    ("most common species", "**Adelie** (152 times"),
    ("mean body mass for female Gentoo penguins", "**4679.74** (58 values"),
    ("average body mass by species and sex", "| Gentoo | male | 5484.84 | 61 |"),
    ("Which species has the highest mean body mass?", "**Gentoo** has the highest"),
    ("count by species", "| Adelie | 152 | 44.2 % |"),
    ("how many Adelie penguins are on Torgersen?", "**52** of 344 rows"),
    ("top 3 penguins by body mass", "6300", "6050"),
    ("spearman correlation of bill length and bill depth", "**-0.222**"),
    ("compare body mass between male and female", "683.41"),
    ("add a column r = bill_length_mm / bill_depth_mm", "2.606"),
    ("show the first 3 rows", "first 3 rows", "39.1"),
    ("Plot `body_mass_g` by `species`", "| Gentoo | 123 | 5000 |"),
    ("plot mean body mass by species", "| Gentoo | 5076.02 |"),
    ("scatter plot of bill length and bill depth coloured by species", "342 points", "-0.24"),
    ("histogram of body mass", "342 values"),
]


def test_polars_tables_give_the_same_numbers(root: Path) -> None:
    found = {}
    for prompt, *expected in POLARS:
        kernel = Kernel(root, penguins=pl.read_csv(PENGUINS, null_values="NA"))
        text = kernel.ask(prompt).text
        plt.close("all")
        left = set(kernel.namespace) - {"penguins", "pd", "pl", "plt", "stats", "__builtins__"}
        is_polars = isinstance(kernel.namespace["penguins"], pl.DataFrame)
        if any(part not in text for part in expected) or left or not is_polars:
            found[prompt] = (text, left)
    assert found == {}


CHANGES = [
    "fill sex with 'unknown'",
    "drop duplicates",
    "drop column sex",
    "keep only sex and year",
]


def test_what_polars_lacks_is_declined_with_the_reason(root: Path) -> None:
    kernel = Kernel(root, penguins=pl.read_csv(PENGUINS, null_values="NA"))
    for prompt in CHANGES:
        assert "for pandas tables only" in kernel.ask(prompt).text, prompt
    assert kernel.code == []


def test_the_names_of_a_prompt_are_put_together_once() -> None:
    workspace = of_context("Variables:\n- t: DataFrame, 3 rows × 1 columns (a: int64)\n")
    assert names_of(workspace, workspace.tables["t"]) is names_of(workspace, workspace.tables["t"])


def test_two_tables_without_a_common_column_are_not_compared(root: Path) -> None:
    kernel = Kernel(root, one=pd.DataFrame({"a": [1]}), two=pd.DataFrame({"b": [1]}))
    assert "a column of the same type in common" in kernel.ask("compare one and two").text
    assert "By which column?" in kernel.ask("join one and two").text


def test_columns_whose_types_differ_are_named(root: Path) -> None:
    one, two = ({"id": [1], "price": [each]} for each in (1.5, "1.5"))
    kernel = Kernel(root, one=pd.DataFrame(one), two=pd.DataFrame(two))
    assert "- Of different types: `price`" in kernel.ask("compare one and two").text


@pytest.mark.parametrize("dtype", [pl.Float64(), pl.Decimal(10, 2)])
def test_decimal_numbers_form_no_groups(root: Path, dtype: pl.DataType) -> None:
    sales = pl.DataFrame({"price": [1.5, 2.5], "amount": [1, 2]}, schema_overrides={"price": dtype})
    assert "form no groups" in Kernel(root, sales=sales).ask("mean amount by price").text


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("mean culmen length by species", "48.83"),
        ("mean Culmen Length (mm)", "**43.92**"),
        ("mean body mass where sex is MALE", "**4545.68**"),
        ("rows by month", "| 2007-11 | 104 |"),
        ("date range", "2007-11-09"),
    ],
)
def test_columns_with_blanks_and_units_are_found(root: Path, prompt: str, expected: str) -> None:
    table = pd.read_csv(PENGUINS).rename(
        columns={"bill_length_mm": "Culmen Length (mm)", "body_mass_g": "Body Mass (g)"}
    )
    table = table.rename(columns=str.title).rename(
        columns={"Culmen Length (Mm)": "Culmen Length (mm)"}
    )
    table["Sex"] = table["Sex"].str.upper()
    table["Date Egg"] = ["2007-11-09"] * 104 + ["2008-11-10"] * 240
    assert expected in Kernel(root, raw=table).ask(prompt).text


def test_a_condition_that_no_row_meets_is_said_plainly(root: Path) -> None:
    kernel = Kernel(root, penguins=pd.read_csv(PENGUINS))
    assert "no values" in kernel.ask("mean body mass where body mass > 9000").text
    assert "**0** of 344 rows" in kernel.ask("how many penguins with body mass over 9000").text


def test_values_of_data_cannot_write_markdown(root: Path) -> None:
    table = pd.DataFrame({"k": ["![x](http://e.org/x)", "a|b", "<b>"], "v": [1, 2, 3]})
    text = Kernel(root, t=table).ask("mean v by k").text
    assert "![x]" not in text
    assert "<b>" not in text.replace("\\<b\\>", "")
    assert "a\\|b" in text
