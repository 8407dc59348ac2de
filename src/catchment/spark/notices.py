"""Notify the readers of streams as soon as a batch is finished.

Spark calls a source's `commit` only when the next batch with data begins, which may be never; a listener in the driver process gets
the event at once. The readers run in other processes, so the listener publishes each event as a line of JSON on a Unix socket, in a
directory that only its owner can enter. A reader that cannot connect, on a Spark Connect server for instance, works without.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import shutil
import socket
import tempfile
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from py4j.java_gateway import JavaObject
from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    JStreamingQueryListener,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from typing_extensions import override

# A reader that takes no notice for so long is cut off, so that it does not hold up Spark's other listeners.
SEND_TIMEOUT_S: Final = 1.0
SOCKET: Final = "notices"
_PREFIX: Final = "catchment-notices-"
_SHORT: Final = "/tmp"
# Linux takes 107 bytes of path for a Unix socket, macOS 103.
_LONGEST_PATH: Final = 103


class Notice(NamedTuple):
    """A finished batch of a query, with the end offsets of each of its sources as the sources wrote them."""

    query_id: str
    query_name: str | None
    run_id: str
    batch_id: int
    ends: tuple[str, ...]


class Publisher:
    """The driver's side: sends every notice to all subscribers, and the last notice of each running query to a new one."""

    def __init__(self) -> None:
        self._process_id = os.getpid()
        self._lock = threading.Lock()
        self._subscribers: list[socket.socket] = []
        self._latest: dict[str, bytes] = {}
        self._folder = SocketFolder()
        self.address = self._folder.address
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(self.address)
        self._listening.listen(64)
        threading.Thread(target=self._accept, name="catchment-notices", daemon=True).start()

    def send(self, notice: Notice) -> None:
        line = json.dumps(notice).encode() + b"\n"
        with self._lock:
            self._latest[notice.run_id] = line
            self._subscribers = [each for each in self._subscribers if _sent(each, line)]

    def forget(self, run_id: str) -> None:
        """Drop what is kept of a query that has ended."""
        with self._lock:
            self._latest.pop(run_id, None)

    def close(self) -> None:
        # A fork of the driver ends by this as well, and must not end what its parent still uses.
        if os.getpid() != self._process_id:
            return
        # A blocked accept wakes only when the socket is shut down.
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        with self._lock:
            for subscriber in self._subscribers:
                subscriber.close()
            self._subscribers = []
        self._folder.remove()

    def _accept(self) -> None:
        while True:
            try:
                subscriber, _ = self._listening.accept()
            except OSError:
                return
            subscriber.settimeout(SEND_TIMEOUT_S)
            with self._lock:
                if all(_sent(subscriber, line) for line in self._latest.values()):
                    self._subscribers.append(subscriber)


def _sent(subscriber: socket.socket, line: bytes) -> bool:
    try:
        subscriber.sendall(line)
    except OSError:
        subscriber.close()
        return False
    return True


class _QueryListener(StreamingQueryListener):
    """On a server of Spark Connect the reports come here; the JVM of this process calls `_JavaListener`."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    @override
    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    @override
    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        ends = tuple(source.endOffset for source in progress.sources)
        self._publisher.send(Notice(str(progress.id), progress.name, str(progress.runId), progress.batchId, ends))

    @override
    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self._publisher.forget(str(event.runId))

    @property
    @override
    def _jlistener(self) -> JavaObject:
        jvm = SparkContext._jvm
        assert jvm is not None, "a started context has a JVM"
        return jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(
            _JavaListener(self, self._publisher)
        )


class _JavaListener(JStreamingQueryListener):
    """What the JVM calls. PySpark would fetch all numbers of a report one by one, which takes a tenth of a small batch's time."""

    def __init__(self, listener: StreamingQueryListener, publisher: Publisher) -> None:
        super().__init__(listener)
        self._publisher = publisher

    @override
    def onQueryStarted(self, jevent: JavaObject) -> None:
        pass

    @override
    def onQueryProgress(self, jevent: JavaObject) -> None:
        progress = jevent.progress()
        ends = tuple(source.endOffset() for source in progress.sources())
        query_id, run_id = progress.id().toString(), progress.runId().toString()
        self._publisher.send(Notice(query_id, progress.name(), run_id, progress.batchId(), ends))

    @override
    def onQueryIdle(self, jevent: JavaObject) -> None:
        pass

    @override
    def onQueryTerminated(self, jevent: JavaObject) -> None:
        self._publisher.forget(jevent.runId().toString())


_listened: Final[weakref.WeakSet[SparkSession]] = weakref.WeakSet()


def publish(spark: SparkSession) -> str:
    """Publish the finished batches of a session's queries; returns the address for `subscribe`."""
    publisher = _publisher(os.getpid())
    if spark not in _listened:
        spark.streams.addListener(_QueryListener(publisher))
        _listened.add(spark)
    return publisher.address


@cache
def _publisher(process_id: int) -> Publisher:
    """One for a process; the id tells a fork of it from itself."""
    publisher = Publisher()
    atexit.register(publisher.close)
    return publisher


def stop_publishing() -> None:
    """For a process that ends without what is to be done at its end: remove the folder of the socket."""
    if _publisher.cache_info().currsize:
        _publisher(os.getpid()).close()


class Subscription:
    """The reader's side: a thread that passes on every notice until it is closed or the driver has ended."""

    def __init__(self, connection: socket.socket | None, on_notice: Callable[[Notice], None]) -> None:
        self._connection = connection
        if connection is not None:
            threading.Thread(
                target=_receive, args=(connection, on_notice), name="catchment-notices", daemon=True
            ).start()

    @property
    def connected(self) -> bool:
        """Whether notices can come at all."""
        return self._connection is not None

    def close(self) -> None:
        if self._connection is not None:
            # The thread's blocked read ends with this, and the thread closes the socket, as it has already if the driver is gone.
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)
            self._connection = None


def subscribe(address: str | None, on_notice: Callable[[Notice], None]) -> Subscription:
    """Subscribe to finished batches; a subscription to an unreachable address is never called."""
    if address is None:
        return Subscription(None, on_notice)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(address)
    except OSError:
        connection.close()
        return Subscription(None, on_notice)
    return Subscription(connection, on_notice)


def _receive(connection: socket.socket, on_notice: Callable[[Notice], None]) -> None:
    # A connection that is reset has ended as well.
    with suppress(OSError), connection, connection.makefile("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                # The driver was killed while it sent this one.
                return
            query_id, query_name, run_id, batch_id, ends = json.loads(line)
            on_notice(Notice(query_id, query_name, run_id, batch_id, tuple(ends)))


class SocketFolder:
    """A folder that is there from the moment when it is made until it is removed."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        if len(self.address.encode()) > _LONGEST_PATH:
            self.path.rmdir()
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_SHORT))
        # Before there is a socket in it: folders without one are left alone.
        self._lock = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove_left_behind(self.path.parent)

    @property
    def address(self) -> str:
        return str(self.path / SOCKET)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _remove_left_behind(parent: Path) -> None:
    for folder in parent.glob(f"{_PREFIX}*"):
        # Another process may remove it at the same time, and those of other users cannot be opened.
        with suppress(OSError):
            if not (folder / SOCKET).is_socket():
                continue
            lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
