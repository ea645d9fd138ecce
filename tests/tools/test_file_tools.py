"""Tools that list, read and change files, and what they say about binary files."""

from __future__ import annotations

import base64
import io
import json
import sqlite3
import subprocess
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from ipyagent.errors import (
    AgentError,
    InvalidArgumentsError,
    PathTraversalError,
    PathValidationError,
)
from ipyagent.schema import Preview, ToolResult
from ipyagent.tools import file_rendering
from ipyagent.tools.base import Where
from ipyagent.tools.file_change import Change
from ipyagent.tools.file_tools import (
    FileReadTools,
    describe_binary,
    file_tools,
    is_binary,
    search_tools,
)
from ipyagent.tools.workspace import Workspace


class Hands:
    """The tools as the dispatcher uses them: arguments are checked, then previewed, then run."""

    def __init__(self, root: Path, *, allow_delete: bool = True) -> None:
        workspace = Workspace(root)
        self.tools = {t.name: t for t in file_tools(workspace, allow_delete=allow_delete)}

    def run(self, name: str, **arguments: Any) -> Any:
        """Run without asking; what the model reads, or the whole result of a reading."""
        value = self.tools[name].function(**self.tools[name].check_arguments(arguments))
        return value.output if name == "list_files" else value

    def show(self, name: str, **arguments: Any) -> Preview:
        """What the approval card would show."""
        preview = self.tools[name].preview
        return preview(**self.tools[name].check_arguments(arguments))


@pytest.fixture
def hands(tmp_path: Path) -> Hands:
    return Hands(tmp_path)


def test_the_tools_say_where_they_run_and_what_is_sensitive(tmp_path: Path, hands: Hands) -> None:
    assert set(hands.tools) >= {
        "list_files",
        "read_file",
        "inspect_file",
        "write_file",
        "edit_file",
        "delete_file",
    }
    sensitive = {name for name, tool in hands.tools.items() if tool.sensitive}
    assert sensitive == {name for name, tool in hands.tools.items() if tool.preview}
    assert sensitive == {"write_file", "edit_file", "delete_file"}
    assert {tool.where for tool in hands.tools.values()} == {Where.THREAD}
    everything = [*hands.tools.values(), *search_tools(Workspace(tmp_path))]
    schemas = json.dumps([tool.definition().to_dict() for tool in everything])
    assert len(schemas) < 2_500


# --- list_files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [".", "./", "data/.."])
def test_our_own_state_is_not_listed_beside_the_person_s_files(
    tmp_path: Path, hands: Hands, path: str
) -> None:
    (tmp_path / "data").mkdir()
    Workspace(tmp_path).state_folder()
    for recursive in (False, True):
        assert hands.run("list_files", path=path, recursive=recursive) == "data/"


@pytest.mark.spec("A43")
def test_a_listing_is_sorted_with_sizes_and_kinds(tmp_path: Path, hands: Hands) -> None:
    assert hands.run("list_files") == "(empty)"
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.csv").write_bytes(b"1" * 1_500)
    (tmp_path / "c.txt").write_text("hi")
    (tmp_path / "a").symlink_to("/etc")
    assert hands.run("list_files") == "a  (link, not followed)\nb/\nc.txt  2 B"
    assert hands.run("list_files", path="b") == "x.csv  1.5 kB"
    assert hands.run("list_files", pattern="*.csv") == "(empty)"
    assert hands.run("list_files", pattern="*.csv", recursive=True) == "b/x.csv  1.5 kB"
    assert hands.run("list_files", pattern="b/*.csv") == "b/x.csv  1.5 kB"
    assert hands.run("list_files", pattern="**/*.csv") == "b/x.csv  1.5 kB"
    with pytest.raises(PathValidationError, match=r"c\.txt is not a folder"):
        hands.run("list_files", path="c.txt")


