"""Runs Polars, and prints name=value for each row of each answer. Every value depends only on the numbers."""

import sys

import polars as pl

ROWS = 400_000


def facts():
    i = pl.int_range(ROWS, eager=True)
    return pl.DataFrame({
        "i": i, "k": (i * 7919) % 1009, "v": (i * 104729) % 99991, "f": (i % 977) / 7,
        "s": ("word " + ((i * 31) % 5003).cast(pl.String) + "," + (i % 17).cast(pl.String)),
        "d": pl.datetime_range(pl.datetime(2001, 1, 1), pl.datetime(2001, 1, 1) + pl.duration(minutes=ROWS - 1), "1m", eager=True),
    })


def show(name, frame, most=300):
    for number, row in enumerate(frame.head(most).iter_rows()):
        print(f"{name} {number}={tuple(round(x, 6) if isinstance(x, float) else x for x in row)}")


def groups(f):
    show("sums", f.group_by("k").agg(pl.len(), pl.col("v").sum(), pl.col("s").min(), pl.col("s").n_unique().alias("u"), pl.col("f").median()).sort("k"))
    show("lists", f.group_by(pl.col("k") % 100).agg(pl.col("v").sort().head(5), pl.col("s").sort_by("i").last()).sort("k"))
    show("months", f.group_by_dynamic("d", every="12h").agg(pl.len(), pl.col("v").max(), pl.col("s").first()))
    show("counts", f["s"].value_counts().sort("s"))


def joins(f):
    names = pl.DataFrame({"k": range(1009), "name": [f"name {n * n % 733}" for n in range(1009)], "team": [n % 41 for n in range(1009)]})
    show("inner", f.join(names, on="k").group_by("team").agg(pl.col("v").sum(), pl.col("name").max(), pl.len()).sort("team"))
    show("left", f.filter(pl.col("k") < 40).join(names.filter(pl.col("team") > 20), on="k", how="left").sort("i").select("i", "name", "s"))
    show("anti", f.join(names.filter(pl.col("k") % 3 > 0), on="k", how="anti").sort("v", "i").select("k", "v", "i"))
    show("asof", f.head(3000).join_asof(f.slice(1500, 3000).select("d", other="v"), on="d", strategy="backward").tail(300).select("i", "other"))
    show("cross", names.head(40).join(names.tail(40), how="cross").sort("name", "k", "k_right").select("k", "k_right", "name_right"))


def windows(f):
    show("over", f.with_columns(r=pl.col("v").rank("dense").over("k"), c=pl.col("v").cum_sum().over("k")).tail(300).select("i", "r", "c"))
    show("rolling", f.with_columns(m=pl.col("v").rolling_mean(50), q=pl.col("v").rolling_quantile(0.3, window_size=31)).tail(300).select("i", "m", "q"))
    show("shift", f.with_columns(pl.col("s").shift(3).over("k").alias("before")).filter(pl.col("before").is_not_null()).tail(300).select("i", "before"))


def strings(f):
    s = pl.col("s")
    show("text", f.select(s.str.to_uppercase(), s.str.replace_all(r"\d+", "#").alias("r"), s.str.split(",").list.last().alias("l"),
                          s.str.extract(r"(\d+),", 1).cast(pl.Int64).alias("n")).sort("s", "n"))
    show("explode", f.head(50000).select("i", s.str.split(" ")).explode("s").group_by("s").agg(pl.len(), pl.col("i").sum()).sort("s"))
    show("categories", f.select(s.cast(pl.Categorical), "v").group_by("s").agg(pl.col("v").sum()).with_columns(s.cast(pl.String)).sort("s"))
    show("concat", f.group_by("k").agg(s.sort_by("i").head(4).str.join("|")).sort("k"))


def files(f):
    part = f.head(120_000)
    for kind in ("parquet", "csv", "ipc", "ndjson"):
        getattr(part, f"write_{kind}")(f"facts.{kind}")
        back = getattr(pl, f"read_{kind}")(f"facts.{kind}")
        show(kind, back.group_by("k").agg(pl.col("v").sum(), pl.col("s").max(), pl.col("f").sum()).sort("k"))
        print(f"{kind} height={back.height}")


def lazy(f):
    f.write_parquet("facts.parquet")
    plan = (pl.scan_parquet("facts.parquet").filter(pl.col("v") % 3 > 0).with_columns(g=pl.col("k") % 300)
            .group_by("g").agg(pl.col("v").sum(), pl.col("s").n_unique(), pl.col("i").max()).sort("g"))
    show("lazy", plan.collect())
    show("streaming", plan.collect(engine="streaming"))
    both = pl.collect_all([plan, plan.filter(pl.col("v") > 0), plan.select(pl.col("i").sum())])
    for number, frame in enumerate(both):
        show(f"all {number}", frame)
    show("sql", pl.SQLContext(t=f).execute("select k, sum(v) v, count(*) n from t where i % 2 = 0 group by k order by k").collect())


{"groups": groups, "joins": joins, "windows": windows, "strings": strings, "files": files, "lazy": lazy}[sys.argv[1]](facts())
