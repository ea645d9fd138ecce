"""Skills are found in two places, read tolerantly, confined, and limit tools once loaded."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from growth import LINEAR, growth
from harness import Lab, call
from ipyagent.errors import ConfigError, InvalidArgumentsError
from ipyagent.magic import commands
from ipyagent.services.skills import Skills, personal_folder
from ipyagent.tools.file_tools import file_tools
from ipyagent.tools.workspace import Workspace

CANARY = "canary-5d1e-outside"
PLAIN = "---\nname: pdf\ndescription: Reads PDF.\n---\n\nUse it.\n"


class Shelf:
    """A workspace and the user's folder, side by side, and a file out of reach."""

    def __init__(self, root: Path) -> None:
        self.workspace, self.own = root / "ws", root / "own"
        self.workspace.mkdir()
        (root / "a.txt").write_text(CANARY)
        self.outside = root / "a.txt"

    def put(
        self,
        text: str | bytes = PLAIN,
        folder: str = "pdf",
        *,
        own: bool = False,
        file: str = "SKILL.md",
    ) -> Path:
        """Write a file of a skill; return the skill's folder."""
        base = self.own if own else self.workspace / ".ipyagent" / "skills"
        path = base / folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return base / folder

    def skills(self) -> Skills:
        return Skills(Workspace(self.workspace), self.own)

    def get(self, name: str = "pdf") -> str:
        tool = self.skills().tool()
        return str(tool.function(**tool.check_arguments({"name": name})))


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


# --- reading -------------------------------------------------------------------------------------

TOLERATED: dict[str, tuple[str | bytes, dict[str, Any]]] = {
    "as everybody writes it": (PLAIN, {}),
    "a byte order mark": (b"\xef\xbb\xbf" + PLAIN.encode(), {}),
    "Windows": (PLAIN.replace("\n", "\r\n"), {}),
    "old Macs": (PLAIN.replace("\n", "\r"), {}),
    "blank lines first": (f"\n  \n{PLAIN}", {}),
    "blanks behind the marks": (PLAIN.replace("---", "---  "), {}),
    "dots at the end": (PLAIN.replace("---\n\n", "...\n\n"), {}),
    "no newline at the end": (PLAIN.removesuffix("\n"), {}),
    "nothing after the mark": (PLAIN.partition("\n\n")[0], {"content": ""}),
    "an empty line after it": (PLAIN.partition("\n\n")[0] + "\n", {"content": ""}),
    "empty front matter": ("---\n---\nReads\nPDF.\n\nMore.", {"content": "Reads\nPDF.\n\nMore."}),
    "blank front matter": ("---\n\n---\nReads PDF.", {"content": "Reads PDF."}),
    "a comment alone": ("---\n# nothing\n---\nReads PDF.", {"content": "Reads PDF."}),
    "no front matter": ("# PDF\n\nReads\nPDF.\n", {"content": "# PDF\n\nReads\nPDF."}),
    "an empty file": ("", {"content": "", "description": ""}),
    "other keys": (PLAIN.replace("name:", "model: x\nhooks: [{a: b}]\nversion: 1.0\nname:"), {}),
    "a name of no kind": (PLAIN.replace("name: pdf", "name: [1]"), {}),
    "an empty name": (PLAIN.replace("name: pdf", "name:"), {}),
    "a description over lines": (PLAIN.replace("Reads PDF.", ">\n  Reads\n  PDF."), {}),
    "quotes": (PLAIN.replace("Reads PDF.", '"Reads PDF."'), {}),
    "a license": (PLAIN.replace("---\n\n", "license: MIT\n---\n\n"), {"license": "MIT"}),
    "metadata": (
        PLAIN.replace("---\n\n", "metadata: {version: 1.0, on: 2025-01-02}\n---\n\n"),
        {"metadata": {"version": "1.0", "on": "2025-01-02"}},
    ),
    "metadata of no kind": (PLAIN.replace("---\n\n", "metadata: [1]\n---\n\n"), {}),
    "a mark further down": (f"{PLAIN}\n---\nmore", {"content": "Use it.\n\n---\nmore"}),
    "escapes": (PLAIN.replace("Reads", "\x1b[2JReads").replace("Use", "\x1b]0;x\x07Use"), {}),
    "escapes in quotes": (PLAIN.replace("Reads PDF.", r'"\e[2JReads\nPDF."'), {}),
}