@pytest.mark.spec("A43", "D7")
def test_no_pattern_lists_anything_outside(tmp_path: Path) -> None:
    root = tmp_path / "ws"
    root.mkdir()
    (tmp_path / "secret.txt").touch()
    (root / "link").symlink_to(tmp_path)
    assert [p.name for p in root.glob("../*.txt")] == ["secret.txt"], "a plain glob walks out"
    assert [p.name for p in root.glob("link/*.txt")] == ["secret.txt"], "and through links"
    hands = Hands(root)
    for pattern in ("../*", "sub/../../*", "..", f"{tmp_path}/*", "/*"):
        for recursive in (True, False):
            with pytest.raises(PathTraversalError, match="escapes the workspace"):
                hands.run("list_files", pattern=pattern, recursive=recursive)
    assert hands.run("list_files", pattern="link/*", recursive=True) == "(empty)"
    assert hands.run("list_files", recursive=True) == "link  (link, not followed)"


@pytest.mark.spec("A43")
def test_a_long_listing_is_capped_and_says_how_many_more(tmp_path: Path, hands: Hands) -> None:
    for number in range(500):
        (tmp_path / f"{number:04}.txt").touch()
    assert len(lines := hands.run("list_files").splitlines()) == 500
    assert "more" not in lines[-1]
    (tmp_path / "last.txt").touch()
    lines = hands.run("list_files").splitlines()
    assert len(lines) == 501
    assert lines[-1] == "… and 1 more; narrow path or pattern"


def test_a_name_cannot_forge_a_line_of_the_listing(tmp_path: Path, hands: Hands) -> None:
    (tmp_path / "a\nsecret.txt  9 B").touch()
    (tmp_path / "\u202etxt.exe").touch()
    (tmp_path.joinpath("x")).mkdir()
    bad = bytes(tmp_path) + b"/\xff\xfe.txt"
    Path(bad.decode("utf-8", "surrogateescape")).touch()
    listing = hands.run("list_files")
    assert len(listing.splitlines()) == 4
    assert r"a\nsecret.txt" in listing
    assert r"\u202etxt.exe" in listing
    listing.encode()


# --- read_file -----------------------------------------------------------------------------------


@pytest.mark.spec("A40")
def test_text_is_read_with_line_numbers_from_offset_to_limit(tmp_path: Path, hands: Hands) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffone\r\ntwo\r\nthree".encode())
    assert hands.run("read_file", path="a.txt") == "     1\tone\n     2\ttwo\n     3\tthree"
    part = hands.run("read_file", path=str(tmp_path / "a.txt"), offset=2, limit=1)
    assert part == "     2\ttwo\n(lines 2-2 of 3; continue with offset=3)"
    (tmp_path / "empty").touch()
    assert hands.run("read_file", path="empty") == "(empty file)"
    with pytest.raises(InvalidArgumentsError, match="only 3 lines"):
        hands.run("read_file", path="a.txt", offset=4)
    for wrong in ({"offset": 0}, {"limit": 0}):
        with pytest.raises(InvalidArgumentsError, match="greater than"):
            hands.run("read_file", path="a.txt", **wrong)


