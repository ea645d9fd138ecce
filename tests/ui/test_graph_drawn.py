"""The drawn graph of a conversation."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from xml.etree import ElementTree

import hostile
import pytest
from bs4 import BeautifulSoup
from inspection import controls
from IPython.core.interactiveshell import InteractiveShell
from playwright.sync_api import Browser
from sample import NOON, call, done, said, text

from ipyagent.agent.conversation import Conversation
from ipyagent.agent.session import Session
from ipyagent.schema import (
    Graph,
    Message,
    Node,
    OpaqueData,
    Role,
    Stop,
    StopReason,
    SystemPrompt,
    TokenUsage,
    ToolDefinition,
    ToolDefinitions,
    ToolResultContent,
    ToolStatus,
)
from ipyagent.schema import Session as SessionRecord
from ipyagent.ui.formatters import register
from ipyagent.ui.graph import HEAD, graph_svg, graph_text
from ipyagent.ui.lanes import KEPT, MANY, WIDE, laid_out

SVG = "{http://www.w3.org/2000/svg}"
OURS = {
    "svg": {"xmlns", "width", "height", "viewbox", "role", "aria-label"},
    "rect": {"width", "height", "rx", "fill", "style"},
    "path": {"d", "fill", "stroke", "stroke-width", "transform"},
    "circle": {"cx", "cy", "r", "fill", "stroke", "stroke-width"},
    "g": {"font-family", "font-size", "fill", "style"},
    "text": {"x", "y", "fill-opacity", "xml:space"},
    "tspan": {"fill", "font-weight", "fill-opacity"},
    "title": set(),
}


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


def chain(length: int) -> Graph:
    return Graph(
        user(f"n{n}", f"message {n}", *([f"n{n - 1}"] if n else [])) for n in range(length)
    )


@pytest.mark.spec("N24")
def test_a_terminal_shows_a_node_a_line_with_forks_in_lanes():
    assert graph_text(conversation(), "n1").split("\n") == [
        "▲  system     s         You are an agent.",
        "▲  tools      t         read_file",
        "●  user       u1        Why did revenue drop?",
        "■  assistant  a1        I look.",
        "├─┬─╮",
        "◆ │ │  call       e0        ✓ read_file 0.csv, api_key=••••••",
        "│ ◆ │  call       e1        ! read_file 1.csv, api_key=••••••",
        "│ │ ◆  call       e2        ✓ read_file 2.csv, api_key=••••••",
        "├─┴─╯",
        "○  results    r1        ok ok ok",
        "■  assistant  a2        The North.",
        "▬  end        x1        finished · 9 tokens in, 1 out",
        "├─╮",
        "● │  user       u2        And the South?",
        "│ ●  user       u3        By medians?",
        f"○ │  note       n1        Go on.  {HEAD}",
        "  ◇  summary    m1        So far: …",
        "  ○  unknown    o1        made by a newer version of ipyagent",
    ]


@pytest.mark.spec("N24")
def test_the_drawing_has_every_node_its_text_and_the_head():
    svg = ElementTree.fromstring(graph_svg(conversation(), "n1"))
    drawn = ["".join(each.itertext()) for each in svg.iter(f"{SVG}text")]
    assert len(drawn) == len(conversation()) == 15
    assert drawn[2] == "user  Why did revenue drop?  u1"
    assert [each for each in drawn if HEAD in each] == [f"note  Go on.  {HEAD}  n1"]
    assert len(list(svg.iter(f"{SVG}circle"))) == 1
    assert "sk-1" not in graph_svg(conversation(), "n1")
    tips = [each.text or "" for each in svg.iter(f"{SVG}title")]
    assert tips[2] == "2026-03-01 12:00:00 · u1\nWhy did\nrevenue drop?"


def test_every_line_leads_from_a_node_to_one_that_follows_it():
    graph = conversation()
    lines, *shapes = ElementTree.fromstring(graph_svg(graph, None)).iter(f"{SVG}path")
    spots = [tuple(map(int, re.findall(r"\d+", each.get("transform", "")))) for each in shapes]
    place = dict(zip(spots, graph, strict=True))
    drawn = {tuple(place[spot].id for spot in _ends(line)) for line in _split(lines.get("d", ""))}
    assert drawn == {(parent, each.id) for each in graph for parent in each.parent_ids}


def _split(path: str) -> list[str]:
    return ["M" + line for line in path.split("M")[1:]]


def _ends(line: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where a line of moves, verticals and curves begins and ends."""
    start = x, y = 0, 0
    for command, numbers in re.findall(r"([MVC])([\d ]+)", line):
        *_, y = said = list(map(int, numbers.split()))
        x = x if command == "V" else said[-2]
        start = (x, y) if command == "M" else start
    return start, (x, y)