@pytest.mark.spec("M22", "D19")
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("case", TOLERATED)
def test_a_skill_is_read_however_it_is_written(shelf: Shelf, case: str, own: bool) -> None:
    text, expected = TOLERATED[case]
    folder = shelf.put(text, own=own)
    skills = shelf.skills()
    (skill,) = skills.all()
    assert skills.notices() == ()
    assert skill.to_dict() == {
        "name": "pdf",
        "description": "Reads PDF.",
        "content": "Use it.",
        "license": None,
        "allowed_tools": None,
        "metadata": {},
        "skill_path": str(folder) if own else ".ipyagent/skills/pdf",
        **expected,
    }


BINDING = "name:\tpdf\nargument-hint: [issue] [prio]\nallowed-tools: {}\nlicense: MIT"


@pytest.mark.spec("M22", "D19")
@pytest.mark.parametrize(
    "description",
    ["Use this when: the user asks", "`pdf` reads", "@all", "%s", "!now", '"Quoted" text', "[Reads",
     "!!python/object/apply:os.system [id]", "* all", "> Reads"],
)  # fmt: skip
def test_front_matter_that_is_not_quite_yaml_is_read_line_by_line(
    shelf: Shelf, description: str
) -> None:
    shelf.put(f"---\ndescription: {description}\n{BINDING.format('Read')}\n---\nUse it.")
    skills = shelf.skills()
    (skill,) = skills.all()
    assert skills.notices() == ()
    assert (skill.name, skill.description, skill.license) == ("pdf", description, "MIT")
    assert skill.allowed_tools == ("Read",)


@pytest.mark.spec("M22", "D19")
@pytest.mark.parametrize(
    ("written", "allowed"),
    [
        ("Read, Bash(git diff:*)", ("Read", "Bash(git diff:*)")),
        ("[Read, 'Grep']", ("Read", "Grep")),
        ("\n- Read\n- Grep", ("Read", "Grep")),
        ("\n  - Read\n  - Grep", ("Read", "Grep")),
        ("Read,\n  Grep", ("Read", "Grep")),
        ("*", ("*",)),
        ("\n- *\n- Read", ("*", "Read")),
        ('["Read", *]', ("Read", "*")),
        ("", None),
    ],
)
@pytest.mark.parametrize(
    "key", ["allowed-tools", "'allowed-tools'", "allowed_tools", "allowedTools"]
)
@pytest.mark.parametrize("indent", ["", "  "])
def test_tools_are_still_limited_if_front_matter_is_read_line_by_line(
    shelf: Shelf, written: str, allowed: tuple[str, ...] | None, key: str, indent: str
) -> None:
    header = BINDING.replace("allowed-tools", key).format(written).replace("\n", f"\n{indent}")
    shelf.put(f"---\n{indent}{header}\n---\nUse it.")
    (skill,) = shelf.skills().all()
    assert skill.allowed_tools == allowed


@pytest.mark.parametrize(
    "text", ["---\n# PDF\n\nReads PDF.", "---\n\nReads PDF.\n", "---\nReads PDF."]
)
def test_a_rule_at_the_beginning_is_no_front_matter(shelf: Shelf, text: str) -> None:
    shelf.put(text)
    (skill,) = shelf.skills().all()
    assert (skill.name, skill.description, skill.content) == ("pdf", "Reads PDF.", text.strip())


@pytest.mark.spec("M22")
@pytest.mark.parametrize("file", ["SKILL.md", "skill.md", "Skill.MD"])
def test_the_file_is_found_in_any_case(shelf: Shelf, file: str) -> None:
    shelf.put(file=file)
    assert [each.name for each in shelf.skills().all()] == ["pdf"]