@pytest.mark.spec("A40")
@pytest.mark.parametrize(("line", "count"), [("x", 2_500), ("x" * 200, 1_000), ("é" * 3_000, 50)])
def test_paging_through_a_long_file_shows_every_line_once(
    tmp_path: Path, hands: Hands, line: str, count: int
) -> None:
    lines = [f"{number} {line}" for number in range(count)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    seen: list[str] = []
    while len(seen) < len(lines):
        page = hands.run("read_file", path="a.txt", offset=len(seen) + 1)
        assert len(page) <= 30_000
        assert len(page.splitlines()) <= 1_000
        seen += [row.split("\t", 1)[1] for row in page.splitlines() if "\t" in row]
    assert seen == lines


def test_one_enormous_line_is_cut_and_says_so(tmp_path: Path, hands: Hands) -> None:
    (tmp_path / "a.json").write_text("[" + "1," * 500_000 + "1]\nend")
    page = hands.run("read_file", path="a.json")
    assert len(page) <= 30_000
    assert "… (the line continues)" in page
    assert page.endswith("(lines 1-1 of 2; continue with offset=2)")
    for first, more in (("", "… (the line continues)"), ("]\n", "continue with offset=2)")):
        (tmp_path / "a.json").write_text(first)
        shown = hands.run("read_file", path="a.json") + "\n" if first else ""
        fits = 28_000 - len(f"{shown}     2\t\n")
        for size, end in ((fits, "]"), (fits + 1, more)):
            (tmp_path / "a.json").write_text(first + "]" * size)
            assert hands.run("read_file", path="a.json").endswith(end)


@pytest.mark.spec("A40")
def test_what_is_no_text_is_named_with_size_and_kind(tmp_path: Path, hands: Hands) -> None:
    (tmp_path / "a.pdf").write_bytes(b"%PDF\0" * 1_000)
    text = hands.run("read_file", path="a.pdf")
    assert text == "a.pdf: binary file (application/pdf), 5.0 kB; open it with code"
    (tmp_path / "noise.dat").write_bytes(b"\xff\x8b\x08\xf6\x81")
    text = hands.run("read_file", path="noise.dat")
    assert text == "noise.dat: binary file (unknown type), 5 B; open it with code"


def picture(kind: str, mode: str, size: tuple[int, int], **options: Any) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, kind, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("kind", "mode", "media"),
    [
        ("PNG", "RGBA", "png"),
        ("PNG", "1", "png"),
        ("PNG", "I;16", "png"),
        ("JPEG", "RGB", "jpeg"),
        ("JPEG", "CMYK", "jpeg"),
        ("GIF", "P", "png"),
        ("WEBP", "RGB", "png"),
    ],
)
def test_images_are_handed_to_models_that_can_see(
    tmp_path: Path, hands: Hands, kind: str, mode: str, media: str
) -> None:
    (tmp_path / "picture").write_bytes(picture(kind, mode, (40, 20)))
    result = hands.run("read_file", path="picture")
    assert isinstance(result, ToolResult)
    assert result.output.startswith(f"image 40×20 ({kind}, ")
    (image,) = result.images
    assert (image.media_type, image.width, image.height) == (f"image/{media}", 40, 20)
    assert file_rendering.is_image(base64.b64decode(image.data))


def test_a_large_image_is_scaled_down_and_loses_its_metadata(tmp_path: Path, hands: Hands) -> None:
    from PIL import Image

    exif = Image.Exif()
    exif[0x010E] = "taken at home"
    data = picture("JPEG", "RGB", (4_000, 1_000), exif=exif)
    assert b"taken at home" in data
    (tmp_path / "a.jpg").write_bytes(data)
    result = hands.run("read_file", path="a.jpg")
    assert result.output.endswith("shown at 1568×392")
    assert b"taken at home" not in base64.b64decode(result.images[0].data)


@pytest.mark.parametrize("size", [(9_000, 9_000), (10_000, 10_000), (30_000, 30_000)])
def test_an_image_bomb_is_refused_by_its_header(
    tmp_path: Path, hands: Hands, size: tuple[int, int]
) -> None:
    data = picture("PNG", "1", (8, 8))
    header = size[0].to_bytes(4, "big") + size[1].to_bytes(4, "big")
    body = b"IHDR" + header + data[24:29]
    bomb = data[:12] + body + zlib.crc32(body).to_bytes(4, "big") + data[33:]
    (tmp_path / "bomb.png").write_bytes(bomb)
    with pytest.raises(PathValidationError, match="pixels; at most 50,000,000 are unpacked"):
        hands.run("read_file", path="bomb.png")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(cut=st.integers(8, 400), noise=st.binary(max_size=20))
def test_a_damaged_image_fails_with_a_reason(
    tmp_path: Path, hands: Hands, cut: int, noise: bytes
) -> None:
    (tmp_path / "bad.png").write_bytes(picture("PNG", "RGB", (50, 50))[:cut] + noise)
    try:
        answer = hands.run("read_file", path="bad.png").output
    except PathValidationError as error:
        answer = str(error)
    assert answer.startswith(("image 50×50", "bad.png is a damaged image"))


def test_a_notebook_is_read_as_its_cells(tmp_path: Path, hands: Hands) -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["out\n", "x" * 2_000]},
        {"output_type": "display_data", "metadata": {}, "data": {"image/png": "aGk="}},
        {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["\x1b[31m"]},
    ]
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Title\n", "text"]},
        {
            "cell_type": "code",
            "metadata": {},
            "execution_count": 1,
            "source": "1/0",
            "outputs": outputs,
        },
    ]
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook))
    text = hands.run("read_file", path="a.ipynb")
    for expected in (
        "2 cells",
        "#0 markdown",
        "# Title",
        "#1 code",
        "1/0",
        "ValueError: no",
        "-> out",
    ):
        assert expected in text
    assert "(image: image/png)" in text
    assert len(text) < 1_000
    (tmp_path / "bad.ipynb").write_text('{"cells": 3, "nbformat": 4}')
    assert hands.run("read_file", path="bad.ipynb") == '     1\t{"cells": 3, "nbformat": 4}'


