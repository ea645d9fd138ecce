"""Measures that infer: correlation, tests of normality, of groups and of independence, a line."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ipyagent.explorer.grammar import find_pattern
from ipyagent.explorer.markdown import code, number
from ipyagent.explorer.names import words
from ipyagent.explorer.questions.measure import Measure, Query, Result, Values, as_number
from ipyagent.explorer.snippets import cut, literal, rows
from ipyagent.explorer.steps import MisfitError

_P = frozenset({"p", "pvalue", "value", "probability"})
_STATISTIC = frozenset({"statistic", "stat", "test", "value"})
_TESTS = {"pearson": "pearsonr", "spearman": "spearmanr", "kendall": "kendalltau"}


def correlation(query: Query) -> list[Measure]:
    """Return the correlation of two columns, and its p-value."""
    a, b = query.numeric(*query.columns)
    query.ask.pandas_only("Correlations with a p-value")
    method = query.frame.marks.get("METHOD") or "pearson"
    pair = query.ask.name("pair")
    lines = [f"{pair} = {cut(query.table, query.ask.where, [a, b])}.dropna()"]
    r_words = frozenset({"correlation", "coefficient", "corr", "r", "rho", "tau", method, "value"})
    if query.has("PVALUE") or query.has("SIGNIFICANT") or _asks_p(query):
        test = query.ask.name("test")
        lines.append(f"{test} = stats.{_TESTS[method]}({_column(pair, a)}, {_column(pair, b)})")
        results = [
            Result("r", f"{test}.statistic", r_words),
            Result("p", f"{test}.pvalue", _P),
            _decision("significant", query.frame.alpha, below=True, extra="correlated correlation"),
        ]
        drop = [pair, test]
    else:
        how = "" if method == "pearson" else f", method={literal(method)}"
        results = [Result("r", f"{_column(pair, a)}.corr({_column(pair, b)}{how})", r_words)]
        drop = [pair]
    report = partial(_report_correlation, query, method, a, b)
    return [
        Measure(
            f"{method} correlation of {a} and {b}",
            tuple(results),
            report,
            tuple(lines),
            tuple(drop),
        )
    ]


def _asks_p(query: Query) -> bool:
    return bool(query.wanted & {"p", "pvalue"})


def _column(frame: str, column: str) -> str:
    return f"{frame}[{literal(column)}]"


def _report_correlation(query: Query, method: str, a: str, b: str, values: Values) -> str:
    r = _figure(query, values["r"])
    p = f", p = **{_figure(query, values['p'])}**" if "p" in values else ""
    return (
        f"{method.capitalize()} correlation of {code(a)} and {code(b)}: **{r}**{p}"
        f"{_verdict(query, values)} (in {query.ask.about})."
    )


def _verdict(query: Query, values: Values) -> str:
    if "significant" not in values:
        return ""
    negated = "" if values["significant"] else "not "
    return f": {negated}significant at {query.frame.alpha:g}"


def _figure(query: Query, value: object) -> str:
    """Return a number with the decimals that were asked for, or with four digits that matter."""
    digits = query.frame.digits
    return f"{as_number(value):.4g}" if digits is None else number(str(value), digits)


def _decision(name: str, alpha: float, *, below: bool, extra: str = "") -> Result:
    """Return what follows from the p-value: true below (or not below) the level."""

    def derive(values: Values) -> object:
        p = as_number(values["p"])
        return None if p != p else (p < alpha) == below

    return Result(name, "", frozenset({name, *extra.split()}), "truth", derive)


def strongest_correlation(query: Query) -> list[Measure]:
    """Return the column that correlates most strongly with another."""
    (column,) = query.numeric(*query.columns)
    query.ask.pandas_only("Correlations with all columns")
    others, name = query.table.of_kind("number"), query.ask.name("correlations")
    source = cut(query.table, query.ask.where, others)
    lines = (f"{name} = {source}.corr()[{literal(column)}].drop({literal(column)})",)
    results = (
        Result("column", f"{name}.abs().idxmax()", frozenset({"column", "variable"}), "text"),
        Result("r", f"{name}[{name}.abs().idxmax()]", frozenset({"correlation", "r", "value"})),
    )

    def report(values: Values) -> str:
        other = f"**{code(str(values['column']))}**"
        return (
            f"{other} correlates most strongly with {code(column)}: {_figure(query, values['r'])}."
        )

    return [Measure(f"strongest correlation with {column}", results, report, lines, (name,))]


def normality(query: Query) -> list[Measure]:
    """Return a test of normality: Shapiro-Wilk, or D'Agostino and Pearson's if it is named."""
    (column,) = query.numeric(*query.columns)
    if query.has("SHAPIRO") and query.has("DAGOSTINO"):
        raise MisfitError("With which test? Please ask for one of them.")
    call, title = "shapiro", "Shapiro-Wilk"
    if query.has("DAGOSTINO"):
        call, title = "normaltest", "D'Agostino-Pearson"
    line = f"stats.{call}({query.values(column, drop=True)})"
    decision = _decision("normal", query.frame.alpha, below=False, extra="normality normally is")
    return [_test(query, f"{title} test of {column}", line, decision, partial(_say_normal, column))]


def _say_normal(column: str, normal: object) -> str:
    if normal is None:
        return f"Nothing can be said of {code(column)}"
    verb = "is compatible with" if normal else "does not follow"
    return f"{code(column)} {verb} a normal distribution"


def _test(
    query: Query, title: str, call: str, decision: Result, say: Callable[[object], str],
    lines: tuple[str, ...] = (), drop: tuple[str, ...] = (), extra: str = "",
) -> Measure:  # fmt: skip
    """Return a test with its statistic, its p-value and the decision."""
    test, about, level = query.ask.name("test"), query.ask.about, query.frame.alpha
    results = (
        Result("statistic", f"{test}.statistic", _STATISTIC | frozenset(extra.split())),
        Result("p", f"{test}.pvalue", _P),
        decision,
    )

    def report(values: Values) -> str:
        statistic, p = (_figure(query, values[each]) for each in ("statistic", "p"))
        figures = f"{title}: statistic **{statistic}**, p = **{p}**"
        return f"{say(values[decision.name])} (at {level:g}; {about}). {figures}."

    made = (*lines, f"{test} = {call}")
    return Measure(title, results, report, made, (*drop, test))


def t_test(query: Query) -> list[Measure]:
    """Return a t-test between two groups of a column."""
    query.ask.pandas_only("Tests")
    (column,) = query.numeric(*query.columns)
    (key, one), (_, other) = query.ask.all("PAIR")[0]
    welch = query.has("WELCH")
    groups = query.ask.name("groups")
    source = f"{rows(query.table, query.ask.where)}.dropna(subset=[{literal(column)}])"
    lines = (f"{groups} = {source}.groupby({literal(key)})[{literal(column)}]",)
    pair = ", ".join(f"{groups}.get_group({literal(each)})" for each in (one, other))
    call = f"stats.ttest_ind({pair}{', equal_var=False' if welch else ''})"
    kind = "Welch's t-test" if welch else "Student's t-test (equal variances)"
    decision = _decision("significant", query.frame.alpha, below=True, extra="difference different")

    def say(significant: object) -> str:
        negated = "" if significant else "not "
        names = f"{code(str(one))} and {code(str(other))}"
        return f"The difference in mean {code(column)} between {names} is {negated}significant"

    return [_test(query, kind, call, decision, say, lines, (groups,), extra="t")]


def independence(query: Query) -> list[Measure]:
    """Return a chi-squared test of the independence of two columns."""
    query.ask.pandas_only("Tests")
    a, b = query.ask.groups(*query.columns)
    name = query.ask.name("table")
    source = rows(query.table, query.ask.where)
    lines = (f"{name} = pd.crosstab({source}[{literal(a)}], {source}[{literal(b)}])",)
    decision = _decision("dependent", query.frame.alpha, below=True, extra="significant associated")

    def say(dependent: object) -> str:
        return f"{code(a)} and {code(b)} are {'not ' if dependent else ''}independent"

    title, call = "Chi-squared test", f"stats.chi2_contingency({name})"
    return [
        _test(query, title, call, decision, say, lines, (name,), extra="chi2 chi squared square")
    ]


# The column that explains, and the one that is explained, by the words between them.
_ROLES = (
    ("COL ON COL", (1, 0)),
    ("COL FUNCTION COL", (1, 0)),
    ("PREDICTS COL IN COL", (1, 0)),
    ("COL AS INDEPENDENT AND COL AS DEPENDENT", (0, 1)),
    ("COL AS DEPENDENT AND COL AS INDEPENDENT", (1, 0)),
    ("COL PREDICTS COL", (0, 1)),
)


def regression(query: Query) -> list[Measure]:
    """Return a straight line by least squares: slope, intercept and R squared."""
    query.ask.pandas_only("Regressions")
    x, y = _roles(query)
    query.numeric(x, y)
    pair, fit = query.ask.name("pair"), query.ask.name("fit")
    lines = (
        f"{pair} = {cut(query.table, query.ask.where, [x, y])}.dropna()",
        f"{fit} = stats.linregress({_column(pair, x)}, {_column(pair, y)})",
    )
    results = (
        Result(
            "slope", f"{fit}.slope", frozenset({"slope", "coefficient", "b", "beta", *words(x)})
        ),
        Result("intercept", f"{fit}.intercept", frozenset({"intercept", "a", "constant"})),
        Result("r squared", f"{fit}.rvalue ** 2", frozenset({"r2", "r", "squared", "rsquared"})),
        Result("p", f"{fit}.pvalue", _P),
    )

    def report(values: Values) -> str:
        slope, intercept, r2, p = (_figure(query, values[each.name]) for each in results)
        return (
            f"{code(y)} on {code(x)}: slope **{slope}**, intercept **{intercept}**, "
            f"R² **{r2}**, p {p} (in {query.ask.about})."
        )

    return [Measure(f"linear regression of {y} on {x}", results, report, lines, (pair, fit))]


def _roles(query: Query) -> tuple[str, str]:
    tokens = tuple(each for each in query.raw if each.tag not in ("OF", "WITH", "IS"))
    for pattern, (explaining, explained) in _ROLES:
        if span := find_pattern(pattern, tokens):
            named = [each.value for each in tokens[span[0] : span[1]] if each.tag == "COL"]
            return named[explaining], named[explained]
    raise MisfitError("Which column explains the other? Say “regression of `y` on `x`”.")