def test_of_two_spellings_the_usual_one_is_read(shelf: Shelf) -> None:
    shelf.put("usual")
    shelf.put("other", file="skill.md")
    assert [each.content for each in shelf.skills().all()] == ["usual"]


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a},*{a}]\n"
    for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
REFUSED: dict[str, tuple[str | bytes, str]] = {
    "a list": ("---\n- name\n---\nx", "not a mapping of keys to values"),
    "a text": ("---\nname\n---\nx", "not a mapping of keys to values"),
    "no end": ("---\nname: pdf\nallowed-tools: Read\n\nUse it.", "no closing line"),
    "aliases": (f"---\n{BOMB}metadata: *i\n---\nx", "YAML features that are not supported"),
    "a merge": ("---\nb: &b {name: x}\n<<: *b\n---\nx", "YAML features that are not supported"),
    "a name cut short": (
        "---\nname: [unclosed\ndescription: x\n---\nx",
        "'[unclosed' cannot be read",
    ),
    "a quote without end": ('---\nname: "pdf\ndescription: x\n---\nx', "cannot be read"),
    "an alias for a name": (
        "---\nname: *pdf\ndescription: x: y\n---\nx",
        "features that are not supported",
    ),
    "nesting": (f"---\na: {'[' * 5_000}\n---\nx", "YAML features that are not supported"),
    "a long header": (f"---\n{'# x' * 10_000}\n---\nx", "longer than 20,000 characters"),
    "tools of no kind": (
        PLAIN.replace("---\n\n", "allowed-tools: {a: b}\n---\n\n"),
        "not a list of names",
    ),
    "tools of two kinds": (
        PLAIN.replace("---\n\n", "allowed-tools: [[a]]\n---\n\n"),
        "not a list of names",
    ),
    "Latin-1": (b"---\nname: pdf\n---\nK\xf6ln", "not UTF-8 text"),
    "UTF-16": (PLAIN.encode("utf-16"), "not UTF-8 text"),
    "too large": ("x" * 250_001, "larger than"),
}


@pytest.mark.spec("M22", "D19")
@pytest.mark.parametrize("case", REFUSED)
def test_an_unreadable_skill_is_left_out_with_a_notice(shelf: Shelf, case: str) -> None:
    text, why = REFUSED[case]
    shelf.put(text)
    shelf.put("Another.", "other")
    skills = shelf.skills()
    assert [each.name for each in skills.all()] == ["other"]
    (notice,) = skills.notices()
    assert notice.startswith("The skill .ipyagent/skills/pdf is left out: ")
    assert why in notice
    assert skills.notices() == (notice,)


def test_special_files_and_links_are_not_skills(shelf: Shelf) -> None:
    shelf.put("Plain.", "plain")
    base = shelf.workspace / ".ipyagent" / "skills"
    (base / "pipe").mkdir()
    os.mkfifo(base / "pipe" / "SKILL.md")
    elsewhere = shelf.put(f"{CANARY}", "elsewhere", own=True)
    (base / "linked").symlink_to(elsewhere)
    (base / "inner").mkdir()
    (base / "inner" / "SKILL.md").symlink_to(elsewhere / "SKILL.md")
    (base / "notes.txt").write_text("no folder")
    (base / "empty").mkdir()
    (base / ".git").mkdir()
    (base / "my.key").mkdir()
    Path(os.fsdecode(os.fsencode(base) + b"/\xff")).mkdir()
    assert (base / "linked" / "SKILL.md").read_text() == CANARY, "a plain open follows the links"

    skills = Skills(Workspace(shelf.workspace), None)
    assert [each.name for each in skills.all()] == ["plain"]
    about = [notice.split(" is left out: ") for notice in skills.notices()]
    assert {what.rpartition("/")[2] for what, _ in about} == {
        "pipe",
        "linked",
        "inner",
        "my.key",
        r"\udcff",
    }