# --- write_file ----------------------------------------------------------------------------------


@pytest.mark.spec("A41")
def test_writing_makes_parents_and_appending_adds(tmp_path: Path, hands: Hands) -> None:
    assert (
        hands.run("write_file", path="x/y/a.txt", content="one\n").output == "wrote x/y/a.txt, 4 B"
    )
    hands.run("write_file", path="x/y/a.txt", content="two\n", mode="append")
    assert (tmp_path / "x" / "y" / "a.txt").read_text() == "one\ntwo\n"
    hands.run("write_file", path="new.txt", content="first", mode="append")
    assert (tmp_path / "new.txt").read_text() == "first"
    (tmp_path / "dos.txt").write_bytes(b"a\r\n")
    hands.run("write_file", path="dos.txt", content="b\nc\r\n", mode="append")
    assert (tmp_path / "dos.txt").read_bytes() == b"a\r\nb\r\nc\r\n"
    with pytest.raises(InvalidArgumentsError, match="mode"):
        hands.run("write_file", path="a", content="b", mode="truncate")
    with pytest.raises(InvalidArgumentsError, match="Unicode"):
        hands.run("write_file", path="a", content="\ud800")


@pytest.mark.spec("A41")
def test_the_card_shows_a_new_file_as_all_added(tmp_path: Path, hands: Hands) -> None:
    content = "".join(f"line {number}\n" for number in range(5_000)) + "end"
    shown = hands.show("write_file", path="a.txt", content=content)
    assert (shown.kind, shown.language) == ("diff", "diff")
    assert shown.text.startswith("--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1,5001 @@\n+line 0\n")
    added = [line[1:] for line in shown.text.split("\n")[3:] if line.startswith("+")]
    assert "\n".join(added) == content
    assert not (tmp_path / "a.txt").exists(), "showing changes nothing"


lines = st.lists(st.sampled_from(["a", "b", "@@ -1 +1 @@", "--- x", "+++ y", "", "é"]), max_size=30)


@pytest.mark.spec("A41")
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)
@given(
    old=lines,
    new=lines,
    costly=st.sampled_from([0, 4_000]),
    ends=st.booleans(),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_the_diff_is_complete_patch_turns_the_old_file_into_the_new(
    tmp_path: Path, old: list[str], new: list[str], costly: int, ends: bool, end: str
) -> None:
    before, after = "\n".join(old) + "\n", "\n".join(new) + "\n" * ends
    sides = (text.replace("\n", end).encode() for text in (before, after))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ipyagent.tools.file_change._MAX_DIFF_LINES", costly)
        diff = Change("f", *sides, summary="").diff()
    (tmp_path / "f").write_text(before, newline="")
    if before != after:
        command = ["git", "apply", "--unidiff-zero", "--whitespace=nowarn", "-"]
        subprocess.run(command, input=diff.encode(), cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "f").read_bytes().decode() == after


def test_overwriting_a_binary_file_says_what_is_lost(tmp_path: Path, hands: Hands) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0" * 2_000)
    text = hands.show("write_file", path="a.bin", content="one\ntwo").text
    assert text.startswith("binary file a.bin, 2.0 kB, would be replaced by\n+one\n+two\n")
    with pytest.raises(PathValidationError, match="binary"):
        hands.show("write_file", path="a.bin", content="x", mode="append")


# --- edit_file -----------------------------------------------------------------------------------


@pytest.mark.spec("D15")
def test_an_edit_replaces_exactly_one_occurrence_or_all_when_told(
    tmp_path: Path, hands: Hands
) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\ny = 2\nx = 1\n")
    assert path.read_text().replace("x = 1", "x = 9").count("x = 9") == 2, "str.replace takes both"
    with pytest.raises(InvalidArgumentsError, match=r"occurs 2 times in a\.py \(lines 1, 3\)"):
        hands.run("edit_file", path="a.py", old_string="x = 1", new_string="x = 9")
    assert path.read_text() == "x = 1\ny = 2\nx = 1\n"
    done = hands.run("edit_file", path="a.py", old_string="y = 2", new_string="y = 3")
    assert done.output == "replaced 1 occurrence in a.py"
    done = hands.run("edit_file", path="a.py", old_string="x", new_string="z", replace_all=True)
    assert done.output == "replaced 2 occurrences in a.py"
    assert path.read_text() == "z = 1\ny = 3\nz = 1\n"
    path.write_text("aaa")
    with pytest.raises(InvalidArgumentsError, match="occurs 2 times"):
        hands.run("edit_file", path="a.py", old_string="aa", new_string="b")


@pytest.mark.spec("D15")
def test_empty_and_equal_strings_are_rejected(tmp_path: Path, hands: Hands) -> None:
    (tmp_path / "a.py").write_text("y=2")
    assert "y=2".replace("", "Z") == "ZyZ=Z2Z"
    for old, new in (("", "Z"), ("y", "y")):
        for replace_all in (True, False):
            edit = {"old_string": old, "new_string": new, "replace_all": replace_all}
            with pytest.raises(InvalidArgumentsError, match=r"empty|equal"):
                hands.show("edit_file", path="a.py", **edit)
    with pytest.raises(PathValidationError, match="no such file"):
        hands.run("edit_file", path="nope.py", old_string="a", new_string="b")


def test_line_ends_of_the_file_are_known_in_an_edit(tmp_path: Path, hands: Hands) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"1\r\n2\r\nthree\r\n")
    hands.run("edit_file", path="a.txt", old_string="2\r\nthree", new_string="3")
    assert path.read_bytes() == b"1\r\n3\r\n"


