"""Titles of code: what it reads, makes and changes. None of them is its last line."""

from __future__ import annotations

import re
import textwrap

import pytest
from sample import call

from growth import LINEAR, growth
from ipyagent import schema as s
from ipyagent.ui.transcribe.gist import find_gist, title_code

LISTED = r"""
looks at penguins: species, body_mass_g
    penguins.groupby("species")["body_mass_g"].mean()
looks at df: head
    df.head()
looks at df: describe
    df.describe()
looks at df: a
    df["a"].value_counts()
looks at df: shape, dtypes
    print(df.shape)
    print(df.dtypes)
looks at df: isna, sum
    df.isna().sum()
reads sales.csv → sales
    import pandas as pd
    sales = pd.read_csv("sales.csv")
    sales.head()
reads files → sales
    import pandas as pd
    from pathlib import Path
    frames = [pd.read_csv(p) for p in Path("data").glob("*.csv")]
    sales = pd.concat(frames)
    sales.shape
reads 3 files → sales
    q1 = pd.read_csv("a.csv")
    q2 = pd.read_csv("b.csv", sep=";")
    q3 = pd.read_parquet("c.parquet")
    sales = pd.concat([q1, q2, q3])
    sales.head()
reads 3 files → sales, old and 1 more
    sales = pd.read_csv("a.csv")
    old = pd.read_csv("b.csv", sep=";").dropna()
    returns = pd.read_json("c.jsonl", lines=True)
    returns = returns.dropna()
    for table in (sales, old, returns):
        print(table.shape)
reads book.xlsx → df
    df = pd.read_excel("book.xlsx", sheet_name="Data")
    df
sets 2 columns of sales
    sales["month"] = pd.to_datetime(sales["date"]).dt.month
    sales["vip"] = sales.qty > 5
    sales.head()
sets region of sales
    sales["region"] = sales["region"].str.strip().str.title()
sets qty of sales
    sales.loc[sales.qty < 0, "qty"] = 0
changes sales
    sales = sales.dropna().drop_duplicates()
makes merged from sales, customers
    merged = sales.merge(customers, on="customer_id", how="left")
    merged.head()
makes monthly from sales
    monthly = sales.groupby("month")["revenue"].sum().reset_index()
    monthly
makes pivot from sales
    pivot = sales.pivot_table(index="region", columns="quarter", values="revenue")
    pivot
changes sales
    sales.sort_values("date", inplace=True)
deletes tmp, scratch
    del tmp, scratch
writes clean.csv
    sales.to_csv("clean.csv", index=False)
writes out/sales.parquet
    sales.to_parquet("out/sales.parquet")
    print("ok")
plots monthly
    import matplotlib.pyplot as plt
    fig, ax = plt.subplots()
    ax.bar(monthly.month, monthly.revenue)
    ax.set_title("Revenue by month")
    plt.show()
plots sales
    sales.plot(x="date", y="revenue")
    plt.show()
writes bill.png, plots penguins
    plt.scatter(penguins["bill_length_mm"], penguins["body_mass_g"])
    plt.xlabel("Bill length")
    plt.savefig("bill.png")
plots penguins
    import seaborn as sns
    sns.boxplot(data=penguins, x="species", y="body_mass_g")
makes X_train, X_test and 2 more from X, y
    from sklearn.model_selection import train_test_split
    X_train, X_test, y_train, y_test = train_test_split(X, y)
fits model
    from sklearn.linear_model import LinearRegression
    model = LinearRegression()
    model.fit(X_train, y_train)
    model.score(X_test, y_test)
fits clf
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.metrics import classification_report
    clf = RandomForestClassifier(random_state=0).fit(X_train, y_train)
    print(classification_report(y_test, clf.predict(X_test)))
reads sales.csv → df
    import polars as pl
    df = pl.read_csv("sales.csv")
    df.group_by("region").agg(pl.col("revenue").sum())
reads big.parquet → lf
    lf = pl.scan_parquet("big.parquet").filter(pl.col("qty") > 5)
    lf.collect()
looks at sales
    import duckdb
    duckdb.sql("select region, sum(revenue) from sales group by 1").df()
opens shop.duckdb
    con = duckdb.connect("shop.duckdb")
    orders = con.execute("select * from orders").df()
opens shop.db, reads orders
    import sqlite3
    con = sqlite3.connect("shop.db")
    pd.read_sql("select * from orders", con)
writes report.md
    with open("report.md", "w") as f:
        f.write("# Report")
reads notes.txt → text
    text = open("notes.txt").read()
    len(text.split())
reads config.json → config
    import json
    with open("config.json") as f:
        config = json.load(f)
    config
writes out/report.md
    from pathlib import Path
    Path("out").mkdir(exist_ok=True)
    Path("out/report.md").write_text("x")
deletes old.csv
    import os
    os.remove("old.csv")
defines rmse
    def rmse(a, b):
        return ((a - b) ** 2).mean() ** 0.5

    rmse(y_test, model.predict(X_test))
looks at df: columns
    for col in df.columns:
        print(col, df[col].nunique())
changes w
    trained = w
    for i in range(100):
        w -= 0.1 * grad(w)
    trained
makes x
    x = 5
looks at x, y
    x + y
runs 1 line
    1 + 1
makes corr from df
    corr = df.corr(numeric_only=True)
    corr["price"].sort_values()
makes a
    import numpy as np
    a = np.arange(10)
    a.mean()
looks at df: price
    df.loc[df.price.idxmax()]
looks at sales: revenue
    print(len(sales), sales.revenue.sum())
makes counts from rows
    counts = {}
    for r in rows:
        counts[r["k"]] = counts.get(r["k"], 0) + 1
sets columns of df
    df.columns = [c.lower() for c in df.columns]
changes df
    df = df.rename(columns={"A": "a"})
    df["b"] = 1
fits res
    import statsmodels.formula.api as smf
    res = smf.ols("y ~ x", data=df).fit()
    print(res.summary())
looks at sales: region
    sales.query("qty > 5").groupby("region").size()
looks at items: append
    items.append(3)
changes sales
    sales.drop(columns=["tmp"], inplace=True)
calls https://x.y/z.json
    requests.get("https://x.y/z.json").json()
Look at duplicates
    # Look at duplicates
    df.duplicated().sum()
reads a.csv → df
    try:
        df = pd.read_csv("a.csv")
    except UnicodeDecodeError:
        df = pd.read_csv("a.csv", encoding="latin1")
    df.info()
plots monthly
    px.line(monthly, x="month", y="revenue").show()
plots monthly
    fig = px.line(monthly, x="month", y="revenue")
    fig.show()
plots sales
    alt.Chart(sales).mark_bar().encode(x="region", y="sum(revenue)")
runs ls
    !ls
runs timeit f(x)
    %timeit f(x)
looks at df: merge
    help(df.merge)
looks at df: a, b
    pd.crosstab(df.a, df.b)
"""
"""Titles, each above its code."""

