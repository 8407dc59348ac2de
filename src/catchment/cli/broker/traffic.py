"""The live status of `catchment up`: the broker's own counters, and how fast they move."""

import os
from typing import TYPE_CHECKING, NamedTuple

from catchment.cli.options import DEFAULT_BOOTSTRAP_SERVERS
from catchment.cli.output import format_bytes, format_count
from catchment.cluster.metadata import INTERNAL_TOPICS

if TYPE_CHECKING:
    from rich.console import RenderableType

    from catchment.broker.context import Services


class Sample(NamedTuple):
    """The broker's counters at one moment."""

    at_s: float
    topics: int
    """Without internal topics."""
    partitions: int
    records: int
    bytes_in: int
    bytes_out: int
    connections: int
    log_bytes: int
    free_bytes: int

    @classmethod
    def take(cls, services: "Services") -> "Sample":
        logs = [partition.log for partition in services.replicas]
        topics = services.controller.image.topics
        ours = [one for one in services.replicas if one.topic not in INTERNAL_TOPICS]
        status = os.statvfs(services.settings.log_dirs[0])
        return cls(
            services.clock.monotonic_s(),
            sum(topic not in INTERNAL_TOPICS for topic in topics),
            len(ours),
            # Only records of clients: internal topics are not traffic.
            sum(one.log.log_end_offset for one in ours),
            services.traffic.bytes_in,
            services.traffic.bytes_out,
            services.traffic.connections,
            sum(log.size_bytes for log in logs),
            status.f_bavail * status.f_frsize,
        )


class Rates(NamedTuple):
    records_in: float
    bytes_in: float
    bytes_out: float

    @classmethod
    def between(cls, earlier: Sample, later: Sample) -> "Rates":
        """Changes per second. A deleted topic takes its records with it, which must not count as negative traffic."""
        elapsed_s = max(later.at_s - earlier.at_s, 1e-3)
        changes = (
            later.records - earlier.records,
            later.bytes_in - earlier.bytes_in,
            later.bytes_out - earlier.bytes_out,
        )
        return cls(*(max(0, change) / elapsed_s for change in changes))

    @property
    def is_idle(self) -> bool:
        return not any(self)


def status_line(sample: Sample, rates: Rates) -> str:
    """The status on one line, for logs."""
    return (
        f"{format_count(sample.topics, 'topic')}, {format_count(sample.partitions, 'partition')}, "
        f"in {rates.records_in:,.0f} records/s {format_bytes(rates.bytes_in)}/s, out {format_bytes(rates.bytes_out)}/s, "
        f"{format_count(sample.connections, 'connection')}, disk {format_bytes(sample.log_bytes)}"
    )


def _option(bootstrap_servers: str) -> str:
    """The option with which a command reaches this broker."""
    return "" if bootstrap_servers == DEFAULT_BOOTSTRAP_SERVERS else f" -b {bootstrap_servers}"


def status_panel(bootstrap_servers: str, directory: str, sample: Sample, rates: Rates) -> "RenderableType":
    """The status as a small table for a terminal."""
    from rich.panel import Panel
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    table.add_row("bootstrap", f"[bold]{bootstrap_servers}[/bold]")
    table.add_row("topics", f"{sample.topics:,} with {format_count(sample.partitions, 'partition')}")
    table.add_row("in", f"{rates.records_in:,.0f} records/s   {format_bytes(rates.bytes_in)}/s")
    table.add_row("out", f"{format_bytes(rates.bytes_out)}/s")
    table.add_row("connections", f"{sample.connections:,}")
    table.add_row("disk", f"{format_bytes(sample.log_bytes)} in {directory}, {format_bytes(sample.free_bytes)} free")
    if not sample.topics:
        table.add_row("next", f"catchment topic create orders{_option(bootstrap_servers)}")
    return Panel(table, title="catchment", subtitle="Ctrl-C stops it", expand=False)
