"""Which measure a core asks for: by its marks, and by the order of its other words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ipyagent.explorer.grammar import matches
from ipyagent.explorer.questions import describing, inference, ranking
from ipyagent.explorer.questions.frame import Core
from ipyagent.explorer.questions.measure import Measure, Query
from ipyagent.explorer.steps import MisfitError


@dataclass(frozen=True)
class Intent:
    """A kind of question: marks that it needs and allows, the order of the rest, its measures."""

    order: str
    build: Callable[[Query], list[Measure]]
    needs: str = ""
    allows: str = ""
    where: bool | None = None  # conditions: needed (True), refused (False) or possible
    groups: bool = False
    decides: bool = False  # answers yes or no

    def fits(self, query: Query) -> bool:
        """Return whether every word of the question has its place in this kind."""
        marks, needs = set(query.frame.marks), set(self.needs.split())
        if not needs <= marks <= needs | set(self.allows.split()):
            return False
        if (query.frame.by and not self.groups) or (query.frame.asks and not self.decides):
            return False
        if self.where is not None and bool(query.frame.where) != self.where:
            return False
        return matches(self.order, query.core)


_STAT = "(STAT|EXTREME)"
_STATS = f"{_STAT} (AND {_STAT})*"
_COLS = "COL (AND COL)*"
_TEST = "PVALUE STATISTIC SIGNIFICANT LIBRARY IGNORE ALPHA"

INTENTS = (
    Intent(
        f"{_STATS} {_COLS} (AND {_STATS} ({_COLS})?)* | COL AND? {_STATS}",
        describing.statistics,
        allows="LIBRARY IGNORE DISTRIBUTION",
        groups=True,
    ),
    Intent("(NUMBER|PERCENT) COL", describing.percentile, "QUANTILE", "LIBRARY IGNORE"),
    Intent("", describing.size, "SIZE", where=False),
    Intent("", describing.count, "COUNT", "ROWS IGNORE", where=True),
    Intent("", describing.count, "COUNT ROWS", where=False),
    Intent("COL", describing.count_named, "COUNT", "IGNORE ROWS", where=True),
    Intent("COL", describing.missing, "COUNT NO RECORDED", "ROWS"),
    Intent("", describing.share, "SHARE", "ROWS", where=True),
    Intent("COL", describing.distinct, "COUNT UNIQUE", "IGNORE"),
    Intent("COL", describing.distinct, "UNIQUE", "IGNORE"),
    Intent("COL", ranking.mode, "MODE", "TIMES IGNORE"),
    Intent("COL", ranking.mode, "OFTEN", "TIMES IGNORE"),
    Intent("COL", describing.missing, "MISSING", "COUNT SHARE ROWS"),
    Intent("", ranking.most_missing, "COLUMN MISSING MOST", "COUNT", where=False),
    Intent("", ranking.most_missing, "COLUMNMOST MISSING", "COUNT", where=False),
    Intent("EXTREME", ranking.most_missing, "COLUMN MISSING COUNT", where=False),
    Intent("COL", describing.outliers, "OUTLIERS", "COUNT ROWS IQR ZSCORE LIBRARY IGNORE"),
    Intent("COL EXTREME STAT COL (AND STAT)?", ranking.best_group, groups=True, allows="IGNORE"),
    Intent("COL EXTREME COL", ranking.extreme_row, allows="IGNORE"),
    Intent("COL AND? COL", inference.correlation, "CORR", f"METHOD STRONG {_TEST}", decides=True),
    Intent("EXTREME? COL", inference.strongest_correlation, "CORR COLUMN STRONG", "METHOD"),
    Intent("COL", inference.normality, "NORMAL",
           f"SHAPIRO DAGOSTINO DISTRIBUTION {_TEST}", decides=True),
    Intent("COL", inference.normality, "SHAPIRO", f"DISTRIBUTION {_TEST}", decides=True),
    Intent("COL", inference.normality, "DAGOSTINO", f"DISTRIBUTION {_TEST}", decides=True),
    Intent("STAT? COL AND? PAIR | PAIR AND? STAT? COL", inference.t_test, "TTEST",
           f"WELCH DIFFERENCE COMPARE {_TEST}", decides=True),
    Intent("STAT? COL AND? PAIR | PAIR AND? STAT? COL", inference.t_test, "WELCH",
           f"DIFFERENCE COMPARE {_TEST}", decides=True),
    Intent("COL AND? COL", inference.independence, "CHI2",
           f"INDEPENDENCE CORR {_TEST}", decides=True),
    Intent("COL AND? COL AND?", inference.regression, "REGRESSION",
           "SLOPE INTERCEPT RSQUARED PREDICTS FUNCTION INDEPENDENT DEPENDENT IGNORE "
           "LIBRARY PVALUE"),
)  # fmt: skip


def measures_of(query: Query) -> list[Measure] | None:
    """Return the measures of a core; None if no kind of question describes it completely."""
    for core in _with_and_without_rows(query.core):
        tried = replace(query, core=core)
        for intent in INTENTS:
            if intent.fits(tried):
                named = sum(each.tag == "COL" for each in core)
                if intent.build is not describing.statistics and len(tried.columns) < named:
                    raise MisfitError("I need two different columns for that.")
                return intent.build(tried)
    return None


def _with_and_without_rows(core: Core) -> Iterator[Core]:
    """Yield the core with `states` as the column `state`, then only as whose rows they are."""
    yield tuple(replace(each, tag="COL") if each.tag == "PLURAL" else each for each in core)
    if any(each.tag == "PLURAL" for each in core):
        yield tuple(each for each in core if each.tag != "PLURAL")
