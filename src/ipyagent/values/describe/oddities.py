"""Oddities of data that change a result: kinds of text in one column, gaps, repeats, sums."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ipyagent.values.describe.preview import is_comparable
from ipyagent.values.describe.safe_inspect import type_name

CHOICES = 6
"""Different values of a column that are named, at most."""
_FORMS = 12
"""Different forms of text that a column may have before letters are taken as equal."""
_TEXTS = 2_000
"""Different texts of a column that are compared."""
_SHOWN = 4
_FEWEST = 5
"""Different numbers from which a gap between them says something."""
_WORDS = re.compile(r"[^\W\d_]+(?: [^\W\d_]+)*")


def clear_missing(values: Sequence[object]) -> list[Any] | None:
    """Return values that can be compared, with None where one is missing.

    None if some are of unknown classes: to compare them would run their code.
    """
    classes = {id(cls): cls for cls in map(type, values)}
    if not all(map(is_comparable, classes.values())):
        return None
    missing = {key for key, cls in classes.items() if type_name(cls) in ("NaTType", "NAType")}
    if missing or id(float) in classes:
        return [None if id(type(each)) in missing or each != each else each for each in values]
    return [*values]


def pick_examples(texts: Sequence[str]) -> tuple[list[str], bool]:
    """Return texts that show how a column is written, and whether these are all.

    Of many, the first of the commonest form and of the rarest ones; of prose, one.
    """
    distinct = [*dict.fromkeys(texts)]
    if len(distinct) <= CHOICES:
        return distinct, True
    forms = Counter[str]()
    examples: dict[str, str] = {}
    for generalize in (_generalize_digits, _generalize_words):
        forms, examples = Counter(), {}
        for each in distinct[:_TEXTS]:
            form = generalize(each[:80])
            forms[form] += 1
            examples.setdefault(form, each)
        if len(forms) <= _FORMS:
            break
    else:
        return distinct[:1], False
    common, *others = (form for form, _ in forms.most_common())
    return [examples[form] for form in (common, *others[1 - _SHOWN :])], False


def _generalize_digits(text: str) -> str:
    return re.sub(r"\d+", "9", text)


def _generalize_words(text: str) -> str:
    def name_case(word: re.Match[str]) -> str:
        return "a" if word[0].islower() else "A" if word[0].isupper() else "Aa"

    return _WORDS.sub(name_case, _generalize_digits(text))


def find_spellings(texts: Sequence[str]) -> list[list[str]]:
    """Return groups of texts that differ only in case or blanks."""
    groups: dict[str, list[str]] = {}
    for each in [*dict.fromkeys(texts)][:_TEXTS]:
        groups.setdefault(" ".join(each.split()).casefold(), []).append(each)
    return [group for group in groups.values() if len(group) > 1]


def split_range(numbers: Sequence[float]) -> list[tuple[float, float]]:
    """Return the range of numbers, in two or three parts where a gap is wider than all the rest."""
    ordered = sorted(set(numbers))
    parts = [ordered]
    while len(ordered) >= _FEWEST and len(parts) < 3:
        longest = max(parts, key=len)
        width, at = max((b - a, n) for n, (a, b) in enumerate(pairwise(longest), 1))
        if not math.isfinite(width) or width <= (longest[-1] - longest[0]) / 2:
            break
        place = parts.index(longest)
        parts[place : place + 1] = [longest[:at], longest[at:]]
        ordered = max(parts, key=len)
    return [(part[0], part[-1]) for part in parts if part]


def count_repeats(columns: Sequence[Sequence[object]]) -> int:
    """Return how many rows are there already; the columns are as long as each other."""
    return len(columns[0]) - len(set(zip(*columns, strict=True))) if columns else 0


def ends_in_sum(numbers: Sequence[float | None]) -> bool:
    """Return whether the last number is the sum of those above, which are several."""
    *above, last = numbers or [None]
    given = [each for each in above if each]
    total = math.fsum(given) if all(map(math.isfinite, given)) else math.nan
    return last is not None and len(given) > 2 and math.isclose(total, last) and last not in given
