"""`catchment log dump`: print the segment files of a log, without a broker."""

from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import typer

from catchment.cli.failure import CommandError
from catchment.cli.log.reader import (
    SegmentView,
    check_offset_index,
    check_time_index,
    describe_batch,
    describe_records,
    read_batches,
    read_index,
)
from catchment.cli.options import AsJson
from catchment.cli.output import format_bytes, format_count, print_json, print_table
from catchment.ports.memory_disk import MemoryDisk
from catchment.storage.layout import LOG, OFFSET_INDEX, SNAPSHOT, TIME_INDEX, TRANSACTION_INDEX, parse_file_name
from catchment.storage.producers.snapshots import decode_snapshot
from catchment.storage.segments.index import TransactionIndex

_SUFFIXES = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX, SNAPSHOT)
app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


@app.callback()
def log() -> None:
    """Look into the files of a log, without a broker."""


@app.command("dump")
def dump(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH", help="Files of a log, directories of partitions, or a whole data directory."),
    ],
    records: Annotated[bool, typer.Option("--records", "-r", help="Show the records in each batch, too.")] = False,
    indexes: Annotated[bool, typer.Option("--indexes", "-i", help="Show the entries of the indexes, too.")] = False,
    summary: Annotated[bool, typer.Option("--summary", "-s", help="Check everything, show one line a file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what is in a log's files and check it; the exit status is 1 if anything is damaged."""
    files = [file for path in paths for file in _log_files(path)]
    if not files:
        raise CommandError(
            f"no files of a log in {', '.join(map(str, paths))}", "Name a directory such as data/orders-0."
        )
    problems: list[str] = []
    for file in files:
        try:
            described = _describe(file, records=records, indexes=indexes, summary=summary)
        except OSError as error:
            raise CommandError(f"cannot read {file}: {error.strerror}") from error
        problems += described["problems"]
        if as_json:
            print_json(described)
        else:
            _print(described)
    if problems:
        raise CommandError(
            "\n       ".join([format_count(len(problems), "problem") + " found:", *problems]),
            "A broker cuts a torn tail and rebuilds indexes when it starts after an unclean stop.",
        )


def _log_files(path: Path) -> list[Path]:
    """The log's files at or below a path, segments first, so that an index follows the log it belongs to."""
    if path.is_dir():
        found = [file for file in path.rglob("*") if file.is_file() and _suffix(file) is not None]
    elif path.exists():
        if _suffix(path) is None:
            raise CommandError(
                f"{path} is no file of a log", f"Its name must be 20 digits and one of {' '.join(_SUFFIXES)}."
            )
        found = [path]
    else:
        raise CommandError(f"{path} does not exist")
    return sorted(found, key=lambda file: (file.parent, file.name[:20], _SUFFIXES.index(_suffix(file) or LOG)))


def _suffix(file: Path) -> str | None:
    name = parse_file_name(file.name)
    return name.suffix if name is not None and not name.state and name.suffix in _SUFFIXES else None


def _describe(file: Path, *, records: bool, indexes: bool, summary: bool) -> dict[str, Any]:
    """One file for JSON: what it holds, and its problems. Indexes are checked against the log beside them."""
    base = {"file": str(file), "bytes": file.stat().st_size}
    match _suffix(file):
        case ".log":
            return {**base, "kind": "log", **_log(file, records, summary)}
        case ".txnindex":
            return {**base, "kind": "txnindex", **_aborted(file, summary), "problems": []}
        case ".snapshot":
            return {**base, "kind": "snapshot", **_producers(file, summary)}
        case suffix:
            entries, problems = read_index(file)
            log_file = file.with_suffix(LOG)
            if log_file.exists():
                segment = _checked_segment(log_file)
                checker = check_offset_index if suffix == OFFSET_INDEX else check_time_index
                problems += checker(segment, entries)
            names = ("offset", "position") if suffix == OFFSET_INDEX else ("timestamp", "offset")
            shown = {"entries": [dict(zip(names, entry, strict=True)) for entry in entries]} if indexes else {}
            kind = (suffix or "").removeprefix(".")
            return {**base, "kind": kind, "entry_count": len(entries), **shown, "problems": problems}


def _log(file: Path, records: bool, summary: bool) -> dict[str, Any]:
    segment = SegmentView(file, int(file.name[:20]))
    batches: list[dict[str, Any]] = []
    for position, header, data in read_batches(segment):
        # Records are unpacked only on demand: the CRC covers them.
        contents = {"contents": describe_records(segment, header, data)} if records else {}
        if not summary:
            batches.append({**describe_batch(position, header), **contents})
    counts = {"batch_count": len(segment.positions), "record_count": segment.record_count}
    return {**counts, **({} if summary else {"batches": batches}), "problems": segment.problems}


@lru_cache(maxsize=1)
def _checked_segment(log_file: Path) -> SegmentView:
    """The segment that an index belongs to. The two indexes of a segment are checked one after the other."""
    segment = SegmentView(log_file, int(log_file.name[:20]))
    for _ in read_batches(segment):
        pass
    return segment


def _aborted(file: Path, summary: bool) -> dict[str, Any]:
    # Read from a copy in memory: the broker's own reader truncates a torn entry, and this command must not change files.
    disk, path = MemoryDisk(), "/copy"
    data = file.read_bytes()
    disk.open_file(path).append([data])
    entries = [entry._asdict() for entry in TransactionIndex(disk, path, len(data)).entries()]
    return {"entry_count": len(entries), **({} if summary else {"entries": entries})}


def _producers(file: Path, summary: bool) -> dict[str, Any]:
    try:
        found = decode_snapshot(file.read_bytes())
    except ValueError as error:
        return {"entry_count": 0, "problems": [f"{file.name}: {error}"]}
    entries = [
        {
            "producer_id": entry.producer_id,
            "epoch": entry.epoch,
            "last_sequence": entry.batches[-1].last_sequence if entry.batches else None,
            "last_offset": entry.batches[-1].last_offset if entry.batches else None,
            "last_timestamp": entry.last_timestamp_ms,
            "transaction_first_offset": entry.transaction_first_offset,
        }
        for entry in found
    ]
    return {"entry_count": len(entries), **({} if summary else {"entries": entries}), "problems": []}


def _print(described: dict[str, Any]) -> None:
    if described["kind"] == "log":
        counted = (
            f"{format_count(described['batch_count'], 'batch')}, {format_count(described['record_count'], 'record')}"
        )
        counted = counted.replace("batchs", "batches")
    else:
        counted = f"{described['entry_count']:,} entries"
    state = "damaged" if described["problems"] else "sound"
    typer.echo(f"{described['file']}  {format_bytes(described['bytes'])}  {counted}  {state}")
    if described.get("batches"):
        print_table(
            [
                "position:",
                "offsets",
                "records:",
                "bytes:",
                "codec",
                "latest time",
                "producer",
                "sequence",
                "epoch:",
                "flags",
            ],
            [_batch_row(batch) for batch in described["batches"]],
        )
        for batch in described["batches"]:
            if batch.get("contents"):
                print_table(
                    ["offset:", "timestamp", "key", "value", "headers"],
                    [_record_row(record) for record in batch["contents"]],
                )
    elif described.get("entries"):
        print_table(
            [f"{name}:" for name in described["entries"][0]], [entry.values() for entry in described["entries"]]
        )


def _batch_row(batch: dict[str, Any]) -> list[object]:
    flags = [name for name in ("transactional", "control", "delete_horizon") if batch[name]]
    has_producer = batch["producer_id"] >= 0
    return [
        batch["position"],
        f"{batch['base_offset']}–{batch['last_offset']}",
        batch["records"],
        batch["bytes"],
        batch["compression"],
        _time(batch["max_timestamp"]),
        f"{batch['producer_id']}/{batch['producer_epoch']}" if has_producer else "",
        f"{batch['base_sequence']}–{batch['last_sequence']}" if has_producer else "",
        batch["leader_epoch"],
        " ".join(flags + (["LogAppendTime"] if batch["timestamp_type"] == "LogAppendTime" else [])),
    ]


def _record_row(record: dict[str, Any]) -> list[object]:
    headers = ",".join(f"{name}={value}" for name, value in record["headers"])
    key, value = ("null" if data is None else data for data in (record["key"], record["value"]))
    return [record["offset"], _time(record["timestamp"]), key, value, headers]


def _time(timestamp_ms: int) -> str:
    """The ISO time; the number itself if it is no valid time, since producers may send any."""
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
