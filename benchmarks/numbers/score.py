"""Score the numbers of answers: planted mistakes found, false alarms, sources.

    python benchmarks/numbers/score.py                 # the set to work with
    python benchmarks/numbers/score.py held_out        # other data, written after the rules
    python benchmarks/numbers/score.py --show alarms missed sources notes
    python benchmarks/numbers/score.py --time          # 100 numbers among 200,000

Mistakes are those that stand in the answers, and those that are planted by a seed in the honest
numbers, one at a time: a digit changed, two digits swapped, off by one in the last place, rounded
wrongly, ten or a thousand times too much or too little, or invented.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from ipyagent.number_tables import read_numbers
from ipyagent.numbers import TracedNumber, trace_numbers

HERE = Path(__file__).parent
MARK = re.compile(r"\{([=~!?])((?:[^{}|]|\{[^{}]*\})+)(?:\|([^}]*))?\}")
DIGIT = re.compile(r"\d")
KINDS = ("digit", "swap", "last", "rounding", "scale", "invented")
DATE = re.compile(r"\d{4}-|\d:\d|[A-Z][a-z]{2}")


@dataclass(frozen=True)
class Marked:
    """A number that is marked in an answer: `=` found, `~` derived, `!` wrong, `?` misplaced."""

    mark: str
    text: str
    start: int
    where: str = ""

    @property
    def end(self) -> int:
        """The place after it."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class Answer:
    """An answer without its marks, and what the model had read."""

    name: str
    text: str
    marks: tuple[Marked, ...]
    texts: tuple[tuple[str, str], ...]
    """What the model had read: the prompt after "", and the results after their numbers."""

    def trace(self, text: str | None = None) -> list[TracedNumber]:
        """Return the numbers of the answer, or of one with another text."""
        return trace_numbers(text or self.text, self.texts)


@dataclass
class Score:
    """Counts, and what went wrong, in words."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, list[str]] = field(default_factory=dict)

    def add(self, what: str, is_right: bool, words: str) -> None:
        """Count one, and keep its words if it is wrong."""
        self.counts[what] += 1
        if not is_right:
            self.wrong.setdefault(what, []).append(words)

    def share(self, *whats: str) -> float:
        """Return how much of something went wrong, from 0 to 1."""
        wrong = sum(len(self.wrong.get(what, ())) for what in whats)
        return wrong / max(1, sum(self.counts[what] for what in whats))

    def rate(self, *whats: str) -> str:
        """Return how much of something went wrong, as a percentage with the number of all."""
        total = sum(self.counts[what] for what in whats)
        return f"{100 * self.share(*whats):5.1f} % of {total}"


def read_answers(folder: Path) -> Iterator[Answer]:
    """Yield the answers of a folder, with their prompts and results."""
    scenes = {each["id"]: each for each in yaml.safe_load((folder / "scenes.yaml").read_text())}
    results = yaml.safe_load((folder / "results.yaml").read_text())
    for scene, answers in yaml.safe_load((folder / "answers.yaml").read_text()).items():
        texts = (
            ("", scenes[scene]["prompt"]),
            *((str(n), t) for n, t in enumerate(results[scene], 1)),
        )
        for number, marked in enumerate(answers, 1):
            text, marks = strip_marks(marked)
            yield Answer(f"{scene} {number}", text, marks, texts)


def strip_marks(marked: str) -> tuple[str, tuple[Marked, ...]]:
    """Return an answer as the user reads it, and its marks with their places in it."""
    text, marks, end = "", [], 0
    for found in MARK.finditer(marked):
        text += marked[end : found.start()]
        marks.append(Marked(found[1], found[2], len(text), found[3] or ""))
        text, end = text + found[2], found.end()
    return text + marked[end:], tuple(marks)


def overlapping(traced: list[TracedNumber], start: int, end: int) -> list[TracedNumber]:
    """Return the numbers that share characters with a part of the answer."""
    return [each for each in traced if each.start < end and start < each.start + len(each.text)]


def score_answer(answer: Answer, score: Score) -> None:
    """Count what is right and wrong in an answer as it is written."""
    traced = answer.trace()
    for mark in answer.marks:
        there = overlapping(traced, mark.start, mark.end)
        is_alarm = any(each.trace == "not found" for each in there)
        around = answer.text[max(0, mark.start - 40) : mark.end + 25].replace("\n", "⏎")
        words = f"{answer.name}: {mark.text!r} in …{around}…"
        if mark.mark == "!":
            formula = "; ".join(f"{each.trace} {each.line} {each.formula}" for each in there)
            score.add("missed", is_alarm, f"{words} {formula or 'no claim'}")
        elif mark.mark in "=~":
            score.add("alarms", not is_alarm, words)
            if not there:
                score.add("unseen", False, words)
            elif not is_alarm and mark.where:
                score.add("sources", is_source_right(answer, mark, there), f"{words} {there}")
            elif not is_alarm and mark.mark == "~":
                formulas = [each.formula for each in there if each.formula]
                score.add("formulas", bool(formulas), f"{words} found in line {there[0].line}")
                score.wrong.setdefault("notes", []).append(f"{words} = {formulas}")
        else:
            score.add("misplaced", is_alarm, words)
    for each in traced:
        if not any(
            m.start < each.start + len(each.text) and each.start < m.end for m in answer.marks
        ):
            score.add("no claims", each.trace != "not found", f"{answer.name}: {each.text!r}")


def is_source_right(answer: Answer, mark: Marked, there: list[TracedNumber]) -> bool:
    """Return whether the number's text stands where it should: in the call or line of its mark."""
    if any(each.trace == "derived" for each in there):
        return False
    texts = dict(answer.texts)
    if mark.where.isdigit():
        return all(each.source == mark.where for each in there)
    return all(mark.where in texts[each.source].split("\n")[each.line - 1] for each in there)