def test_nothing_is_drawn_of_nothing():
    assert graph_text(Graph(), None) == ""
    ElementTree.fromstring(graph_svg(Graph(), None))


def test_a_short_chain_is_drawn_whole_and_a_long_one_without_its_middle():
    assert graph_text(chain(MANY), None).count("\n") == MANY - 1
    lines = graph_text(chain(MANY + 1), "n400").split("\n")
    hidden = MANY + 1 - (len(lines) - 1)
    assert hidden > MANY - 3 * KEPT
    assert lines[KEPT + 1] == f"⋮  … {hidden} nodes …"
    assert lines[0].endswith("message 0")
    assert lines[-1].endswith(f"message 400  {HEAD}")
    assert f"… {hidden} nodes …" in graph_svg(chain(MANY + 1), "n400")


def test_the_head_is_never_folded_away():
    for head in ("n0", "n1", "n200", "n499"):
        lines = graph_text(chain(500), head).split("\n")
        assert sum(HEAD in line for line in lines) == 1
        assert len(lines) < 50


def test_calls_beside_each_other_do_not_keep_a_long_stretch_from_being_folded():
    nodes: list[Node] = [user("r0", "go")]
    for n in range(200):
        nodes += [user(f"a{n}", "asks", f"r{n}"), user(f"x{n}", "one", f"a{n}")]
        nodes += [user(f"y{n}", "two", f"a{n}"), user(f"r{n + 1}", "ok", f"x{n}", f"y{n}")]
    lines = graph_text(Graph(nodes), None).split("\n")
    assert len(lines) < 60
    assert sum("nodes …" in line for line in lines) == 1


@pytest.mark.parametrize("seed", range(20))
def test_no_fork_and_no_end_is_folded_away(seed: int):
    """Whatever is hidden, each head is in sight, and so is each node that a branch begins at."""
    chance = random.Random(seed)
    graph = Graph([user("n0", "go")])
    tips = ["n0"]
    for n in range(1, 1_000):
        parent = chance.choice(list(graph.nodes)) if chance.random() < 0.01 else tips[-1]
        graph.add(user(f"n{n}", "x", parent))
        tips.append(f"n{n}")
    layout = laid_out(graph, None)
    seen = {place.id for place in layout.places}
    children = [parent for each in graph for parent in each.parent_ids]
    forks = {each for each in graph.nodes if children.count(each) > 1}
    assert forks <= seen
    assert set(graph.heads) <= seen
    assert len(seen - layout.hidden.keys()) + sum(layout.hidden.values()) == len(graph)
    waiting = 0
    for place in layout.places:
        waiting += len(place.begins) - len(place.ends)
        assert waiting >= 0
    assert waiting == 0


@pytest.mark.spec("N24")
def test_ten_thousand_nodes_are_drawn_without_recursion_and_folded_to_what_matters():
    graph = chain(10_000)
    assert len(graph_svg(graph, "n5000")) < 20_000
    assert len(graph_text(graph, "n5000").split("\n")) < 60


