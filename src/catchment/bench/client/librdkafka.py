"""librdkafka's C interface through ctypes, for loads where a Python object for every record would be the limit.

The library is the one inside the confluent-kafka wheel. Records are handed over as an array of C structures that is
built once, and read back through a callback that is itself a C function, so no Python runs per record.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import confluent_kafka

_PRODUCER, _CONSUMER = 0, 1
_BEGINNING = 0
_COPY_PAYLOAD = 2
_ERROR_BYTES = 512
_Pointer = ctypes.c_void_p
_REPORT = ctypes.CFUNCTYPE(None, _Pointer, _Pointer, _Pointer)


class CMessage(ctypes.Structure):
    """`rd_kafka_message_t`."""

    _fields_ = (
        ("error", ctypes.c_int),
        ("topic", _Pointer),
        ("partition", ctypes.c_int32),
        ("payload", _Pointer),
        ("length", ctypes.c_size_t),
        ("key", _Pointer),
        ("key_length", ctypes.c_size_t),
        ("offset", ctypes.c_int64),
        ("private", _Pointer),
    )


def _load() -> ctypes.CDLL:
    package = Path(confluent_kafka.__file__).parent
    bundled = sorted(package.parent.glob("confluent_kafka.libs/librdkafka*")) + sorted(
        package.glob(".dylibs/librdkafka*")
    )
    path = str(bundled[0]) if bundled else ctypes.util.find_library("rdkafka")
    if path is None:
        raise RuntimeError("librdkafka was found neither in the confluent-kafka wheel nor on the system")
    library = ctypes.CDLL(path)
    for name in ("conf_new", "new", "topic_new", "queue_new", "consume_queue"):
        getattr(library, f"rd_kafka_{name}").restype = _Pointer
    library.rd_kafka_consume_start_queue.argtypes = (_Pointer, ctypes.c_int32, ctypes.c_int64, _Pointer)
    return library


_LIBRARY = _load()


class _Handle:
    """A librdkafka instance of one kind, with one topic."""

    def __init__(
        self,
        kind: int,
        settings: Mapping[str, str | int],
        topic: str,
        on_report: Callable[[int, int, int], None] | None = None,
    ) -> None:
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        configuration = _Pointer(_LIBRARY.rd_kafka_conf_new())
        for key, value in settings.items():
            if _LIBRARY.rd_kafka_conf_set(configuration, key.encode(), str(value).encode(), error, _ERROR_BYTES):
                raise ValueError(error.value.decode())
        if on_report is not None:
            self._on_report = _REPORT(on_report)
            _LIBRARY.rd_kafka_conf_set_dr_msg_cb(configuration, self._on_report)
        self.handle = _Pointer(_LIBRARY.rd_kafka_new(kind, configuration, error, _ERROR_BYTES))
        if self.handle.value is None:
            raise RuntimeError(error.value.decode())
        self.topic = _Pointer(_LIBRARY.rd_kafka_topic_new(self.handle, topic.encode(), None))


class BatchProducer(_Handle):
    """Produces the same prepared records over and over."""

    def __init__(self, settings: Mapping[str, str | int], topic: str, payloads: list[bytes]) -> None:
        self._failures = 0
        # Delivery reports for failures only: a Python call for every success would be the limit of the run.
        super().__init__(_PRODUCER, {**settings, "delivery.report.only.error": "true"}, topic, self._count_failure)
        # ctypes keeps only addresses; this reference keeps the bytes behind them.
        self._payloads = [ctypes.create_string_buffer(payload, len(payload)) for payload in payloads]
        self._messages = (CMessage * len(payloads))()
        for message, payload in zip(self._messages, self._payloads, strict=True):
            message.payload, message.length = ctypes.addressof(payload), len(payload)

    def produce(self, partition: int, count: int) -> int:
        """Queue up to `count` of the prepared records. Returns how many the queue accepted."""
        wanted = min(count, len(self._messages))
        taken: int = _LIBRARY.rd_kafka_produce_batch(self.topic, partition, _COPY_PAYLOAD, self._messages, wanted)
        return taken

    def wait_for_room(self, timeout_ms: int) -> None:
        """Let the queue drain for a moment."""
        _LIBRARY.rd_kafka_poll(self.handle, timeout_ms)

    def flush(self, timeout_ms: int) -> None:
        """Wait until everything is acknowledged."""
        if _LIBRARY.rd_kafka_flush(self.handle, timeout_ms) != 0 or self._failures:
            raise RuntimeError(f"not every record was acknowledged; {self._failures} failed")

    def _count_failure(self, handle: int, message: int, opaque: int) -> None:
        self._failures += 1

    def overwrite(self, index: int, payload: bytes) -> None:
        """Put other bytes of the same length into a prepared record."""
        ctypes.memmove(self._payloads[index], payload, len(payload))


class QueueConsumer(_Handle):
    """Reads all partitions of a topic from the beginning, without a group."""

    def __init__(self, settings: Mapping[str, str | int], topic: str, partitions: int) -> None:
        super().__init__(_CONSUMER, settings, topic)
        self._queue = _Pointer(_LIBRARY.rd_kafka_queue_new(self.handle))
        for partition in range(partitions):
            if _LIBRARY.rd_kafka_consume_start_queue(self.topic, partition, _BEGINNING, self._queue):
                raise RuntimeError(f"partition {partition} of {topic} cannot be read")
        # Called for every record: it looks at the record's error and returns, all in C.
        self._callback = ctypes.cast(_LIBRARY.rd_kafka_message_errstr, _Pointer)

    def drain(self, timeout_ms: int) -> int:
        """Consume all that has arrived, waiting for the first record. Returns the number of records."""
        count: int = _LIBRARY.rd_kafka_consume_callback_queue(self._queue, timeout_ms, self._callback, None)
        return count

    def heads(self, timeout_ms: int, length: int) -> Iterator[bytes]:
        """The first bytes of each record as it arrives, until none has arrived for the given time."""
        while address := _LIBRARY.rd_kafka_consume_queue(self._queue, timeout_ms):
            message = CMessage.from_address(address)
            head = ctypes.string_at(message.payload, min(length, message.length)) if message.error == 0 else None
            _LIBRARY.rd_kafka_message_destroy(_Pointer(address))
            if head is not None:
                yield head
