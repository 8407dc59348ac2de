"""`catchment doctor`: check whether a broker can run on this machine."""

import errno
import fcntl
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path
from typing import NamedTuple

import typer

from catchment.cli.broker.given_settings import load_settings
from catchment.cli.failure import CommandError
from catchment.cli.options import AsJson, ServerSettings, ServerSettingsFile, parse_assignments
from catchment.cli.output import format_bytes, format_count, print_json
from catchment.ports.network import try_address
from catchment.settings.broker import BrokerSettings
from catchment.settings.listeners import Listener

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
_OLDEST_PYTHON = (3, 11)
_FEW_DESCRIPTORS = 4096
_LITTLE_SPACE_BYTES = 1 << 30
_SLOW_SYNC_S = 0.02
_SYNCS = 11
_BROKER_ANSWER_S = 2.0
_VOLATILE = ("tmpfs", "ramfs")
_REMOTE = ("nfs", "nfs4", "cifs", "smb3", "fuse.sshfs")
_OURS = "catchment-streaming"
_LIBRARIES = ("kio", "uvloop", "crc32c", "cramjam", "confluent-kafka", "prometheus-client", "typer", "rich")


class Verdict(StrEnum):
    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    FAILURE = "failure"


_MARKS = {Verdict.OK: "✓", Verdict.NOTE: "·", Verdict.WARNING: "!", Verdict.FAILURE: "✗"}
_COLOURS = {Verdict.OK: "green", Verdict.NOTE: "blue", Verdict.WARNING: "yellow", Verdict.FAILURE: "red"}


class Finding(NamedTuple):
    check: str
    verdict: Verdict
    detail: str
    advice: str = ""


def all_findings(settings: BrokerSettings) -> Iterator[Finding]:
    yield check_python()
    yield from check_versions()
    yield from check_extras()
    yield check_descriptors()
    for directory in settings.log_dirs:
        yield from check_directory(directory)
    for listener in settings.listeners:
        yield check_port(listener)


def check_python() -> Finding:
    found = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < _OLDEST_PYTHON:
        return Finding("python", Verdict.FAILURE, found, "Catchment needs Python 3.11 or newer.")
    return Finding("python", Verdict.OK, f"{found} ({sys.implementation.name})")


def check_versions() -> Iterator[Finding]:
    yield Finding("catchment", Verdict.OK, version(_OURS))
    for library in _LIBRARIES:
        try:
            yield Finding(library, Verdict.OK, version(library))
        except PackageNotFoundError:
            yield Finding(library, Verdict.FAILURE, "not installed", f"pip install {library}")


def check_extras() -> Iterator[Finding]:
    """The extras: which are installed, and how to install the others."""
    for extra in metadata(_OURS).get_all("Provides-Extra") or ():
        marker = f'extra == "{extra}"'
        wanted = [line for line in requires(_OURS) or () if marker in line.replace("'", '"')]
        names = [_distribution(line) for line in wanted]
        missing = sorted({name for name in names if name != _OURS and not _is_installed(name)})
        if extra == "all" or not names:
            continue
        if missing:
            detail = f"without {', '.join(missing)}"
            yield Finding(f"[{extra}]", Verdict.NOTE, detail, f"pip install '{_OURS}[{extra}]' to use it.")
        else:
            yield Finding(f"[{extra}]", Verdict.OK, "installed")


def _distribution(requirement: str) -> str:
    return "".join(char if char.isalnum() or char in "-_." else " " for char in requirement).split()[0]


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True


def check_descriptors() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _FEW_DESCRIPTORS:
        advice = f"`ulimit -n {min(hard, 65536) if hard > 0 else 65536}`: each connection takes one, files take more."
        return Finding("open files", Verdict.WARNING, f"at most {soft}", advice)
    return Finding("open files", Verdict.OK, f"at most {'any number' if soft == resource.RLIM_INFINITY else soft}")


def check_directory(directory: Path) -> Iterator[Finding]:
    """Whether the data directory can be written, synced and trusted; if it does not exist yet, its parent is checked."""
    name = f"data directory {directory}"
    existing = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        detail = f"{existing} is not a directory that this user may write to"
        yield Finding(name, Verdict.FAILURE, detail, "Choose another with log.dirs, or change its permissions.")
        return
    yield _check_lock(directory, name)
    yield _check_sync(existing)
    status = os.statvfs(existing)
    free_bytes = status.f_bavail * status.f_frsize
    little = free_bytes < _LITTLE_SPACE_BYTES
    advice = "Free some space: a full disk refuses writes until there is room." if little else ""
    yield Finding("free space", Verdict.WARNING if little else Verdict.OK, format_bytes(free_bytes), advice)
    yield _check_file_system(existing)


