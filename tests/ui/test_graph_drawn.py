"""The drawn graph of a conversation."""

from __future__ import annotations

import re

import hostile
import pytest
from inspection import controls
from IPython.core.interactiveshell import InteractiveShell
from sample import NOON, call, done, said, text

from ipyagent.agent.session.conversation import Conversation
from ipyagent.agent.session.session import Session
from ipyagent.schema import (
    Graph,
    Message,
    Node,
    OpaqueData,
    Role,
    Session as SessionRecord,
    Stop,
    StopReason,
    SystemPrompt,
    TokenUsage,
    ToolDefinition,
    ToolDefinitions,
    ToolResultContent,
    ToolStatus,
)
from ipyagent.ui.static_html import (
    FIRST,
    HEAD,
    LAST,
    MAX_ARROWS,
    graph_mermaid,
    graph_text,
    session_bundle,
)

NODE = re.compile(r'(n\d+)[\[/({]+"([^"\n]*)"[\]/)}]+:::[a-z]+_')
ARROW = re.compile(r"(n\d+) --> (n\d+)")
STYLE = re.compile(
    r"classDef [a-z]+_ stroke:#[0-9a-f]{6},stroke-width:2px|style n\d+ stroke-width:5px"
)


def mermaid(graph: Graph, head: str | None = None) -> str:
    text = graph_mermaid(graph, head)
    assert text
    return text


def labels(text: str) -> dict[str, str]:
    """Return the labels of a flowchart by node; fail for any line that is not ours."""
    title, name, *lines = text.split("\n")
    assert (title, name[:10]) == ("flowchart TD", "accTitle: ")
    nodes = {match[1]: match[2] for line in lines if (match := NODE.fullmatch(line))}
    rest = [line for line in lines if not NODE.fullmatch(line)]
    assert [line for line in rest if not ARROW.fullmatch(line) and not STYLE.fullmatch(line)] == []
    return {each: unescape(label) for each, label in nodes.items()}


def unescape(label: str) -> str:
    plain = label.replace("<br/>", "\n")
    assert not re.search(r"[!\"$-/:<-@\[-^`{-~]", plain), plain
    return re.sub(r"#(\d+);", lambda match: chr(int(match[1])), plain)


def node(id_: str, data: object, *parents: str, **metadata: object) -> Node:
    fields = {"id": id_, "parent_ids": parents, "data": data, "timestamp": NOON}
    return Node.model_validate({**fields, "metadata": metadata})


def user(id_: str, words: str, *parents: str) -> Node:
    return node(id_, Message.of(Role.USER, words), *parents)


def results(*ids: str) -> Message:
    blocks = tuple(ToolResultContent(tool_use_id=each, content=(text("ok"),)) for each in ids)
    return Message(role=Role.USER, content=blocks)


def conversation() -> Graph:
    """Every kind of node; calls beside each other; a fork."""
    calls = [call(f"c{n}", "read_file", {"path": f"{n}.csv", "api_key": "sk-1"}) for n in range(3)]
    tool = ToolDefinition(name="read_file", input_schema={"type": "object"})
    runs = [done(each, "ok") for each in calls]
    runs[1] = runs[1].model_copy(update={"status": ToolStatus.UNKNOWN})
    spent = Stop(reason=StopReason.FINISHED, usage=TokenUsage(prompt_tokens=9, completion_tokens=1))
    return Graph(
        [
            node("s", SystemPrompt(content="You are an agent.")),
            node("t", ToolDefinitions(tools=(tool,)), "s"),
            user("u1", "Why did\nrevenue drop?", "t"),
            node("a1", said(text("I look."), *calls), "u1"),
            *(node(f"e{n}", each, "a1") for n, each in enumerate(runs)),
            node("r1", results("c0", "c1", "c2"), "e0", "e1", "e2"),
            node("a2", said(text("The North.")), "r1"),
            node("x1", spent, "a2"),
            user("u2", "And the South?", "x1"),
            user("u3", "By medians?", "x1"),
            node("n1", Message.of(Role.USER, "Go on.", synthetic=True), "u2"),
            node("m1", Message.of(Role.USER, "So far: …", synthetic=True), "u3", compacted={}),
            node("o1", OpaqueData.model_validate({"type": "new"}), "m1"),
        ]
    )


def chain(length: int, words: str = "message") -> Graph:
    return Graph(
        user(f"n{n}", f"{words} {n}", *([f"n{n - 1}"] if n else [])) for n in range(length)
    )


@pytest.mark.spec("N24")
def test_a_terminal_shows_a_node_a_line_with_what_it_follows():
    assert graph_text(conversation(), "n1").split("\n") == [
        "▲  system     s         You are an agent.",
        "▲  tools      t         read_file",
        "●  user       u1        Why did revenue drop?",
        "■  assistant  a1        I look.",
        "◆  call       e0        ✓ read_file 0.csv, api_key=••••••",
        "◆  call       e1        ! read_file 1.csv, api_key=••••••  ← a1",
        "◆  call       e2        ✓ read_file 2.csv, api_key=••••••  ← a1",
        "○  results    r1        ok ok ok  ← e0, e1",
        "■  assistant  a2        The North.",
        "▬  end        x1        finished · 9 tokens in, 1 out",
        "●  user       u2        And the South?",
        "●  user       u3        By medians?  ← x1",
        f"○  note       n1        Go on.  ← u2  {HEAD}",
        "◇  summary    m1        So far: …  ← u3",
        "○  unknown    o1        made by a newer version of ipyagent",
    ]


