"""`pytest --agent-notebooks`: the agent cells of notebooks as tests.

A notebook runs in a kernel of its own, its cells in order; each agent cell that has an expectation
or a saved run is a test. Saved runs are repeated, and no model is asked. With `--agent-live` models
are asked instead, several times each, and a table has their pass rates.

This file imports only pytest and the standard library before a notebook is run.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shlex
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ipyagent.json_types import JsonDict
    from ipyagent.schema import Run

_AGENT_CELL = re.compile(r"%%agent(?!\S)")
_EXPECTS = re.compile(r"--expect(?![\w-])")
_RUN_MIME = "application/vnd.ipyagent.run+json"
_MODEL, _CELL, _PASSED, _RUNS = "agent_model", "agent_cell", "agent_passed", "agent_runs"
_ALL = "all cells"
_OLD = "{0} has an old format: run `jupyter nbconvert --to notebook --nbformat 4 --inplace {0}`"
_LABEL = 50
"""Characters of a prompt in the name of its test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("ipyagent", "agent cells of notebooks")
    about = "run notebooks; agent cells with an expectation or a saved run are tests"
    group.addoption("--agent-notebooks", action="store_true", help=about)
    about = "ask MODEL instead of repeating saved runs; may be given several times"
    group.addoption("--agent-live", action="append", default=[], metavar="MODEL", help=about)
    about = "with --agent-live: run each notebook N times with each model"
    group.addoption("--agent-runs", type=int, default=1, metavar="N", help=about)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> NotebookFile | None:
    """Collect notebooks, if that is asked for."""
    options = parent.config.option
    if file_path.suffix != ".ipynb" or not (options.agent_notebooks or options.agent_live):
        return None
    return NotebookFile.from_parent(parent, path=file_path)


class NotebookFile(pytest.File):
    """A notebook with its trials: one that repeats its runs, or N with each model."""

    def collect(self) -> Iterator[AgentCell]:
        """Yield its agent cells, model by model."""
        self.trials: list[Trial] = []
        try:
            text = self.path.read_text(encoding="utf-8")
            cells = json.loads(text).get("cells", [])
            titles = {n: _name_test(n, cell) for n, cell in enumerate(cells)}
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise self.CollectError(f"{self.path.name} is not a notebook: {error!r}") from None
        if not cells and "%%agent" in text:
            raise self.CollectError(_OLD.format(shlex.quote(self.path.name)))
        for model in self.config.option.agent_live or [""]:
            count = max(1, self.config.option.agent_runs) if model else 1
            trials = [Trial(self.path, model) for _ in range(count)]
            self.trials += trials
            for index, title in titles.items():
                if title:
                    name = f"{title} [{model}]" if model else title
                    test = AgentCell.from_parent(self, name=name)
                    test.title, test.index, test.trials = title, index, trials
                    yield test

    def teardown(self) -> None:
        """End the kernels."""
        for each in self.trials:
            each.close()


def _name_test(index: int, cell: JsonDict) -> str:
    """Return the name of the test that a cell is; "" for none."""
    source = "".join(cell["source"])
    if cell["cell_type"] != "code" or not _AGENT_CELL.match(source):
        return ""
    words, prompt = _split(source)
    lines = prompt.strip().splitlines()
    is_recorded = any(_RUN_MIME in each.get("data", ()) for each in cell["outputs"])
    if not is_recorded and not any(map(_EXPECTS.match, (*words, *lines))):
        return ""
    label = next((each for each in lines if not _EXPECTS.match(each)), "")
    return f"cell {index + 1} {label[:_LABEL]}".rstrip()


def _split(source: str) -> tuple[list[str], str]:
    """Return the words of an agent cell's options, and what follows them."""
    from ipyagent.errors import ConfigError
    from ipyagent.magic.options import split_prompt

    line, end, text = source.removeprefix("%%agent").partition("\n")
    words, prompt = list[str](), line
    with contextlib.suppress(ConfigError, ValueError):  # the cell reports it
        words, prompt = split_prompt(line)
    return words, f"{prompt}{end}{text}"


class AgentCell(pytest.Item):
    """An agent cell as a test."""

    title: str
    index: int
    trials: list[Trial]

    def runtest(self) -> None:
        """Run the notebook up to this cell; with a model the whole notebook, N times."""
        outcomes = [each.outcome_of(self.index) for each in self.trials]
        failed = {n: each.problems for n, each in enumerate(outcomes, 1) if each.problems}
        lines = [text for problems in failed.values() for text in problems]
        if self.trials[0].model:
            passed, runs = len(outcomes) - len(failed), [each.run for each in outcomes if each.run]
            self._record(passed, len(outcomes), runs)
            lines = [f"run {n}: {text}" for n, problems in failed.items() for text in problems]
            lines.insert(0, f"{_describe_rate(passed, len(outcomes))} of the runs passed")
        if failed:
            pytest.fail("\n".join(lines), pytrace=False)

    def _record(self, passed: int, count: int, runs: list[Run]) -> None:
        """Add what the reports need: JUnit XML has it as properties of the test."""
        low, high = wilson_interval(passed, count)
        costs = [run.cost_usd for run in runs if run.cost_usd is not None]
        properties = {
            _MODEL: self.trials[0].model,
            _CELL: f"{self.path.name}: {self.title}",
            _PASSED: passed,
            _RUNS: count,
            "agent_pass_rate": round(passed / count, 4),
            "agent_pass_rate_low": round(low, 4),
            "agent_pass_rate_high": round(high, 4),
            "agent_tokens": sum(run.usage.total_tokens for run in runs),
            "agent_cost_usd": round(sum(costs), 6) if costs else "unknown",
        }
        self.user_properties += properties.items()

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return where the test is."""
        return self.path, None, f"{self.path.name}, {self.name}"


@dataclass
class Outcome:
    """An agent cell's run, if one began, and what is wrong."""

    problems: list[str]
    run: Run | None = None


