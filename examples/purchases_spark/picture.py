"""A picture of the demo: the revenue of each day as Spark wrote it, the micro-batches and the
kills."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeAlias

import altair as alt

from examples.purchases_spark.audit import Day
from examples.purchases_spark.watch import Batch, Kill, Seen, Watch

Chart: TypeAlias = alt.LayerChart | alt.FacetChart

WIDTH: Final = 980
BLUE: Final = "#3564a5"
LIGHT_BLUE: Final = "#7d9cc9"
ORANGE: Final = "#d9782d"
RED: Final = "#c0392b"
GREY: Final = "#6b7280"
# The maximum time between a commit and its observation.
NOTICED_S: Final = 0.3
SINK_COLOURS: Final = {"bills": BLUE, "revenue": ORANGE}


def draw(
    folder: Path,
    written: Sequence[Day],
    expected: Sequence[Day],
    watch: Watch,
    kills: Sequence[Kill],
) -> list[Path]:
    """Write `purchases.png` and `purchases.html`. The page needs no other files."""
    chart = (
        alt.vconcat(_revenue(written, expected), _run(watch, kills), spacing=36)
        .resolve_legend(color="independent")
        .properties(
            title=alt.Title(
                f"{sum(day.purchases for day in written):,} purchases through Spark, exactly once",
                subtitle=f"{len(kills)} kill -9 on the way; Spark wrote the expected revenue",
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
    spark = alt.InlineData(values=[_dollars(day) for day in written])
    data = alt.InlineData(values=[_dollars(day) for day in expected])
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
            subtitle="bars: the topic `revenue`, each day written once; dots: the expected revenue",
            anchor="start",
            subtitleColor=GREY,
        ),
    )


def _run(watch: Watch, kills: Sequence[Kill]) -> Chart:
    end = max(watch.batches[-1].seconds, watch.billed[-1].seconds)
    most = max(batch.purchases for batch in watch.batches)
    second = alt.X(
        "seconds:Q",
        title="seconds since the start",
        scale=alt.Scale(domain=[0, end], nice=False),
    )
    purchases = alt.Y(
        "purchases:Q",
        title="purchases",
        axis=alt.Axis(format="~s", tickCount=6),
        scale=alt.Scale(domain=[0, most * 1.12], nice=False),
    )
    came = (
        alt.Chart(alt.InlineData(values=_steps(watch.came)))
        .mark_line(color=GREY, strokeWidth=1.5, strokeDash=[4, 3])
        .encode(x=second, y=purchases)
    )
    line = {"color": BLUE, "strokeWidth": 1.5}
    billed = (
        alt.Chart(alt.InlineData(values=_steps(watch.billed)))
        .mark_area(color=BLUE, opacity=0.12, line=line, interpolate="step-after")
        .encode(x=second, y=purchases)
    )
    sink = alt.Color(
        "sink:N",
        title="committed by the sink",
        scale=alt.Scale(domain=[*SINK_COLOURS], range=[*SINK_COLOURS.values()]),
        legend=alt.Legend(orient="bottom-right", offset=12),
    )
    dots = (
        alt.Chart(alt.InlineData(values=[_dot(batch) for batch in watch.batches]))
        .mark_point(filled=True, size=70, opacity=0.9, stroke="white", strokeWidth=0.8)
        .encode(
            x=second,
            y=purchases,
            color=sink,
            tooltip=["sink:N", "batch_id:Q", "rows:Q", "generation:Q", "seconds:Q"],
        )
    )
    return alt.layer(*_killed(kills, watch.batches, second), billed, came, dots).properties(
        width=WIDTH,
        height=300,
        title=alt.Title(
            "Micro-batches against kills",
            subtitle=(
                "dashed: purchases that came in; line: invoices that a reader of committed records "
                "sees; dots: micro-batches, when committed; red: from a kill to the next batch"
            ),
            anchor="start",
            subtitleColor=GREY,
        ),
    )


def _killed(kills: Sequence[Kill], batches: Sequence[Batch], second: alt.X) -> list[alt.Chart]:
    data = alt.InlineData(
        values=[
            {**kill._asdict(), "until": _next(kill, batches), "height": 4 + 16 * number}
            for number, kill in enumerate(kills)
        ]
    )
    height = alt.Y("height:Q", scale=None, axis=None)
    return [
        alt.Chart(data).mark_rect(color=RED, opacity=0.1).encode(x=second, x2="until:Q"),
        alt.Chart(data).mark_rule(color=RED, strokeWidth=1.5).encode(x=second),
        alt.Chart(data)
        .mark_text(color=RED, align="left", dx=5, dy=8, fontSize=12, fontWeight="bold")
        .encode(x=second, y=height, text="what:N"),
    ]


def _next(kill: Kill, batches: Sequence[Batch]) -> float:
    """Return the time of the first micro-batch after a kill, or of the kill if there is none. A
    batch that is noticed within NOTICED_S after the kill does not count, because it may have been
    committed before the kill."""
    later = (batch.seconds for batch in batches[kill.batches :])
    return min((at for at in later if at > kill.seconds + NOTICED_S), default=kill.seconds)


def _dollars(day: Day) -> dict[str, object]:
    return {"day": day.day, "dollars": day.cents / 100, "purchases": day.purchases}


def _dot(batch: Batch) -> dict[str, object]:
    return {**batch._asdict(), "seconds": round(batch.seconds, 2)}


def _steps(seen: Sequence[Seen]) -> list[dict[str, object]]:
    """Return the points at which the value changes, and the last point."""
    changes = [
        point
        for before, point in zip((None, *seen), seen, strict=False)
        if before is None or point.purchases != before.purchases
    ]
    return [point._asdict() for point in [*changes, *seen[-1:]]]
