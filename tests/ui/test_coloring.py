"""Code in colors: what is read stays what was written, and no code takes long."""

from __future__ import annotations

import re
import subprocess
import sys

import hostile
import pytest
from bs4 import BeautifulSoup
from hypothesis import given, strategies as st
from inspection import dangers, read

from growth import LINEAR, growth
from ipyagent.ui.live_blocks import Prose
from ipyagent.ui.parts import pre
from ipyagent.ui.reveal import color_code
from ipyagent.ui.sanitize import markdown_blocks, markdown_to_html

LANGUAGES = ["python", "bash", "diff", "json", "sql"]

CODE = {
    "python": '# hi\n@a\ndef f(x: int = 1) -> str:\n    """Doc."""\n    return f"{x!r}" or None',
    "bash": 'for i in a "$b"; do echo $((1 + 2)); done  # no',
    "diff": "--- a\n+++ b\n@@ -1,2 +1,2 @@\n-x\n+y\n \n z",
    "json": '{"a": [1, 2.5, true, null, "\\u00e9"]}',
    "sql": "SELECT a, count(*) FROM t WHERE b = 'x' -- all",
}
SIGNS = ["'", '"', '"""', "\\", "#", "--", "/*", "`", "$(", "${", "{", "}", "f'", "<<E\n", "\n"]
SIGNS += ["\r", "\u2028", "\u202e", "\0", "é", "\U0001f469\u200d\U0001f4bb"]
SIGNS += ["&lt;", "&#0;", "<b>", "@", "+"]


def text_of(of: str) -> str:
    return BeautifulSoup(of, "html.parser").get_text()


@pytest.mark.parametrize("language", LANGUAGES)
def test_code_in_colors_reads_as_it_was_written(language: str) -> None:
    colored = color_code(CODE[language], language)
    assert len(set(re.findall(r"<(\w+)>", colored))) >= 2
    assert read(colored) == CODE[language]
    changed = [p for p in hostile.ALL if read(color_code(p, language)) != p]
    assert changed == []
    assert [p for p in hostile.ALL if dangers(color_code(p, language))] == []


@given(st.lists(st.sampled_from([*SIGNS, *CODE.values(), "a", " "]), max_size=12).map("".join))
def test_no_mixture_of_signs_changes_the_text(code: str) -> None:
    for language in LANGUAGES:
        assert read(color_code(code, language)) == code


@pytest.mark.spec("D5")
@pytest.mark.parametrize("hidden", [*hostile.HIDDEN, "a" + " " * 60 + "b", "pаypal = 1", "a\n" * 9])
def test_what_hides_in_code_is_spelt_out_in_colors_too(hidden: str) -> None:
    code = f'x = "{hidden}"  # {hidden}\n{hidden}'
    assert text_of(pre(code, "python")) == text_of(pre(code))
    assert "<samp>" in pre(code, "python")


def test_fenced_code_reads_as_without_colors() -> None:
    for code in [*CODE.values(), *hostile.ALL]:
        text = f"A\n\n```python\n{code}\n```\n\n- b\n  ```sql\n  {code}\n  ```\n"
        colored = markdown_to_html(text)
        assert dangers(colored) == []
        assert text_of(colored) == text_of("".join(markdown_blocks(text, is_open=True)))


def test_code_that_is_still_written_is_plain_until_its_fence_ends_it() -> None:
    prose = Prose()
    fence = "```python\nimport re\n"
    (plain,), _ = prose.update(fence)
    (colored,), _ = prose.update(f"{fence}```\n")
    assert ("<b>" in plain, "<b>import </b>" in colored) == (False, True)
    assert text_of(plain) == text_of(colored)


@pytest.mark.parametrize("language", ["klingon", "", "guess", "html+php", "python2.7", "text"])
def test_code_in_a_language_that_is_not_known_stays_plain(language: str) -> None:
    assert color_code("import re", language) == ""
    assert "<b>" not in markdown_to_html(f"```{language}\nimport re\n```")


@pytest.mark.parametrize("code", ["import re\n" * 3_000, "x = 1\n" + " \n" * 500])
def test_long_code_stays_plain(code: str) -> None:
    assert color_code(code, "python") == ""
    assert color_code(code[:300], "python")


@pytest.mark.slow
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_code_takes_more_than_linear_time(language: str) -> None:
    pieces = [*SIGNS, *CODE[language].split(), "a.", "   \n\n\nx", "0x", "1e", "'\\", '\\"', "{a:"]
    grown = {
        piece: growth(lambda count, p=piece: color_code.__wrapped__(p * count, language), size)
        for piece in pieces
        for size in [1_000 // len(piece)]
    }
    assert {piece: times for piece, times in grown.items() if times > LINEAR} == {}


def test_pygments_is_imported_with_the_first_code() -> None:
    code = """
import sys
from ipyagent.ui import blocks, sanitize, parts
sanitize.markdown_to_html('Some `code` and ```\\nmore\\n```'), parts.pre('x', 'klingon')
before = 'pygments' in sys.modules
parts.pre('import re', 'python')
print(before, 'pygments' in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"
