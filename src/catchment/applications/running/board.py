"""The board on the terminal: the results, the alerts, the pace, and the line that must balance, as the size of the screen allows.

Every line is cut to the width of the screen and the lines are as many as its height, so nothing wraps, scrolls or jumps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rich.console import Group
from rich.text import Text

from catchment.applications.running.board_table import Cell, TableView, as_text
from catchment.applications.running.snapshot import Response, Snapshot

KEYS: Final = (("k", "kill Spark"), ("b", "kill the broker"), ("q", "quit"))
_WIDE: Final = 100
_TALL: Final = 32
_SHORT: Final = 16
_MOST_RESPONSES: Final = 3
"""How many alerts have room before the table gets more than its header."""
_LABEL_WIDTH: Final = 18
_MARGIN: Final = 2
_LEAST_BAR: Final = 6
_MOST_BAR: Final = 40
_CELL_EXTRA: Final = 2
"""A space before the number of a cell, and a mark after it."""
_SPARKS: Final = "▁▂▃▄▅▆▇"
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_BAR_STYLE: Final = "cyan"
_ALERT_STYLE: Final = "bold red"


def board(snapshot: Snapshot, *, title: str, hint: str, width: int, height: int, has_keys: bool = True) -> Group:
    """The whole board: exactly `height` lines, none wider than `width`."""
    is_tall, is_short = height >= _TALL, height < _SHORT
    space = [Text("")] if is_tall else []
    top = [_title_line(snapshot, title, width), *space]
    top += _tall_pace(snapshot, width) if is_tall else _short_pace(snapshot, width)
    top += [*space, *balance_lines(snapshot, width)]
    top += [] if is_short else [stores_line(snapshot), *space]
    bottom = [*space, _news_line(snapshot), keys_line() if has_keys else Text("")]
    bottom += [] if is_short else [Text(f"next: {hint}" if hint else "", "dim")]
    room = height - len(top) - len(bottom)
    table = table_lines(snapshot.table, width, room - _MOST_RESPONSES - 1 - len(space))
    alerts = response_lines(snapshot.responses, width, room - len(table) - (len(space) if table else 0))
    lines = [*top, *table, *(space if table else ()), *alerts][: max(0, height - len(bottom))]
    lines += [Text("")] * (height - len(lines) - len(bottom))
    lines = [*lines, *bottom][:height]
    for line in lines:
        line.no_wrap = True
        line.truncate(width, overflow="ellipsis")
    return Group(*lines)


def pace_line(snapshot: Snapshot) -> Text:
    """How fast it goes, and how far behind it is."""
    line = Text.assemble((f"{snapshot.source} ", "bold"), f"{snapshot.rate:,.0f}/s", f"   lag {snapshot.lag:,}")
    delays = _delays(snapshot)
    return line.append(f"   {delays}") if delays else line


def balance_line(snapshot: Snapshot) -> Text:
    """What came in, and what has become of it."""
    return balance_lines(snapshot, None)[0]


def balance_lines(snapshot: Snapshot, width: int | None) -> list[Text]:
    """The balance, folded between two of its parts where it is wider than the screen."""
    totals = snapshot.totals
    parts = [
        ("stored", totals.stored),
        ("duplicate", totals.duplicate),
        ("late", totals.late),
        ("rejected", totals.rejected),
    ]
    parts += [(name, count) for name, count in (("on the way", totals.on_the_way), ("LOST", totals.lost)) if count]
    start = f"in {totals.arrived:,} "
    texts = [(f"{sign} {name} {count:,} ", "") for sign, (name, count) in zip("=+++++", parts, strict=False)]
    texts.append((" ✓", "bold green") if snapshot.is_even else (" ✗", _ALERT_STYLE))
    texts += [(f"   and {snapshot.foreign:,} from others", "")] if snapshot.foreign else []
    lines = [Text.assemble((start, "bold"))]
    for text, style in texts:
        if width is not None and lines[-1].cell_len + len(text) > width:
            lines.append(Text(" " * len(start)))
        lines[-1].append(text, style)
    return lines


def stores_line(snapshot: Snapshot) -> Text:
    """What the stores hold, read back."""
    parts = []
    if snapshot.table is not None:
        parts.append(f"real-time store {snapshot.table.count:,} rows")
    if snapshot.lake_rows is not None:
        parts.append(f"for-ever store {snapshot.lake_rows:,} rows")
    return Text(" · ".join(parts), "dim")


def table_lines(table: TableView | None, width: int, most: int) -> list[Text]:
    """A heading, the names of the columns, and as many rows as there is room for; nothing where there is room for no row."""
    if most < 3:
        return []
    if table is None or not table.rows:
        return [_rule("results", width), Text("none yet: they come with the first batch of the pipeline", "dim")]
    rows = table.rows[: most - 2]
    label_width = min(_LABEL_WIDTH, max(len(table.label), *(len(one.label) for one in rows)))
    beside_widths = [
        max(len(name), *(len(one.beside[index]) for one in rows)) for index, name in enumerate(table.beside)
    ]
    beside_width = sum(one + _MARGIN for one in beside_widths)
    if width - label_width - beside_width < width // 3:
        beside_widths, beside_width = [], 0
    number_width = max(len(as_text(cell.value)) for one in rows for cell in one.cells)
    count, bar_width = _columns_that_fit(
        width - label_width - beside_width, len(table.columns), number_width, max(map(len, table.columns))
    )
    cell_width = bar_width + number_width + _CELL_EXTRA
    heading = Text(f"{table.label:<{label_width}}", "dim")
    for name in table.columns[-count:]:
        heading.append(f"{'':{_MARGIN}}{name:<{cell_width}}")
    for name, beside in zip(table.beside, beside_widths, strict=False):
        heading.append(f"{name:>{beside + _MARGIN}}")
    highest = max((cell.value or 0 for one in rows for cell in one.cells[-count:]), default=0)
    lines = [_rule(table.title, width), heading]
    for row in rows:
        line = Text(f"{row.label[:label_width]:<{label_width}}")
        for cell in row.cells[-count:]:
            line.append(" " * _MARGIN).append_text(_bar(cell, highest, bar_width, number_width))
        for value, beside in zip(row.beside, beside_widths, strict=False):
            line.append(f"{value:>{beside + _MARGIN}}", "dim")
        lines.append(line)
    return lines


def response_lines(responses: Sequence[Response], width: int, most: int) -> list[Text]:
    """A heading with the counts, and the newest alerts below it, the last one at the end."""
    if most < 1:
        return []
    acted = sum(one.acted is not None for one in responses)
    heading = _rule(f"alerts {len(responses):,} · acted ✓ {acted:,}", width)
    shown = responses[-(most - 1) :] if most > 1 else ()
    return [heading, *(response_line(one, is_wide=width >= _WIDE) for one in shown)]


def response_line(response: Response, *, is_wide: bool = True) -> Text:
    """An alert and the answer to it. The mark comes first, where a narrow screen shows it too."""
    mark = ("… ", "yellow") if response.acted is None else ("✓ ", "bold green")
    line = Text.assemble(mark)
    if is_wide and response.acted_at:
        line.append(f"{response.acted_at}  ", "dim")
    line.append(f"{response.name} ", _ALERT_STYLE).append(response.message)
    return line if response.acted is None else line.append(" → ", "dim").append(response.acted, "green")


def plain_line(snapshot: Snapshot) -> str:
    """All of it in one line, for a log."""
    acted = sum(one.acted is not None for one in snapshot.responses)
    line = f"{snapshot.elapsed_s:4.0f} s  {pace_line(snapshot)}  |  {balance_line(snapshot)}"
    if snapshot.responses:
        line += f"  |  alerts {len(snapshot.responses)}, acted {acted}"
    return f"{line}  |  {snapshot.news}" if snapshot.news else line


def keys_line() -> Text:
    line = Text()
    for key, what in KEYS:
        line.append(f"[{key}] ", "bold cyan").append(f"{what}   ")
    return line


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def sparkline(values: Sequence[float], width: int) -> str:
    """The last values as a line of bars, the highest of them in full; padded to the width if there are fewer."""
    shown = values[-width:] if width > 0 else ()
    highest = max(shown, default=0.0)
    top = len(_SPARKS) - 1
    drawn = "".join(_SPARKS[round(max(0.0, one) / highest * top) if highest > 0 else 0] for one in shown)
    return drawn.rjust(max(0, width))


def bar(value: float, highest: float, width: int) -> str:
    """A horizontal bar in eighths of a character."""
    eighths = round(max(0.0, value) / highest * width * 8) if highest > 0 else 0
    full, rest = divmod(min(eighths, width * 8), 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(width)


def _title_line(snapshot: Snapshot, title: str, width: int) -> Text:
    name, _, about = title.partition(": ")
    right = duration(snapshot.elapsed_s)
    line = Text.assemble((name, "bold"), (f": {about}" if about else "", "dim"))
    line.truncate(max(0, width - len(right) - _MARGIN), overflow="ellipsis", pad=True)
    return line.append(f"{'':{_MARGIN}}{right}", "dim")


def _tall_pace(snapshot: Snapshot, width: int) -> list[Text]:
    """Rate, lag and latency, each with its history."""
    pipeline = snapshot.pipeline
    latency = _latency(snapshot)
    numbers = [f"{snapshot.rate:,.0f}/s", f"{snapshot.lag:,}", latency.removeprefix("event→store ") or "–"]
    notes = ["", "" if pipeline.watermark_age_s is None else f"watermark −{pipeline.watermark_age_s:,.0f} s", ""]
    notes[0] = f"Spark started {pipeline.starts} times" if pipeline.starts > 1 else ""
    names = [snapshot.source, "lag", "event→store"]
    histories = [snapshot.rates, snapshot.lags, snapshot.latencies_s]
    name_width, number_width = max(map(len, names)), max(map(len, numbers))
    spark_width = width - name_width - number_width - max(map(len, notes)) - 4 * _MARGIN
    return [
        Text.assemble(
            (f"{name:<{name_width + _MARGIN}}", "bold"),
            (sparkline(history, min(60, spark_width)), _BAR_STYLE),
            f"{'':{_MARGIN}}{number:<{number_width + _MARGIN}}",
            (note, "dim"),
        )
        for name, history, number, note in zip(names, histories, numbers, notes, strict=True)
    ]


def _short_pace(snapshot: Snapshot, width: int) -> list[Text]:
    """Rate and lag with their histories in one line, and the delays in another."""
    rate, lag = f" {snapshot.rate:,.0f}/s   ", f" {snapshot.lag:,}"
    names = f"{snapshot.source} ", "lag "
    room = width - sum(map(len, (rate, lag, *names)))
    first = Text.assemble((names[0], "bold"), (sparkline(snapshot.rates, min(24, room // 2)), _BAR_STYLE), rate)
    first.append(names[1], "bold").append(sparkline(snapshot.lags, min(24, room // 2)), _BAR_STYLE).append(lag)
    return [first, Text(_delays(snapshot))]


def _delays(snapshot: Snapshot) -> str:
    pipeline = snapshot.pipeline
    parts = [
        "" if pipeline.watermark_age_s is None else f"watermark −{pipeline.watermark_age_s:,.0f} s",
        _latency(snapshot),
        f"Spark started {pipeline.starts} times" if pipeline.starts > 1 else "",
    ]
    return "   ".join(part for part in parts if part)


def _latency(snapshot: Snapshot) -> str:
    pipeline = snapshot.pipeline
    found = [("p50", pipeline.latency_p50_s), ("p99", pipeline.latency_p99_s)]
    parts = [f"{name} {seconds:.1f} s" for name, seconds in found if seconds is not None]
    return " ".join(["event→store", *parts]) if parts else ""


def _columns_that_fit(room: int, count: int, number_width: int, name_width: int) -> tuple[int, int]:
    """How many columns of bars have room, the newest of them, and how wide their bars are."""
    other = number_width + _CELL_EXTRA + _MARGIN
    # Fewer columns with bars that can be compared are worth more than many.
    least = max(_LEAST_BAR, name_width - number_width - _CELL_EXTRA)
    fitting = max(1, min(count, room // (least + other)))
    return fitting, max(1, min(_MOST_BAR, room // fitting - other))


def _bar(cell: Cell, highest: float, width: int, number_width: int) -> Text:
    style = _ALERT_STYLE if cell.is_alert else _BAR_STYLE
    drawn = Text.assemble((bar(cell.value or 0, highest, width), style))
    mark = "!" if cell.is_alert else " "
    return drawn.append(f" {as_text(cell.value):>{number_width}}{mark}", style if cell.is_alert else "")


def _rule(title: str, width: int) -> Text:
    return Text.assemble(("── ", "dim"), title, (f" {'─' * max(0, width - len(title) - 4)}", "dim"))


def _news_line(snapshot: Snapshot) -> Text:
    if snapshot.faults:
        return Text(snapshot.faults[0], _ALERT_STYLE)
    if snapshot.pipeline.faults:
        return Text(snapshot.pipeline.faults[0], "red")
    return Text(snapshot.news, "yellow")