@pytest.mark.spec("N24")
def test_the_drawing_has_every_node_its_text_and_the_head():
    text = mermaid(conversation(), "n1")
    drawn = labels(text)
    assert len(drawn) == len(conversation()) == 15
    assert drawn["n2"] == "user · u1\nWhy did revenue drop?"
    assert [each for each in drawn.values() if HEAD in each] == [f"note · n1 · {HEAD}\nGo on."]
    head = next(each for each, label in drawn.items() if HEAD in label)
    assert text.endswith(f"style {head} stroke-width:5px")
    assert "accTitle: Conversation of 15 nodes" in text
    assert "sk-1" not in text


def test_every_arrow_leads_from_a_node_to_one_that_follows_it():
    graph = conversation()
    text = mermaid(graph)
    names = dict(zip(labels(text), graph.nodes, strict=True))
    arrows = {(names[match[1]], names[match[2]]) for match in ARROW.finditer(text)}
    assert arrows == {(parent, each.id) for each in graph for parent in each.parent_ids}


@pytest.mark.parametrize("graph", [chain(MAX_ARROWS + 2), chain(MAX_ARROWS, "!" * 60)])
def test_a_graph_that_jupyterlab_would_not_draw_is_shown_as_text_only(graph: Graph):
    assert graph_mermaid(chain(MAX_ARROWS + 1), None)
    assert graph_mermaid(graph, None) is None
    shown = session_bundle(Session(conversation=Conversation(graph, "n0")))
    assert shown.keys() == {"text/plain"}


def test_nothing_is_drawn_of_nothing():
    assert graph_text(Graph(), None) == ""
    assert labels(mermaid(Graph())) == {}


def test_of_a_long_conversation_its_ends_are_shown():
    assert graph_text(chain(FIRST + LAST), None).count("\n") == FIRST + LAST - 1
    lines = graph_text(chain(1_000), "n999").split("\n")
    assert len(lines) == FIRST + 1 + LAST
    assert lines[FIRST] == f"⋮  … {1_000 - FIRST - LAST} nodes …"
    assert lines[0].endswith("message 0")
    assert lines[-1].endswith(f"message 999  {HEAD}")


@pytest.mark.parametrize("head", ["n0", "n8", "n400", "n799"])
def test_the_head_is_always_shown(head: str):
    lines = graph_text(chain(1_000), head).split("\n")
    assert sum(HEAD in line for line in lines) == 1
    hidden = sum(int(line.split()[2]) for line in lines if line.startswith("⋮"))
    assert hidden + sum(not line.startswith("⋮") for line in lines) == 1_000


# Safety


def full_of(payload: str) -> Graph:
    asked = call(payload, payload, {payload: payload})
    tool = ToolDefinition(name=payload, input_schema={})
    return Graph(
        [
            node("s", SystemPrompt(content=payload)),
            node("t", ToolDefinitions(tools=(tool,)), "s"),
            user(payload, payload, "t"),
            node("a", said(text(payload), asked), payload),
            node("e", done(asked, payload), "a"),
            node("x", Stop(finish_reason=payload), "e"),
        ]
    )


@pytest.mark.spec("N24", "H17", "D5")
def test_the_content_of_nodes_is_only_ever_text():
    for payload in hostile.ALL:
        graph = full_of(payload)
        text = mermaid(graph, payload)
        assert len(labels(text)) == len(graph)
        assert graph_text(graph, payload).count("\n") == len(graph) - 1
        for drawn in (text, graph_text(graph, payload)):
            assert not controls(drawn)


def test_names_of_icons_and_formulas_are_text():
    words = "see fa:fa-car and fab:fa-x, $$x$$"
    label = labels(mermaid(Graph([user("n0", words)])))["n0"]
    assert not re.search(r"fa[bklrs]?:fa-|\$\$", label)
    assert label.replace("\u2060", "") == f"user · n0\n{words}"


def test_hidden_characters_are_spelt_out():
    for payload in hostile.HIDDEN:
        (char,) = {c for c in payload if not c.isprintable() and c not in "\u202c\u2069"}
        for drawn in (mermaid(full_of(payload)), graph_text(full_of(payload), None)):
            assert char not in drawn
            assert f"⟨U+{ord(char):04X}⟩" in drawn.replace("#43;", "+")


# In a notebook


@pytest.mark.spec("N24")
def test_a_session_is_shown_as_its_graph(shell: InteractiveShell):
    record = SessionRecord(name="sales\x1b[31m")
    session = Session(record, conversation=Conversation(conversation(), "n1"))
    shown, _ = shell.display_formatter.format(session)
    assert shown["text/plain"].startswith("Session sales⟨U+001B⟩[31m · 15 nodes\n▲  system ")
    assert shown["text/vnd.mermaid"] == graph_mermaid(conversation(), "n1")