BLOCKS = re.findall(r"^(\S.*)\n((?:(?:    .*)?\n)+)", LISTED, re.MULTILINE)


@pytest.mark.parametrize(("title", "code"), BLOCKS, ids=[title for title, _ in BLOCKS])
def test_code_has_a_title_that_says_what_is_read_or_made(title: str, code: str) -> None:
    assert title_code(textwrap.dedent(code)) == title


@pytest.mark.parametrize(
    ("code", "title"),
    [
        ("# Compute the mean.\nx = 1", "Compute the mean."),
        ("# ------\n# == Load ==\n# ------\nx = 1", "Load"),
        ("#!/usr/bin/env python\n# %%\nx = 1", "makes x"),
        ("models['a'] = Ridge().fit(X, y)", "sets a of models, fits Ridge"),
        ("self.model = m.fit(X, y)", "sets model of self, fits m"),
        ("_ = m.fit(X, y)", "fits m"),
        ('files = ["a.csv", "b.csv"]\nq = pd.concat([pd.read_csv(f) for f in files])',
         "reads 2 files → q"),
        ("q = []\nfor f in fs:\n    q.append(pd.read_csv(f))\nx = 5\ns = pd.concat(q)",
         "reads files → s"),
        ("by = q.groupby('a').b.sum()\nby.plot.bar()", "plots by"),
        ("del m, d['k']\nos.remove('a.csv')", "deletes m, d and 1 more"),
        ("q = pd.read_csv('a.csv')\nq.to_parquet('a.pq')", "writes a.pq, reads a.csv → q"),
        ("n = 0\nfor x in xs:\n    n += x", "makes n from xs"),
        ("df[['a', 'b']] = 0", "sets 2 columns of df"),
        ("a = 1\nb = 2\nc = 3", "makes a, b and 1 more"),
        ("x = s.str.replace('\\d', '')", "makes x from s"),
        ("%time\ndf.a.sum()", "looks at df: a"),
        ("print('select an item from list')", "looks at list"),
        ("warnings.filterwarnings('ignore')\ndf.describe()", "looks at df: describe"),
        ("df.select(pl.col('a'))", "looks at df: a"),
        ("subprocess.run(['ls', '-l'])", "runs 1 line"),
        ("import time\nimport numpy as np", "imports time, numpy"),
        ("import time\nfor i in range(9):\n    print(i)\n    time.sleep(1)", "runs 4 lines"),
        ("1 / 0", "runs 1 line"),
        ("((((", "runs 1 line"),
        ("(" * 30_000 + "\n1", "runs 2 lines"),
        ("", "runs 1 line"),
    ],
)  # fmt: skip
def test_a_title_is_no_more_than_what_the_code_names(code: str, title: str) -> None:
    assert title_code(code) == title


@pytest.mark.parametrize(
    ("sql", "title"),
    [
        ("SELECT 1 FROM 'a/*.csv' JOIN \"the b\" USING (k)", "queries a/*.csv, the b"),
        ("select * from sales s, read_csv('x')", "queries sales"),
        ("from range(9) select 1", "queries from range(9) select 1"),
        ("SHOW TABLES", "queries SHOW TABLES"),
    ],
)
def test_the_title_of_a_query_names_its_tables(sql: str, title: str) -> None:
    query = s.ToolExecution(call=call("c1", "query", {"sql": sql}))
    assert " ".join(find_gist(query, "").title.split()) == title


@pytest.mark.parametrize("piece", ["x = m.fit(a)\n", "y.a = 1\n", "px.line(a).show()\n"])
def test_a_title_takes_linear_time(piece: str) -> None:
    title = title_code.__wrapped__
    assert growth(lambda count: title(piece * count), 100) < LINEAR


def test_a_call_that_may_change_something_does_not_say_that_it_looks() -> None:
    code = call("c1", "run_python", {"code": "known.append(3)"})
    for sensitive, verb in ((True, "works on"), (False, "looks at")):
        gist = find_gist(s.ToolExecution(call=code, sensitive=sensitive), "")
        assert gist.title == f"{verb} known: append"
    asked = s.ToolExecution(call=code, question=s.Question(text="Who looks at it?"))
    assert find_gist(asked, "Who looks at it?").title == "Who looks at it?"
    said = call("c1", "run_python", {"code": "# looks at known\nknown.append(3)"})
    its_own = s.ToolExecution(call=said, sensitive=True)
    assert find_gist(its_own, "").title == "looks at known"