@pytest.mark.spec("D19")
def test_of_two_skills_with_one_name_the_first_wins_and_the_users_comes_first(shelf: Shelf) -> None:
    shelf.put("---\nname: x\n---\nours, first", "a")
    shelf.put("---\nname: X\n---\nours, second", "b")
    shelf.put("---\nname: y\n---\nours", "c")
    shelf.put("---\nname: y\n---\ntheirs", "z", own=True)
    skills = shelf.skills()
    assert [each.content for each in skills.all()] == ["theirs", "ours, first"]
    assert skills.notices() == (
        "The skill .ipyagent/skills/b is left out: .ipyagent/skills/a has the same name, 'X'.",
        f"The skill .ipyagent/skills/c is left out: {shelf.own}/z has the same name, 'y'.",
    )


def test_without_a_folder_there_are_no_skills_and_none_is_created(shelf: Shelf) -> None:
    skills = shelf.skills()
    assert (skills.all(), skills.notices(), skills.prompt()) == ((), (), "")
    assert list(shelf.workspace.iterdir()) == []
    assert not shelf.own.exists()
    (shelf.workspace / ".ipyagent").symlink_to(shelf.outside.parent)
    shelf.own.symlink_to("nowhere")
    first, second = shelf.skills().notices()
    assert first.startswith("Your skills cannot be read: ")
    assert "symbolic link" in second


def test_the_number_of_skills_is_bounded(shelf: Shelf) -> None:
    for number in range(201):
        shelf.put("---\ndescription: " + "d" * 400 + "\n---\nx", f"{number:03}")
    skills = shelf.skills()
    assert len(skills.all()) == 200
    assert skills.notices() == ("Only the first 200 skills in .ipyagent/skills are read.",)
    prompt = skills.prompt().split("\n")
    assert len(prompt) == 62
    assert prompt[-1] == "… and 140 more"
    assert {len(line) for line in prompt[1:-1]} == {301}


# --- told and loaded -----------------------------------------------------------------------------


@pytest.mark.spec("M23")
def test_the_prompt_contains_only_names_and_descriptions(shelf: Shelf) -> None:
    shelf.put("---\nname: tables\ndescription: Joins\n  tables.\n---\nSECRET STEPS", own=True)
    shelf.put('---\nname: "a\\nb\\u202e"\n---\nFirst paragraph.\n\nSECRET STEPS', "x")
    told = shelf.skills().prompt()
    assert told.split("\n")[1:] == [
        "- tables: Joins tables.",
        "- a b⟨U+202E⟩ (from this folder): First paragraph.",
    ]
    assert "get_skill" in told
    assert "SECRET" not in told


@pytest.mark.spec("M23")
def test_the_content_is_loaded_on_request(shelf: Shelf) -> None:
    shelf.put()
    text = "# Skill: pdf\n\nReads PDF.\n\n---\n\nUse it.\n"
    assert shelf.get() == f"{text}\nThe skill's folder: .ipyagent/skills/pdf\n"
    assert shelf.get(" PDF ") == shelf.get()
    shelf.put(own=True)
    assert shelf.get() == f"{text}\nThe skill's folder: {shelf.own}/pdf\n"


@pytest.mark.spec("M23")
def test_an_unknown_skill_is_answered_with_the_available_ones(shelf: Shelf) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        shelf.get("x")
    assert str(caught.value) == "Skill 'x' does not exist. Available: none"
    shelf.put(own=True)
    shelf.put("A.", "a")
    for unknown in ("x", "", "../pdf", "pdf/SKILL.md"):
        with pytest.raises(InvalidArgumentsError) as caught:
            shelf.get(unknown)
        assert str(caught.value) == f"Skill {unknown!r} does not exist. Available: pdf, a"


def test_the_text_of_a_workspaces_skill_does_not_count_as_the_users(shelf: Shelf) -> None:
    shelf.put(own=True)
    shelf.put("Theirs.", "theirs")
    skills = shelf.skills()
    source = skills.tool().source
    assert source(name="theirs") == "the skill 'theirs' of this folder"
    assert source(name="pdf") is None
    assert source(name="nope") is None
    assert [skills.is_own(each) for each in skills.all()] == [True, False]
    assert not skills.tool().sensitive