def plant(text: str, kind: str, chance: random.Random) -> str:
    """Return a number's text with a mistake in it; the same text if there can be none."""
    places = [
        found.start()
        for found in DIGIT.finditer(re.split(r"(?<=\d)[eE]|\s?[\u00d7x]|\\times", text)[0])
    ]
    digits = [text[place] for place in places]
    first = next((n for n, digit in enumerate(digits) if digit != "0"), 0)
    changed = list(digits)
    if kind == "digit":
        place = chance.randrange(first, len(digits))
        changed[place] = chance.choice([d for d in "123456789" if d != digits[place]])
    elif kind == "swap":
        pairs = [n for n in range(first, len(digits) - 1) if digits[n] != digits[n + 1] != "0"]
        if pairs:
            place = chance.choice(pairs)
            changed[place], changed[place + 1] = digits[place + 1], digits[place]
    elif kind in ("last", "rounding"):
        step = chance.choice((-1, 1)) * (1 if kind == "last" or len(digits) < 4 else 2)
        changed = list(f"{int(''.join(digits)) + step:0{len(digits)}}")
    elif kind == "invented":
        changed = [chance.choice("123456789") if n >= first else "0" for n in range(len(digits))]
    elif kind == "scale":
        return scale_up(text)
    if len(changed) != len(digits):
        return text
    letters = list(text)
    for place, digit in zip(places, changed, strict=True):
        letters[place] = digit
    return "".join(letters)


def scale_up(text: str) -> str:
    """Return ten times a number, or a hundred times if it has two decimals, grouped as it was."""
    if re.search(r"\d,\d\d?(?!\d)", text):
        return text.replace(",", "").lstrip("0")
    number = re.search(r"\d[\d,]*(?:\.\d+)?", text)
    if number is None:
        return text
    whole, _, decimals = number[0].partition(".")
    scaled = int(whole.replace(",", "") + decimals) * (1 if decimals else 10)
    grouped = f"{scaled:,}" if "," in whole else str(scaled)
    return text[: number.start()] + grouped + text[number.end() :]