def _check_lock(directory: Path, name: str) -> Finding:
    lock = directory / ".lock"
    if not lock.exists():
        return Finding(name, Verdict.OK, "writable" if directory.exists() else "does not exist yet, can be created")
    try:
        with lock.open("rb+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return Finding(name, Verdict.NOTE, "in use by a running broker")
    return Finding(name, Verdict.OK, "writable, not in use")


def _check_sync(existing: Path) -> Finding:
    """How long the device takes to make a small write durable: what acks=all waits for."""
    durations_s = []
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            for _ in range(_SYNCS):
                file.write(bytes(4096))
                file.flush()
                started_at = time.perf_counter()
                os.fdatasync(file.fileno())
                durations_s.append(time.perf_counter() - started_at)
    except OSError as error:
        return Finding(
            "sync", Verdict.FAILURE, f"{existing}: {error.strerror}", "Records could not be made durable here."
        )
    median_s = sorted(durations_s)[_SYNCS // 2]
    if median_s > _SLOW_SYNC_S:
        advice = "acks=all waits for this; a faster device, or catchment.sync.acks=false if the loss of the last moments is acceptable."
        return Finding("sync", Verdict.WARNING, f"{median_s * 1000:.1f} ms", advice)
    return Finding("sync", Verdict.OK, f"{median_s * 1000:.2f} ms")


def _check_file_system(existing: Path) -> Finding:
    kind = _file_system(existing.resolve())
    if kind in _VOLATILE:
        return Finding("file system", Verdict.WARNING, kind, "It lives in memory: a reboot empties it.")
    if kind in _REMOTE:
        return Finding("file system", Verdict.WARNING, kind, "Its locks and syncs are not those of a local disk.")
    return Finding("file system", Verdict.OK, kind)


def _file_system(existing: Path) -> str:
    """The type of the file system with the longest mount point above a path."""
    try:
        mounts = [line.split(" ") for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "unknown"
    above = [(len(mount[1]), mount[2]) for mount in mounts if existing.is_relative_to(mount[1].replace("\\040", " "))]
    return max(above)[1] if above else "unknown"


def check_port(listener: Listener) -> Finding:
    name = f"port {listener.host}:{listener.port}"
    try:
        try_address(listener.host, listener.port)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return _port_owner(listener, name)
        return Finding(name, Verdict.FAILURE, error.strerror or str(error), "Correct `listeners`.")
    return Finding(name, Verdict.OK, "free")


def _port_owner(listener: Listener, name: str) -> Finding:
    """A running broker is no failure; any other process on the port is."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    host = "127.0.0.1" if listener.host in ("", "0.0.0.0") else listener.host
    admin = AdminClient({"bootstrap.servers": f"{host}:{listener.port}", "log_level": 0})
    try:
        topics = len(admin.list_topics(timeout=_BROKER_ANSWER_S).topics)
    except KafkaException:
        return Finding(name, Verdict.FAILURE, "in use, and no Kafka broker answers there", "Choose another port.")
    return Finding(name, Verdict.NOTE, f"a broker with {topics} topics answers there")


@app.command("doctor")
def doctor(
    config: ServerSettingsFile = None,
    assignments: ServerSettings = None,
    as_json: AsJson = False,
) -> None:
    """Check ports, disk, limits and versions.

    The exit status is 1 if a broker could not run here.
    """
    settings = load_settings(config, parse_assignments(assignments, "--set"))
    findings = []
    for finding in all_findings(settings):
        findings.append(finding)
        if not as_json:
            _print(finding)
    if as_json:
        print_json([finding._asdict() for finding in findings])
    failures = [finding for finding in findings if finding.verdict is Verdict.FAILURE]
    if failures:
        raise CommandError(
            f"{format_count(len(failures), 'check')} failed: {', '.join(finding.check for finding in failures)}",
            failures[0].advice or None,
        )


def _print(finding: Finding) -> None:
    mark = _MARKS[finding.verdict]
    if sys.stdout.isatty():
        mark = typer.style(mark, fg=_COLOURS[finding.verdict])
    typer.echo(f"{mark} {finding.check}: {finding.detail}{'. ' + finding.advice if finding.advice else ''}")