def test_a_string_that_is_not_there_gets_the_closest_lines(tmp_path: Path, hands: Hands) -> None:
    (tmp_path / "a.py").write_text("import os\n\ndef area(radius):\n    return 3 * radius\n")
    with pytest.raises(InvalidArgumentsError, match="compare spaces") as caught:
        hands.run("edit_file", path="a.py", old_string="def area(radios):", new_string="x")
    assert "     3\tdef area(radius):" in str(caught.value)
    with pytest.raises(InvalidArgumentsError, match="nor anything like it"):
        hands.run("edit_file", path="a.py", old_string="µµµµµµµµ", new_string="x")


# --- delete_file ---------------------------------------------------------------------------------


@pytest.mark.spec("A42", "A18")
def test_deleting_shows_what_is_lost_and_takes_files_only(tmp_path: Path, hands: Hands) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "b.bin").write_bytes(b"\0" * 10)
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("a.txt")
    shown = hands.show("delete_file", path="a.txt").text
    assert shown == "--- a/a.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n"
    assert (
        hands.show("delete_file", path="b.bin").text
        == "binary file b.bin, 10 B, would be deleted\n"
    )
    for path in ("sub", "link", "nope", "."):
        with pytest.raises(PathValidationError):
            hands.show("delete_file", path=path)
    assert hands.run("delete_file", path="a.txt").output == "deleted a.txt, 8 B"
    assert sorted(p.name for p in tmp_path.iterdir()) == [".ipyagent", "b.bin", "link", "sub"]


def test_what_may_not_be_changed_is_refused_before_anybody_is_asked(hands: Hands) -> None:
    for path in ("../x", ".env", ".ipyagent/state.db", ".ipyagent/skills/x/SKILL.md", "a\u200bb"):
        for name, arguments in {
            "write_file": {"content": "x"},
            "edit_file": {"old_string": "a", "new_string": "b"},
            "delete_file": {},
        }.items():
            with pytest.raises(AgentError, match=r"escapes|secrets|private state|look-alike"):
                hands.show(name, path=path, **arguments)


def test_every_call_says_which_files_it_is_about(tmp_path: Path, hands: Hands) -> None:
    for name, tool in hands.tools.items():
        assert tool.paths is not None, name
        for spelt in ("data/a.csv", "./data/../data//a.csv", f"{tmp_path}/data/a.csv"):
            assert list(tool.paths(path=spelt)) == ["data/a.csv"]
        assert list(tool.paths(path="../x")) == ["../x"], "the call itself says what is wrong"
    read = hands.tools["read_file"]
    assert read.source(path=f"{tmp_path}/a\n.csv", offset=1) == r"a\n.csv"
    (search,) = search_tools(Workspace(tmp_path))
    assert list(search.paths(**search.check_arguments({"query": "x"}))) == ["."]
    assert list(search.paths(query="x", path="data/")) == ["data"]
    assert search.source(query="x") == "files in this folder"


