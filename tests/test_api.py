"""`Agent`, as scripts use it."""

from pathlib import Path

import pytest

from ipyagent import Agent, BaseTool, Scripted, Session
from ipyagent.errors import AgentError, AgentNotFoundError, ConfigError, SessionError
from ipyagent.schema import Message


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def said(session: Session) -> list[str]:
    return [m.text for m in session.messages if not m.synthetic]


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


@pytest.mark.spec("P10")
def test_without_persistence_nothing_is_written(tmp_path: Path) -> None:
    run = Agent(Scripted(["One."]), persist=False).ask("A.")
    assert run.output == "One."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("H24")
def test_a_validator_of_one_s_own_refuses_a_prompt_before_anything_happens() -> None:
    def no_shouting(prompt: str) -> None:
        if prompt.isupper():
            raise ValueError("Please do not shout.")

    model = Scripted(["Fine."])
    agent = Agent(model)
    agent.validators.append(no_shouting)
    with pytest.raises(AgentError, match="do not shout"):
        agent.ask("WHY?")
    with pytest.raises(AgentError, match="empty"):
        agent.ask("  ")
    assert model.requests == []
    assert agent.session.runs == []
    assert agent.ask("Why?").output == "Fine."


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


def test_the_session_is_begun_when_it_is_first_needed(tmp_path: Path) -> None:
    agent = Agent(Scripted(["One."]))
    assert not (tmp_path / ".ipyagent").exists()
    agent.ask("A.")
    assert isinstance(agent.session.messages[0], Message)
    assert (tmp_path / ".ipyagent/state.db").exists()