def plant_all(answers: list[Answer], seeds: int, score: Score) -> None:
    """Plant a mistake in each honest number, with each seed, and count the ones that are missed."""
    for seed in range(seeds):
        for answer in answers:
            chance = random.Random(f"{seed} {answer.name}")
            known = {abs(value) for _, each in answer.texts for value in read_numbers(each)}
            for mark in answer.marks:
                kind = chance.choice(KINDS)
                text = plant(mark.text, kind, chance) if mark.mark in "=~" else mark.text
                is_small = re.fullmatch(r"\d|10", mark.text)
                if text == mark.text or is_small or (DATE.search(text) and kind == "scale"):
                    continue
                planted = answer.text[: mark.start] + text + answer.text[mark.end :]
                there = overlapping(answer.trace(planted), mark.start, mark.start + len(text))
                is_alarm = any(each.trace == "not found" for each in there)
                how = "; ".join(f"{e.trace} {e.source}:{e.line} {e.formula}" for e in there)
                words = f"{answer.name}: {mark.text!r} → {text!r} ({kind}) {how or 'no claim'}"
                values = [value for part in there for value in read_numbers(part.text)]
                is_true = any(value in known for value in values) and not is_alarm
                score.add("by chance in a result" if is_true else "seeded", is_alarm, words)


def score_all(answers: list[Answer], seeds: int) -> Score:
    """Score answers as they are written, and with mistakes planted in them."""
    score = Score()
    for answer in answers:
        score_answer(answer, score)
    plant_all(answers, seeds, score)
    return score


def measure_time() -> None:
    """Print how long 100 numbers take among 200,000."""
    chance = random.Random(1)
    values = [chance.lognormvariate(5, 3) for _ in range(200_000)]
    rows = ("  ".join(f"{v:.4f}" for v in values[n : n + 10]) for n in range(0, len(values), 10))
    text = "\n".join(f"row {n}  {row}" for n, row in enumerate(rows))
    answer = "".join(
        f"The mean of a row is {chance.choice(values) * chance.choice((1, 1, 1, 1.07)):.4g}"
        + (".\n\n" if n % 5 == 0 else ", ")
        for n in range(100)
    )
    begin = time.process_time()
    traced = trace_numbers(answer, [("1", text)])
    whole = time.process_time() - begin
    begin = time.process_time()
    trace_numbers("It is 12,345.", [("1", text)])
    reading = time.process_time() - begin
    print(
        f"{len(traced)} numbers among 200,000: {(whole - reading) * 1e3:.0f} ms; reading the "
        f"results: {reading * 1e3:.0f} ms (processor time)"
    )


def main() -> None:
    """Score a folder, and print the rates and what was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", default="")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--show", nargs="*", default=["alarms", "missed", "unseen", "sources"])
    parser.add_argument("--time", action="store_true")
    options = parser.parse_args()
    if options.time:
        return measure_time()
    answers = list(read_answers(HERE / options.folder))
    score = score_all(answers, options.seeds)
    for what in options.show:
        for words in score.wrong.get(what, ()):
            print(f"{what}: {words}")
    print(f"{len(answers)} answers, {sum(len(each.marks) for each in answers)} marked numbers")
    print("planted by hand, missed   ", score.rate("missed"))
    print("planted by seed, missed   ", score.rate("seeded"))
    print("  also in a result by chance", score.counts["by chance in a result"])
    print("all planted, missed       ", score.rate("missed", "seeded"))
    print("false alarms              ", score.rate("alarms"))
    print("sources wrong             ", score.rate("sources"))
    print("derived without formula   ", score.rate("formulas"))
    print("no claims, but flagged    ", score.counts["no claims"], score.rate("no claims"))
    return None


if __name__ == "__main__":
    main()