def describe(root: Path, name: str, data: bytes | None = None) -> str:
    if data is not None:
        (root / name).write_bytes(data)
    return describe_binary(Workspace(root), name)


@pytest.mark.parametrize("data", [b"plain", "wide".encode("utf-16"), "wide".encode("utf-16-le")])
def test_text_is_not_binary(data: bytes) -> None:
    assert not is_binary(data)


def test_kinds_are_known_by_their_first_bytes(tmp_path: Path) -> None:
    for start, kind in {
        b"%PDF-1.7": "PDF document",
        b"\x93NUMPY": "NumPy array",
        b"\x89HDF\r\n\x1a\n": "HDF5 file",
        b"PAR1": "Parquet file",
        b"\x28\xb5\x2f\xfd": "Zstandard file",
    }.items():
        data = start + b"\0" * 100
        assert is_binary(data)
        assert describe(tmp_path, "x", data).startswith(f"x: {kind}, 1")
    assert describe(tmp_path, "x.dat", b"\1\0\2\0\0") == (
        "x.dat: binary file (unknown type), 5 B; open it with code"
    )


def test_the_contents_of_zip_archives_are_listed(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("data/t.csv", "a,b\n1,2\n")
        archive.writestr("evil\x1b[2J\n../../x", "")
    text = describe(tmp_path, "a.zip")
    assert text.splitlines()[1:] == [
        "2 files and folders:",
        "  data/t.csv  8 B",
        r"  evil\x1b[2J\n../../x  0 B",
    ]
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        for number in range(150):
            archive.writestr(f"{number}", "")
    lines = describe(tmp_path, "b.zip").splitlines()
    assert lines[1] == "150 files and folders:"
    assert lines[-1] == "  … and more"
    assert len(lines) == 102
    assert "cannot be listed" in describe(tmp_path, "c.zip", b"PK\3\4 nothing")


def test_reading_a_binary_file_describes_it(tmp_path: Path) -> None:
    tools = FileReadTools(Workspace(tmp_path))
    connection = sqlite3.connect(tmp_path / "t.db")
    connection.execute("CREATE TABLE t (a, b)")
    connection.close()
    for read in (tools.read_file, tools.inspect_file):
        assert "t.db: SQLite table 't', 0 rows" in str(read("t.db"))
    (tmp_path / "other.db").write_bytes(b"\0\1\2" * 100)
    text = str(tools.read_file("other.db"))
    assert text.startswith("other.db: binary file")
    assert "not shown as a table: it is not a SQLite database" in text


def test_tables_are_described_and_their_lines_shown_with_a_limit(tmp_path: Path) -> None:
    tools = FileReadTools(Workspace(tmp_path))
    (tmp_path / "t.csv").write_text('id,text\n1,"' + "long " * 100 + '"\n2,short\n')
    text = str(tools.read_file("t.csv"))
    assert text.startswith("t.csv: CSV file, 2 rows")
    assert text.endswith("(read_file with a limit shows its lines.)")
    assert tools.inspect_file("t.csv") in text
    lines = str(tools.read_file("t.csv", limit=2)).splitlines()
    assert lines[0] == "     1\tid,text"
    assert lines[1].startswith('     2\t1,"long')
    assert len(lines[1]) < 80
    assert "cells cut at 60 characters" in lines[-1]
    assert "3\t2,short" in str(tools.read_file("t.csv", offset=3))


def test_text_is_not_inspected_but_read(tmp_path: Path) -> None:
    tools = FileReadTools(Workspace(tmp_path))
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(InvalidArgumentsError, match="read_file shows it"):
        tools.inspect_file("a.txt")
    (tmp_path / "settings.json").write_text('{"a": 1}')
    with pytest.raises(
        InvalidArgumentsError, match=r"not a list of objects, .*; read_file shows it"
    ):
        tools.inspect_file("settings.json")
    assert '{"a": 1}' in str(tools.read_file("settings.json"))
