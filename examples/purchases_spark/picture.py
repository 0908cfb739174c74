"""The demo as a picture: revenue per day as Spark wrote it, and micro-batches against kills."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import altair as alt

from examples.purchases_spark.audit import Day
from examples.purchases_spark.watch import Batch, Seen

Chart: TypeAlias = alt.LayerChart | alt.FacetChart

WIDTH: Final = 980
BLUE: Final = "#3564a5"
LIGHT_BLUE: Final = "#7d9cc9"
ORANGE: Final = "#d9782d"
RED: Final = "#c0392b"
GREY: Final = "#6b7280"
SINK_COLOURS: Final = {"bills": BLUE, "revenue": ORANGE}


class Kill(NamedTuple):
    """What was killed, so many seconds after the start."""

    seconds: float
    what: str


def draw(
    folder: Path,
    written: Sequence[Day],
    expected: Sequence[Day],
    batches: Sequence[Batch],
    seen: Sequence[Seen],
    kills: Sequence[Kill],
) -> list[Path]:
    """`purchases.png` and `purchases.html`, which needs nothing but itself."""
    chart = (
        alt.vconcat(_revenue(written, expected), _run(batches, seen, kills), spacing=36)
        .resolve_legend(color="independent")
        .properties(
            title=alt.Title(
                f"{sum(one.purchases for one in written):,} purchases through Spark, exactly once",
                subtitle=f"{len(kills)} kill -9 on the way; what Spark wrote is what the data says",
                fontSize=20,
                subtitleFontSize=13,
                subtitleColor=GREY,
                offset=18,
            ),
            padding=24,
        )
        .configure(font="Helvetica, Arial, Liberation Sans, sans-serif")
        .configure_view(stroke=None)
        .configure_axis(gridColor="#eceff3", domainColor="#9aa3af", labelColor="#374151")
    )
    picture, page = folder / "purchases.png", folder / "purchases.html"
    chart.save(picture, scale_factor=1.5)
    chart.save(page, inline=True)
    return [picture, page]


def _revenue(written: Sequence[Day], expected: Sequence[Day]) -> Chart:
    spark = alt.InlineData(values=[_dollars(one) for one in written])
    data = alt.InlineData(values=[_dollars(one) for one in expected])
    day = alt.X("day:T", title=None, axis=alt.Axis(format="%b %Y", tickCount="month"))
    dollars = alt.Y("dollars:Q", title="dollars a day", axis=alt.Axis(format="~s", tickCount=5))
    tooltip = [
        alt.Tooltip("day:T", format="%a %d %b %Y"),
        alt.Tooltip("dollars:Q", format=",.2f"),
        alt.Tooltip("purchases:Q", format=","),
    ]
    bars = (
        alt.Chart(spark)
        .mark_bar(color=LIGHT_BLUE, size=1.7)
        .encode(x=day, y=dollars, tooltip=tooltip)
    )
    truth = alt.Chart(data).mark_circle(color=ORANGE, size=7, opacity=1).encode(x=day, y=dollars)
    return alt.layer(bars, truth).properties(
        width=WIDTH,
        height=220,
        title=alt.Title(
            "Revenue per day",
            subtitle="bars: the topic `revenue`, each day written once; dots: the data",
            anchor="start",
            subtitleColor=GREY,
        ),
    )


def _run(batches: Sequence[Batch], seen: Sequence[Seen], kills: Sequence[Kill]) -> Chart:
    end = max([one.seconds for one in batches] + [one.seconds for one in seen], default=1.0)
    second = alt.X(
        "seconds:Q",
        title="seconds since the start",
        scale=alt.Scale(domain=[0, end * 1.02], nice=False),
    )
    most = max((one.purchases for one in batches), default=1)
    purchases = alt.Y(
        "purchases:Q",
        title="purchases",
        axis=alt.Axis(format="~s", tickCount=6),
        scale=alt.Scale(domain=[0, most * 1.1], nice=False),
    )
    sink = alt.Color(
        "sink:N",
        title="committed by the sink",
        scale=alt.Scale(domain=[*SINK_COLOURS], range=[*SINK_COLOURS.values()]),
        legend=alt.Legend(orient="bottom-right", offset=12),
    )
    visible = (
        alt.Chart(alt.InlineData(values=_steps(seen)))
        .mark_area(
            color=BLUE,
            opacity=0.12,
            line={"color": BLUE, "strokeWidth": 1.5},
            interpolate="step-after",
        )
        .encode(x=second, y=purchases)
    )
    dots = (
        alt.Chart(alt.InlineData(values=[_dot(one) for one in batches]))
        .mark_point(filled=True, size=70, opacity=0.9, stroke="white", strokeWidth=0.8)
        .encode(
            x=second,
            y=purchases,
            color=sink,
            tooltip=["sink:N", "batch_id:Q", "rows:Q", "generation:Q", "seconds:Q"],
        )
    )
    killed = alt.InlineData(
        values=[{**one._asdict(), "until": _next(one, batches)} for one in kills]
    )
    away = alt.Chart(killed).mark_rect(color=RED, opacity=0.1).encode(x=second, x2="until:Q")
    lines = alt.Chart(killed).mark_rule(color=RED, strokeWidth=1.5).encode(x=second)
    labels = (
        alt.Chart(killed)
        .mark_text(color=RED, align="left", dx=5, dy=10, fontSize=12, fontWeight="bold")
        .encode(x=second, y=alt.value(0), text="what:N")
    )
    return alt.layer(away, visible, dots, lines, labels).properties(
        width=WIDTH,
        height=300,
        title=alt.Title(
            "Micro-batches against kills",
            subtitle=(
                "line: invoices that a reader of committed records sees; dots: micro-batches, "
                "when they were committed; red: from a kill to the next of them"
            ),
            anchor="start",
            subtitleColor=GREY,
        ),
    )


def _next(kill: Kill, batches: Sequence[Batch]) -> float:
    """When the next micro-batch was committed."""
    return min((one.seconds for one in batches if one.seconds > kill.seconds), default=kill.seconds)


def _dollars(day: Day) -> dict[str, object]:
    return {"day": day.day, "dollars": day.cents / 100, "purchases": day.purchases}


def _dot(batch: Batch) -> dict[str, object]:
    return {**batch._asdict(), "seconds": round(batch.seconds, 2)}


def _steps(seen: Sequence[Seen]) -> list[dict[str, float]]:
    """Where it changes, and the last one."""
    changes = [
        one
        for before, one in zip((None, *seen), seen, strict=False)
        if before is None or one.billed != before.billed
    ]
    return [{"seconds": one.seconds, "purchases": one.billed} for one in [*changes, *seen[-1:]]]