# --- links ---------------------------------------------------------------------------------------

LEADING_OUT = ["../../a.txt", "../../../a.txt", "../../../../a.txt", "%2e%2e/%2e%2e/a.txt"]
LEADING_OUT += [
    "/etc/passwd",
    "x/../../../../../a.txt",
    "link.txt",
    "linked/a.txt",
    "..\\..\\a.txt",
]
LEADING_OUT += ["file:///etc/passwd", "https://example.org/a.txt", "#part", "nope.md", ".env"]


def linked(shelf: Shelf, *, own: bool) -> str:
    """A skill with links of all kinds."""
    hostile = "\n".join(f"[x]({each}) [y](<{each}>)\n\n[r]: {each}" for each in LEADING_OUT)
    good = "See [the guide](guide.md#top 'Guide'), ![a](<my notes.md>), [b](sub/./deep.md)\n"
    good += "and [c](my%20notes.md), [again](guide.md).\n\n[ref]: guide.md\n"
    folder = shelf.put(f"{good}\n{hostile}", own=own)
    shelf.put("THE GUIDE", own=own, file="guide.md")
    shelf.put("MY NOTES", own=own, file="my notes.md")
    shelf.put("DEEP", own=own, file="sub/deep.md")
    shelf.put(CANARY, own=own, file=".env")
    (folder / "link.txt").symlink_to(shelf.outside)
    (folder / "linked").symlink_to(shelf.outside.parent)
    naive = [(folder / each).resolve() for each in LEADING_OUT]
    assert shelf.outside in naive, "a plain path leads out"
    return hostile


@pytest.mark.spec("D19")
def test_links_of_a_workspaces_skill_become_paths_for_read_file(shelf: Shelf) -> None:
    hostile = linked(shelf, own=False)
    base = ".ipyagent/skills/pdf"
    text = shelf.get()
    assert f"[the guide]({base}/guide.md#top 'Guide')" in text
    assert f"![a](<{base}/my notes.md>)" in text
    assert f"[b]({base}/sub/deep.md)" in text
    assert f"[c](<{base}/my notes.md>)" in text
    assert f"\n[ref]: {base}/guide.md\n" in text
    assert hostile in text, "those that lead out are left as they are"
    assert CANARY not in text
    read = file_tools(Workspace(shelf.workspace), allow_delete=False)[1].function
    assert read(f"{base}/guide.md") == "     1\tTHE GUIDE"
    assert "MY NOTES" in read(f"{base}/my notes.md")


@pytest.mark.spec("D19")
def test_small_files_linked_by_a_users_skill_are_included(shelf: Shelf) -> None:
    hostile = linked(shelf, own=True)
    text = shelf.get()
    assert hostile in text
    content, *files = text.split("\n--- ")
    assert "[the guide](guide.md#top" in content
    assert files == [
        "guide.md ---\nTHE GUIDE",
        "my notes.md ---\nMY NOTES",
        "sub/deep.md ---\nDEEP",
    ]
    assert CANARY not in text


@pytest.mark.spec("D19")
def test_files_named_by_a_users_skill_are_included_and_others_listed(
    shelf: Shelf,
) -> None:
    text = "To fill forms read FORMS.md. Run `python scripts/fill.py`, see [r](ref.md)."
    folder = shelf.put(text, own=True)
    for file in ("forms.md", "scripts/fill.py", "ref.md", "LICENSE.txt", "scripts/a.py", ".env"):
        shelf.put(f"<{file}>", own=True, file=file)
    (folder / "fill.py").symlink_to(shelf.outside)
    _, *files = shelf.get().split("\n--- ")
    assert files == [
        "ref.md ---\n<ref.md>",
        "forms.md ---\n<forms.md>",
        "scripts/fill.py ---\n<scripts/fill.py>\n"
        "Its other files, which are not included: LICENSE.txt, scripts/a.py\n",
    ]


