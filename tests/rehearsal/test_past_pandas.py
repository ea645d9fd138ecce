"""Code that writes into the memory of a table past pandas is noticed; code that reads is a look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ipyagent.rehearsal.confinement import Limits
from patience import PATIENCE
from rehearsal_trial import rehearse

SIZES = (10, pytest.param(1_000_000, marks=pytest.mark.slow))
LIMITS = Limits(seconds=PATIENCE, setup=PATIENCE)


def table(rows: int) -> pd.DataFrame:
    """A table with a column of every kind of memory."""
    numbers = np.arange(rows)
    return pd.DataFrame(
        {
            "a": numbers,
            "b": numbers / 2,
            "n": pd.array(numbers, dtype="Int64"),
            "d": pd.to_datetime(numbers),
            "c": pd.Categorical.from_codes(numbers % 3, categories=[10, 20, 30]),
        },
        index=numbers * 2,
    )


def clear(values: Any) -> None:
    """Write, as a function of the user's."""
    values.flags.writeable = True
    values[0] = 9


def variables(rows: int) -> dict[str, Any]:
    some = np.arange(min(rows, 20_000))
    return {
        "df": table(rows),
        "o": pd.Series(some, dtype=object),
        "s": pd.Series(np.arange(rows)),
        "labels": pd.Index(np.arange(rows) * 3),
        "zeros": pd.Series(np.zeros(rows)),
        "both": {"inner": [table(rows)]},
        "levels": pd.Series(1, index=pd.MultiIndex.from_arrays([some] * 2)),
        "clear": clear,
        "np": np,
        "pd": pd,
    }


WRITES = [
    ("df", "w = df['a'].array; w[0] = 9; del w"),
    ("df", "df['a'].array[len(df) // 2] = 9"),
    ("df", "df['b'].array[-1] = 9"),
    ("df", "df['a']._values[len(df) // 2] = 9"),
    ("df", "df._mgr.blocks[0].values[0, 3:8] = 9"),
    ("df", "df._mgr.arrays[0].fill(9)"),
    ("df", "a = df['a'].to_numpy(); a.flags.writeable = True; a[1] = 9; del a"),
    ("df", "v = np.asarray(df['b']); v.setflags(write=True); v[7] = 9; del v"),
    ("df", "v = df['b'].values; v.setflags(write=True); memoryview(v)[3] = 9.5; del v"),
    ("df", "v = df['b'].values; v.setflags(write=True); np.negative(v, out=v); del v"),
    ("df", "v = df['a'].values; v.setflags(write=True); v[::-1].sort(); del v"),
    ("df", "import ctypes; ctypes.memset(df['a'].values.ctypes.data + 16, 1, 8)"),
    ("df", "clear(df['a'].to_numpy())"),
    ("df", "[clear(c.to_numpy()) for _, c in df[['b']].items()]"),
    ("df", "getattr(df['a'], '_val' + 'ues')[5] = 9"),
    ("o", "o.array[3] = 'x'"),
    ("df", "df['n'].array._data[4] = 9"),
    ("df", "df['n'].array._mask[len(df) // 2] = True"),
    ("df", "df['d'].array._ndarray[2] = 9"),
    ("df", "df['c'].array._codes[2] = 0"),
    ("df", "df['c'].cat.categories._values[0] = 11"),
    ("df", "df.index._values[4] = 9"),
    ("df", "df.copy(deep=False)['a'].array[2] = 9"),
    ("df", "df['a'].array[0] = 9; df['new'] = 1"),
    ("df", "values = vars()['df']['a']._values; values[0] = 9; del values"),
    ("s", "s.array[:] = 0"),
    ("s", "s._values[s > 5] = 0"),
    ("zeros", "zeros._values[len(zeros) // 2] = 1"),
    ("labels", "labels._values[-1] = 0"),
    ("both", "both['inner'][0]['a'].array[2] = 9"),
    ("df", "df.eval('b').array[3] = 33"),
    ("df", "np.random.default_rng(1).shuffle(df.a._values)"),
    ("levels", "levels.index.levels[0]._values[2] = 9"),
    ("levels", "v = levels.index.codes[0]; v.setflags(write=True); v[2] = 0; del v"),
]


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.spec("E13")
def test_a_write_past_pandas_is_noticed_and_told_of_its_variable(tmp_path: Path, rows: int) -> None:
    unnoticed = []
    given = variables(rows)
    for name, code in WRITES:
        report = rehearse(code, given, tmp_path, limits=LIMITS)
        names = [each["name"] for each in report.get("variables", ())]
        text = f"writes into the memory of {name}, past pandas"
        if name not in names or text not in report.get("unclear", ()):
            unnoticed.append((code, names, report.get("problem"), report["result"]["output"]))
    assert unnoticed == []
    pd.testing.assert_frame_equal(given["df"], table(rows))


LOOKS = [
    "df['a'].array.sum()",
    "df['a'].to_numpy().mean()",
    "df['a']._values[0]",
    "df.groupby('c', observed=True)['a'].mean()",
    "df.copy().iloc[:3]",
    "df.copy(deep=False).assign(a=1).sum(numeric_only=True)",
    "df.sort_values('b', ascending=False).head()",
    "df.merge(df, on='a').shape",
    "df.sort_index().loc[4]",
    "df.loc[4, 'a'], df.reindex([2, 4]).n.tolist()",
    "df.describe(include='all')",
    "df.memory_usage(deep=True)",
    "df['n'].isna().sum() + df['n'].mean()",
    "df['d'].dt.year.max()",
    "df['c'].value_counts()",
    "o.isna().sum(), o.map(str).max()",
    "df[df.a > 3].b.rolling(2).mean().sum()",
    "memoryview(df['b'].values)[3]",
    "np.add(df['a'].to_numpy(), 1).max()",
    "t = df[['a']].copy(); t.loc[0, 'a'] = 5; del t",
    "t = df[:]; t['a'] = 5; del t",
    "v = df['a'].to_numpy(copy=True); v[0] = 5; v.sort(); del v",
    "x = df['a'].array.copy(); x[0] = 5; del x",
    "zeros.sum(), zeros.max(), zeros._values.any()",
    "labels.get_indexer([3, 6]), labels.is_unique, labels.max()",
    "both['inner'][0].drop_duplicates('c').shape",
    "levels.loc[2], levels.unstack().shape if len(levels) < 99 else 0",
    "pd.concat([df, df]).a.sum()",
    "df.pivot_table(index='c', values='a', observed=True)",
    "df.head(100).to_csv(), str(df), df.T.shape if len(df) < 99 else 0",
    "from matplotlib.figure import Figure\nimport io\n"
    "f = Figure(); f.subplots().plot(df.a[:99], df.b[:99]); f.savefig(io.BytesIO())\n"
    "del f, io, Figure",
]


@pytest.mark.parametrize("rows", [10, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_code_that_only_reads_tables_is_a_look(tmp_path: Path, rows: int) -> None:
    given, wrong = variables(rows), []
    for code in LOOKS:
        report = rehearse(code, given, tmp_path, limits=LIMITS)
        found = [report.get(key) for key in ("problem", "variables", "unclear")]
        if any(found) or not report["result"]["success"]:
            wrong.append((code, found, report["result"]))
    assert wrong == []


def test_a_table_that_shares_the_memory_is_told_of_too(tmp_path: Path) -> None:
    df = table(10)
    given = {"df": df, "renamed": df.rename(columns={"a": "z"}), "taken": df.take([2, 0])}
    report = rehearse("df['a'].array[0] = 9", given, tmp_path, limits=LIMITS)
    assert {each["name"] for each in report["variables"]} == {"df", "renamed"}