class Trial:
    """A notebook that runs once in a fresh kernel: with a model, or repeating its saved runs."""

    def __init__(self, path: Path, model: str) -> None:
        self.path, self.model = path, model
        self._outcomes: dict[int, Outcome] = {}
        self._steps = self._execute()
        self._problem = "the notebook did not run as far as this cell"

    def outcome_of(self, index: int) -> Outcome:
        """Return a cell's outcome: cells before it run first, with a model also those behind."""
        while self.model or index not in self._outcomes:
            if (step := next(self._steps, None)) is None:
                break
            self._outcomes[step[0]] = step[1]
        return self._outcomes.get(index) or Outcome([self._problem])

    def close(self) -> None:
        """End the kernel."""
        self._steps.close()

    def _execute(self) -> Generator[tuple[int, Outcome], None, None]:
        """Run the cells in order; yield the agent cells with their outcomes."""
        import nbformat
        from nbclient import NotebookClient
        from nbclient.exceptions import CellExecutionError, DeadKernelError

        notebook = nbformat.read(self.path, as_version=4)
        resources = {"metadata": {"path": str(self.path.parent)}}
        client = NotebookClient(notebook, kernel_name="python3", resources=resources)
        with client.setup_kernel(env=self._environment()):
            for index, cell in enumerate(notebook.cells):
                is_agent = cell.cell_type == "code" and _AGENT_CELL.match(cell.source)
                if is_agent:
                    cell.source = self._change_options(cell.source)
                problem = "the cell has shown no run"
                try:
                    client.execute_cell(cell, index)
                except CellExecutionError as error:
                    problem = f"{error.ename}: {error.evalue}"
                    if not is_agent:
                        self._problem = f"cell {index + 1} failed: {problem}"
                        return
                except DeadKernelError:
                    self._problem = f"cell {index + 1} ended the kernel"
                    return
                if is_agent:
                    yield index, _read_outcome(cell, problem)

    def _environment(self) -> dict[str, str]:
        """Return the environment of the kernel: what the notebook itself holds is all there is."""
        own = {"IPYAGENT_LLM__MODEL": self.model} if self.model else {}
        return {
            **os.environ,
            **own,
            "JPY_SESSION_NAME": str(self.path),
            "IPYAGENT_CHAT__PERSIST": "false",
            "IPYAGENT_AGENT__REPLAY": "never" if self.model else "always",
            "IPYAGENT_AGENT__ON_DIFFERENCE": "stop",
        }

    def _change_options(self, source: str) -> str:
        """Return an agent cell that asks the model, or only repeats its run; and shows the run."""
        words, prompt = _split(source)
        words = [each for each in words if each != "--json"]
        words += ["--fresh", "-m", self.model] if self.model else ["--replay"]
        return f"%%agent {shlex.join(words)} {prompt}"


def _read_outcome(cell: JsonDict, problem: str) -> Outcome:
    """Return the outcome of an agent cell that was run."""
    from ipyagent.schema import Outcome as RunOutcome, Run

    bundles = [each.get("data", {}) for each in cell["outputs"]]
    runs = [Run.model_validate(each[_RUN_MIME]) for each in bundles if _RUN_MIME in each]
    if not runs:
        return Outcome([problem])
    run = runs[-1]
    is_done = run.outcome is RunOutcome.SUCCESS
    problems = [] if is_done else [run.error or f"the run is {run.outcome}: {run.stop_reason}"]
    return Outcome([*problems, *map(str, run.unmet)], run)


def wilson_interval(passed: int, runs: int, z: float = 1.96) -> tuple[float, float]:
    """Return between which rates the true one is, with 95 % confidence (Wilson's score)."""
    share, spread = passed / runs, z * z / runs
    middle = share + spread / 2
    reach = z * math.sqrt(share * (1 - share) / runs + spread / (4 * runs))
    return max(0.0, (middle - reach) / (1 + spread)), min(1.0, (middle + reach) / (1 + spread))


def _describe_rate(passed: int, runs: int) -> str:
    low, high = wilson_interval(passed, runs)
    return f"{passed}/{runs} = {passed / runs:.0%} ({low:.0%} to {high:.0%})"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the pass rates of the models side by side."""
    reports = [each for kind in ("passed", "failed") for each in terminalreporter.getreports(kind)]
    found = [
        each for each in (dict(report.user_properties) for report in reports) if _MODEL in each
    ]
    if not found:
        return
    cells, models = ([*dict.fromkeys(each[key] for each in found)] for key in (_CELL, _MODEL))
    rows = [["", *models]]
    for cell in (*cells, _ALL):
        rows.append([cell])
        for model in models:
            own = [e for e in found if e[_MODEL] == model and cell in (e[_CELL], _ALL)]
            sums = sum(each[_PASSED] for each in own), sum(each[_RUNS] for each in own)
            rows[-1].append(_describe_rate(*sums) if own else "")
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    terminalreporter.section("agent cells: runs passed, 95 % interval (Wilson)")
    for row in rows:
        padded = map(str.ljust, row, widths)
        terminalreporter.write_line("  ".join(padded).rstrip())