def test_a_name_is_found_in_any_unicode_normalization(shelf: Shelf) -> None:
    shelf.put("Do it.", unicodedata.normalize("NFD", "résumé"))
    for form in ("NFC", "NFD"):
        assert "Do it." in shelf.get(unicodedata.normalize(form, "Résumé"))


def test_large_and_binary_files_are_named_and_not_included(shelf: Shelf) -> None:
    shelf.put("[a](a.txt) [b](b.bin) [c](c.txt) [d](d.txt)", own=True)
    shelf.put("a" * 20_000, own=True, file="a.txt")
    shelf.put(b"\0" * 10, own=True, file="b.bin")
    shelf.put("c" * 20_000, own=True, file="c.txt")
    shelf.put("small", own=True, file="d.txt")
    text = shelf.get()
    assert "a" * 20_000 in text
    assert "b.bin is a binary file" in text
    assert "(c.txt is not included: 20.0 kB)" in text
    assert text.endswith("--- d.txt ---\nsmall")
    assert len(text) < 30_000


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["[", "](", "](<", "[x]: <", "![a](b", "[" * 300 + "]:", "---\n"])
@pytest.mark.parametrize("own", [True, False])
def test_a_hostile_text_is_processed_in_linear_time(shelf: Shelf, piece: str, own: bool) -> None:
    def get(size: int) -> None:
        shelf.put("x\n" + piece * (size // len(piece)), own=own)
        assert shelf.get().startswith("# Skill: pdf")

    assert growth(get, 60_000) < LINEAR


# --- allowed tools -------------------------------------------------------------------------------


def load(shelf: Shelf, *allowed: str | None) -> Skills:
    """Load skills, one for each `allowed-tools`."""
    for number, each in enumerate(allowed):
        said = "" if each is None else f"allowed-tools: {each}\n"
        shelf.put(f"---\nname: s{number}\n{said}---\nx", f"s{number}")
    skills = shelf.skills()
    for number in range(len(allowed)):
        skills.get_skill(f"s{number}")
    return skills


@pytest.mark.spec("M24")
@pytest.mark.parametrize(
    ("said", "tools"),
    [
        ("[read_file, run_python]", {"read_file", "run_python"}),
        ("read_file, run_python", {"read_file", "run_python"}),
        ("read_file run_python", {"read_file", "run_python"}),
        ("\n  - read_file\n  - run_python", {"read_file", "run_python"}),
        ("'Read, Write'", {"read_file", "write_file"}),
        ("Read,Write,Edit,MultiEdit", {"read_file", "write_file", "edit_file"}),
        ("Bash(git status:*), Grep", {"run_shell", "search_files"}),
        ("[Bash(git log -n 1:*), Bash(ls:*)]", {"run_shell"}),
        ("Bash(", {"run_shell"}),
        ("bash", {"run_shell"}),
        ("Glob, LS, shell, python", {"list_files", "run_shell", "run_python"}),
        ("NotebookRead NotebookEdit", {"read_notebook", "edit_cell"}),
        ("mcp__git__log", {"mcp_git_log"}),
        ("mcp__git__*", {"mcp_git_log", "mcp_git_push"}),
        ("'*'", None),
        ("WebFetch", set()),
        ("[]", set()),
        ("''", set()),
        ("", None),
        (None, None),
    ],
)
def test_a_loaded_skill_allows_only_its_tools(
    shelf: Shelf, said: str | None, tools: set[str] | None
) -> None:
    skills = load(shelf, said)
    everything = "read_file write_file edit_file delete_file list_files search_files run_python"
    everything += " run_shell python_script read_notebook edit_cell mcp_git_log mcp_git_push query"
    allowed = {name for name in everything.split() if skills.refuses(name) is None}
    assert allowed == (set(everything.split()) if tools is None else tools)
    for always in ("get_skill", "todo_write", "ask_user"):
        assert skills.refuses(always) is None


@pytest.mark.spec("M24")
def test_a_skill_limits_tools_from_its_loading_on(shelf: Shelf) -> None:
    shelf.put(PLAIN.replace("---\n\n", "allowed-tools: Read\n---\n\n"))
    skills = shelf.skills()
    assert skills.refuses("run_python") is None
    with pytest.raises(InvalidArgumentsError):
        skills.get_skill("nope")
    assert skills.refuses("run_python") is None
    skills.get_skill("PDF")
    assert skills.refuses("run_python") == "the skill 'pdf' is loaded and allows only: read_file"
    assert skills.refuses("read_file") is None
    assert shelf.skills().refuses("run_python") is None, "for that run only"


@pytest.mark.spec("M24")
def test_every_loaded_skill_has_to_allow_a_tool(shelf: Shelf) -> None:
    skills = load(shelf, "Read, Write", None, "[Read, Bash]")
    names = ("read_file", "write_file", "run_shell", "run_python")
    assert [skills.refuses(name) is None for name in names] == [True, False, False, False]
    assert load(shelf, "Read", "[]").refuses("read_file") == (
        "the skill 's1' is loaded and allows only: no tools"
    )


@pytest.mark.spec("M23", "M24")
def test_a_run_loads_a_skill_and_obeys_its_limits(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    folder = tmp_path / ".ipyagent" / "skills" / "pdf"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(PLAIN.replace("---\n\n", "allowed-tools: Glob\n---\n\n"))
    read = call("read_file", path="a.txt")
    (tmp_path / "a.txt").write_text("a")
    loads = [call("get_skill", name="pdf"), call("get_skill", name="x")]
    steps = [{"calls": [read]}, {"calls": loads}, {"calls": [call("list_files"), read]}, "Done."]
    run = lab.run(steps)
    status = [each.status for each in run.executions]
    assert status == ["success", "success", "failed", "success", "denied"]
    _, first, second, _, third = run.results
    assert first.output.startswith("# Skill: pdf")
    assert second.error == "Skill 'x' does not exist. Available: pdf"
    assert "pdf" in str(third.error)
    system = lab.client.requests[0].messages[0].text
    assert "Reads PDF." in system
    assert lab.run([{"calls": [read]}, "Read."]).executions[0].status == "success"


# --- the user's view ---------------------------------------------------------------------------


@pytest.fixture
def book(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(commands, "personal_folder", lambda: shelf.own)
    return SimpleNamespace(environment=SimpleNamespace(workspace=Workspace(shelf.workspace)))


@pytest.mark.spec("M23")
def test_the_user_sees_the_available_skills(shelf: Shelf, book: Any) -> None:
    said = commands.COMMANDS["skills"](book, "")
    assert str(shelf.own) in said
    assert ".ipyagent/skills" in said
    shelf.put(own=True)
    shelf.put("---\nname: t\nallowed-tools: Read, Bash\n---\nTables\x1b[2J.\u202e", "t")
    shelf.put("---\nname: x\n", "broken")
    lines = commands.COMMANDS["skills"](book, "").split("\n")
    assert lines[0].split() == ["pdf", "yours", "Reads", "PDF."]
    assert lines[1].split() == ["t", "this", "folder", "Tables.⟨U+202E⟩", "[Read,", "Bash]"]
    assert lines[2].startswith("The skill .ipyagent/skills/broken is left out: ")
    assert len(lines) == 3
    with pytest.raises(ConfigError, match=r"usage: %agent skills$"):
        commands.COMMANDS["skills"](book, "x")


def test_the_users_skills_are_beside_their_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert personal_folder() == tmp_path / "ipyagent" / "skills"


def test_a_swapped_folder_never_leads_out_of_the_workspace(shelf: Shelf) -> None:
    """Files are opened below the workspace, not checked first and then opened."""
    shelf.put("[a](a.txt)")
    skills = shelf.skills()
    assert [each.name for each in skills.all()] == ["pdf"]
    base = shelf.workspace / ".ipyagent" / "skills"
    (base / "pdf").rename(base / "was")
    (base / "pdf").symlink_to(shelf.outside.parent)
    assert (base / "pdf" / "a.txt").read_text() == CANARY
    assert "[a](a.txt)" in skills.get_skill("pdf")
