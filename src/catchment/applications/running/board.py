"""The board on the terminal: a few lines that change, and one that must balance."""

from __future__ import annotations

from typing import Final

from rich.console import Group
from rich.text import Text

from catchment.applications.running.snapshot import Response, Snapshot

_SHOWN_RESPONSES: Final = 5
KEYS: Final = (("k", "kill Spark"), ("b", "kill the broker"), ("q", "quit"))


def board(snapshot: Snapshot, hint: str, *, has_keys: bool = True) -> Group:
    """The whole board; always as many lines, so that it does not jump."""
    lines = [pace_line(snapshot), balance_line(snapshot), stores_line(snapshot)]
    shown = snapshot.responses[-_SHOWN_RESPONSES:]
    lines += [response_line(one) for one in shown] + [Text("")] * (_SHOWN_RESPONSES - len(shown))
    lines.append(_news_line(snapshot))
    lines.append(_bottom_line(hint, has_keys=has_keys))
    return Group(*lines)


def pace_line(snapshot: Snapshot) -> Text:
    """How fast it goes, and how far behind it is."""
    pipeline = snapshot.pipeline
    line = Text.assemble((f"{snapshot.source} ", "bold"), f"{snapshot.rate:,.0f}/s", f"   lag {snapshot.lag:,}")
    if pipeline.watermark_age_s is not None:
        line.append(f"   watermark −{pipeline.watermark_age_s:,.0f} s")
    if pipeline.latency_p50_s is not None:
        line.append(f"   event→store p50 {pipeline.latency_p50_s:.1f} s")
    if pipeline.latency_p99_s is not None:
        line.append(f" p99 {pipeline.latency_p99_s:.1f} s")
    if pipeline.starts > 1:
        line.append(f"   Spark started {pipeline.starts} times")
    return line


def balance_line(snapshot: Snapshot) -> Text:
    """What came in, and what has become of it."""
    totals = snapshot.totals
    parts = [
        ("stored", totals.stored),
        ("duplicate", totals.duplicate),
        ("late", totals.late),
        ("rejected", totals.rejected),
    ]
    parts += [(name, count) for name, count in (("on the way", totals.on_the_way), ("LOST", totals.lost)) if count]
    line = Text.assemble(("in ", "bold"), (f"{totals.arrived:,} ", "bold"), "= ")
    line.append(" + ".join(f"{name} {count:,}" for name, count in parts) + "  ")
    line.append("✓" if snapshot.is_even else "✗", "bold green" if snapshot.is_even else "bold red")
    if snapshot.foreign:
        line.append(f"   and {snapshot.foreign:,} from others")
    return line


def stores_line(snapshot: Snapshot) -> Text:
    """What the stores hold, read back."""
    parts = []
    if snapshot.store_rows is not None:
        parts.append(f"real-time store {snapshot.store_rows:,} rows")
    if snapshot.lake_rows is not None:
        parts.append(f"for-ever store {snapshot.lake_rows:,} rows")
    return Text(" · ".join(parts), "dim")


def response_line(response: Response) -> Text:
    """An alert and the answer to it."""
    line = Text.assemble(("ALERT ", "bold red"), (f"{response.name} ", "bold"), response.message)
    if response.acted is None:
        return line.append(" → …")
    return line.append(f" → {response.acted} ").append("✓ acted", "green")


def plain_line(snapshot: Snapshot) -> str:
    """All of it in one line, for a log."""
    acted = sum(one.acted is not None for one in snapshot.responses)
    line = f"{snapshot.elapsed_s:4.0f} s  {pace_line(snapshot)}  |  {balance_line(snapshot)}"
    if snapshot.responses:
        line += f"  |  alerts {len(snapshot.responses)}, acted {acted}"
    return f"{line}  |  {snapshot.news}" if snapshot.news else line


def _news_line(snapshot: Snapshot) -> Text:
    if snapshot.faults:
        return Text(snapshot.faults[0], "bold red")
    if snapshot.pipeline.faults:
        return Text(snapshot.pipeline.faults[0], "red")
    return Text(snapshot.news, "yellow")


def _bottom_line(hint: str, *, has_keys: bool) -> Text:
    line = Text()
    for key, what in KEYS if has_keys else ():
        line.append(f"[{key}] ", "bold cyan").append(f"{what}   ")
    return line.append(f"next: {hint}", "dim") if hint else line