def test_more_branches_than_there_is_room_for_are_drawn_all_the_same():
    graph = Graph([user("root", "go"), *(user(f"b{n}", f"way {n}", "root") for n in range(600))])
    lines = graph_text(graph, "b599").split("\n")
    assert len(lines) == 602
    assert max(map(len, lines)) < 2 * WIDE + 60
    ElementTree.fromstring(graph_svg(graph, None))


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


def dangers(html: str) -> list[str]:
    """Elements and attributes in a page that the drawing does not have by itself."""
    found = []
    for tag in BeautifulSoup(html, "html.parser").find_all(True):
        found += [] if tag.name in OURS else [tag.name]
        found += [name for name in tag.attrs if name not in OURS.get(tag.name, set())]
        found += [value for value in tag.attrs.values() if "script" in str(value)]
    return found


@pytest.mark.spec("N24", "H17", "D5")
def test_what_nodes_hold_is_only_ever_text():
    assert len([each for each in hostile.ALL if dangers(f"<svg>{each}</svg>")]) > 80
    for payload in hostile.ALL:
        graph = full_of(payload)
        svg = graph_svg(graph, payload)
        ElementTree.fromstring(svg)
        assert dangers(svg) == [], payload
        for drawn in (svg, graph_text(graph, payload)):
            assert not controls(drawn)


def test_what_hides_is_spelt_out():
    for payload in hostile.HIDDEN:
        (char,) = {c for c in payload if not c.isprintable() and c not in "\u202c\u2069"}
        for drawn in (graph_svg(full_of(payload), None), graph_text(full_of(payload), None)):
            assert char not in drawn
            assert f"⟨U+{ord(char):04X}⟩" in drawn


def test_it_brings_its_colours_and_loads_nothing():
    svg = graph_svg(conversation(), "n1")
    assert not re.search(r"<style|<script|href|url\(|@import|onload", svg)
    assert set(re.findall(r"https?://[^\"]+", svg)) == {"http://www.w3.org/2000/svg"}
    assert 'fill="#ffffff" style="fill: var(--jp-layout-color1, #ffffff)"' in svg


# In a notebook


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    shell = InteractiveShell()
    register(shell)
    yield shell
    shell.history_manager.end_session()


@pytest.mark.spec("N24")
def test_a_session_is_shown_as_its_graph(shell: InteractiveShell):
    record = SessionRecord(name="sales\x1b[31m")
    session = Session(record, conversation=Conversation(conversation(), "n1"))
    shown, _ = shell.display_formatter.format(session)
    assert shown["text/plain"].startswith("Session sales⟨U+001B⟩[31m · 15 nodes\n▲  system ")
    assert shown["image/svg+xml"] == graph_svg(conversation(), "n1")


@pytest.mark.browser
@pytest.mark.parametrize("ground", ["#ffffff", "#111111"])
def test_it_can_be_read_on_any_ground(chromium: Browser, ground: str):
    """Inline it takes the page's colours, as an image it has its own ground."""
    color = "#000000" if ground == "#ffffff" else "#e0e0e0"
    theme = f"--jp-layout-color1: {ground}; --jp-content-font-color1: {color}"
    page = chromium.new_page()
    page.set_content(
        f'<body style="background: {ground}"><div style="{theme}">'
        f"{graph_svg(conversation(), 'n1')}</div>{graph_svg(conversation(), 'n1')}"
    )
    fill = "element => getComputedStyle(element).fill"
    inline, alone = page.locator("svg").all()
    assert _hex(inline.locator("rect").evaluate(fill)) == ground
    assert _hex(inline.locator("text").nth(2).evaluate(fill)) == color
    assert _hex(alone.locator("rect").evaluate(fill)) == "#ffffff"
    assert _hex(alone.locator("text").nth(2).evaluate(fill)) == "#1f2328"
    box, texts = inline.bounding_box(), inline.locator("text")
    assert box
    for each in texts.all():
        at = each.bounding_box()
        assert at
        assert at["x"] + at["width"] <= box["x"] + box["width"]
    page.close()


def _hex(color: str) -> str:
    return "#" + "".join(f"{int(each):02x}" for each in re.findall(r"\d+", color)[:3])
