"""`Agent`, as scripts use it."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

import ipyagent
from ipyagent import Agent, BaseTool, Run, Scripted, Session, tool
from ipyagent.errors import AgentNotFoundError, ConfigError, RunFailedError, SessionError
from ipyagent.schema import Message, TokenUsage


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(session: Session) -> list[str]:
    return [m.text for m in session.conversation.messages if not m.synthetic]


@pytest.mark.spec("N24", "P10")
def test_a_conversation_is_saved_loaded_and_gone_on_with(tmp_path: Path) -> None:
    first = Agent(Scripted(["One."]))
    first.ask("A.")
    first.save(tmp_path / "kept.json")
    second = Agent(Scripted(["Two."]))
    second.load(tmp_path / "kept.json")
    second.ask("B.")
    assert said(second.session) == ["A.", "One.", "B.", "Two."]
    assert said(first.session) == ["A.", "One."]
    third = Agent(Scripted(["Three."]), session=Session.load(tmp_path / "kept.json"))
    third.ask("C.")
    assert said(third.session) == ["A.", "One.", "C.", "Three."]
    with pytest.raises(SessionError, match=r"missing\.json"):
        second.load("missing.json")


@pytest.mark.spec("P10", "H23")
def test_agents_have_conversations_of_their_own_unless_they_name_one() -> None:
    for number in (1, 2):
        agent = Agent(Scripted([f"Answer {number}."]), session="shared")
        agent.ask(f"Question {number}.")
    assert said(agent.session) == ["Question 1.", "Answer 1.", "Question 2.", "Answer 2."]
    assert said(Agent(Scripted([])).session) == []


def test_a_replay_goes_on_with_the_model_from_a_difference_if_that_is_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    look = {"calls": [{"name": "read_file", "arguments": {"path": "n.txt"}}]}
    script = tmp_path / "model.yaml"
    (tmp_path / "n.txt").write_text("1")
    script.write_text(json.dumps([look, "It is 1."]))
    run = Agent("scripted/model.yaml").ask("Which?")
    assert run.replay().output == "It is 1."
    assert capsys.readouterr().out == ""
    (tmp_path / "n.txt").write_text("2")
    script.write_text(json.dumps(["It is 2."]))
    assert "gave another result" in (run.replay().error or "")
    live = Agent("scripted/model.yaml", on_difference="live")
    assert live.replay(run).output == "It is 2."


def test_a_replay_uses_the_tools_and_settings_of_the_runs_own_agent() -> None:
    ran = list[str]()

    @tool
    def measure(part: str) -> str:
        """Measure a part."""
        ran.append(part)
        return f"{part}: {len(ran)} mm"

    measured = {"calls": [{"name": "measure", "arguments": {"part": "lid"}}]}
    model = Scripted([measured, "It is 1 mm.", "It has grown."])
    agent = Agent(model, tools=[measure], persist=False, on_difference="live")
    run = agent.ask("How long is it?")
    other = Agent(Scripted(["One."]), persist=False)
    other.ask("A.")
    assert run.replay().output == "It has grown."
    assert ran == ["lid", "lid"]
    refused = other.replay(run)
    assert refused.stop_reason == "differs"
    assert "agent.replay(run)" in (refused.error or "")
    ran.clear()
    assert agent.replay(Run.from_dict(run.to_dict())).output == "It is 1 mm."


@pytest.mark.spec("P10")
def test_without_persistence_nothing_is_written(tmp_path: Path) -> None:
    run = Agent(Scripted(["One."]), persist=False).ask("A.")
    assert run.output == "One."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("H07", "H08", "H24")
@pytest.mark.parametrize(
    ("prompt", "why"), [("  ", "empty"), ("x" * 10_001, "10,001 characters"), ("WHY?", "shout")]
)
async def test_a_refused_prompt_is_a_failed_run(prompt: str, why: str) -> None:
    def no_shouting(prompt: str) -> None:
        if prompt.isupper():
            raise ValueError("Please do not shout.")

    model = Scripted(["Fine."])
    agent = Agent(model)
    agent.validators.append(no_shouting)
    for run in (agent.ask(prompt), await agent.aask(prompt)):
        assert (run.outcome, run.status) == ("failed", "error")
        assert why in str(run.error)
        assert run.to_output_dict()["duration_seconds"] == 0
        with pytest.raises(RunFailedError, match=why):
            run.raise_for_outcome()
    assert ipyagent.last is run
    assert model.requests == []
    assert agent.session.runs == []
    answered = agent.ask("Why?")
    answered.raise_for_outcome()
    assert answered.output == "Fine."


def test_a_session_that_has_ended_gives_failed_runs() -> None:
    agent = Agent(Scripted(["Never asked."]))
    agent.session.end()
    assert "has ended" in str(agent.ask("Go.").error)


@pytest.mark.spec("A40", "M15")
def test_the_summary_of_a_run_has_the_total_of_its_tokens() -> None:
    usage = {"prompt_tokens": 30, "completion_tokens": 4}
    run = Agent(Scripted([{"text": "Fine.", "usage": usage}])).ask("Why?")
    assert run.to_output_dict()["usage"]["total_tokens"] == 34
    counts = run.usage.to_dict()
    assert counts["total_tokens"] == 34
    assert TokenUsage.from_dict(counts) == run.usage


@pytest.mark.spec("A01", "A50")
def test_what_is_no_setting_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match=r"did you mean agent\.max_steps"):
        Agent(Scripted([]), max_step=3)
    with pytest.raises(AgentNotFoundError, match="nobody"):
        Agent(Scripted([]), profile="nobody")


@pytest.mark.spec("M19")
def test_a_tool_can_be_an_object(tmp_path: Path) -> None:
    class Double(BaseTool):
        name = "double"
        description = "Double a number."

        async def execute(self, n: int) -> int:
            return 2 * n

    replies = [{"calls": [{"name": "double", "arguments": {"n": 21}}]}, "Done."]
    assert Agent(Scripted(replies), tools=[Double()]).ask("Go.").results[0].value == 42


@dataclass
class OwnResult:
    success: bool
    content: str = ""
    error: str | None = None


class Described:
    """A tool by its looks alone."""

    name = "double"
    description = "Double a number."
    parameters: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
    }


class DescribedSync(Described):
    def execute(self, n: int) -> OwnResult:
        return OwnResult(n > 0, str(2 * n), None if n > 0 else "too small")


class DescribedAsync(Described):
    async def execute(self, *args: Any, **kwargs: Any) -> OwnResult:
        return DescribedSync().execute(**kwargs)


@pytest.mark.spec("M19")
@pytest.mark.parametrize("kind", [DescribedSync, DescribedAsync])
def test_a_tool_can_be_an_object_of_any_class(kind: type[Any]) -> None:
    replies = [
        {"calls": [{"name": "double", "arguments": {"n": n}} for n in (21, 0, "x")]},
        "Done.",
    ]
    doubled, small, wrong = Agent(Scripted(replies), tools=[kind()]).ask("Go.").results
    assert (doubled.success, doubled.output) == (True, "42")
    assert (small.success, small.error) == (False, "too small")
    assert "n" in str(wrong.error)


@pytest.mark.spec("M19")
@pytest.mark.parametrize(
    "thing", [object(), "read_file", 5, Described(), SimpleNamespace(name="x")]
)
def test_what_is_no_tool_is_refused_with_what_is_needed(thing: Any) -> None:
    with pytest.raises(ConfigError, match=r"is not a tool.*name.*description.*parameters.*execute"):
        Agent(Scripted([]), tools=[thing])


def test_the_session_is_begun_when_it_is_first_needed(tmp_path: Path) -> None:
    agent = Agent(Scripted(["One."]))
    assert not (tmp_path / ".ipyagent").exists()
    agent.ask("A.")
    assert isinstance(agent.session.conversation.messages[0], Message)
    assert (tmp_path / ".ipyagent/state.db").exists()


def test_a_process_without_streams_prints_into_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies: list[Any] = [
        {"calls": [{"name": "run_python", "arguments": {"code": "print(6 * 7)"}}]}
    ]
    agent = Agent(Scripted([*replies, "Done."]), root=tmp_path, persist=False, confirm_mode="yolo")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        patch.setattr(sys, "stderr", None)
        run = agent.ask("Compute.")
    assert [each.output for each in run.results] == ["42"]


def test_a_deleted_working_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(ConfigError, match="is not there any more; go to another one"):
        Agent("offline/explorer")
    assert Agent("offline/explorer", root=tmp_path).ask("Hello").outcome == "success"
