"""The process of an actuator: it reads commands, acts on each of them once, and acknowledges what it did.

    python -m catchment.applications.running.acting emergency --servers … --commands dispatch --acted dispatch.acted

The acknowledgement and the offset in the command topic are committed in one transaction. A command that is read again, because
the actuator died between acting and committing, has the same id, by which a real device would recognise it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event as Flag
from threading import Timer
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

from catchment.applications.catalogue import Actuator, actuator_of
from catchment.pipelines.alerts.log import Remembered
from catchment.pipelines.driving.supervision.stop_flag import StopFlag

_POLL_S: Final = 0.2
_RETRY_S: Final = 0.5
_BATCH: Final = 100
_TRANSACTION_S: Final = 10.0
_STUCK_S: Final = 25.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="acting")
    parser.add_argument("application")
    parser.add_argument("--servers", required=True)
    parser.add_argument("--commands", required=True)
    parser.add_argument("--acted", required=True)
    options = parser.parse_args()
    stop = StopFlag()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    actuator = _Once(actuator_of(options.application))
    while not stop.is_set():
        try:
            _work(actuator, options, stop)
        except KafkaException as error:
            sys.stderr.write(f"the actuator restarts: {error}\n")
            stop.wait(_RETRY_S)
    return 0


class _Once:
    """An actuator that does not repeat a command whose acknowledgement has failed."""

    def __init__(self, actuator: Actuator) -> None:
        self._actuator = actuator
        self._done: Remembered[str] = Remembered()

    def act(self, command: dict[str, Any]) -> str:
        identity = str(command["id"])
        if identity not in self._done:
            self._done[identity] = self._actuator.act(command) or "nothing to do"
        return self._done[identity]


def _work(actuator: _Once, options: argparse.Namespace, stop: StopFlag) -> None:
    """Until the stop flag is set, a transaction fails, or the broker was lost: librdkafka's transactions may not recover from that."""
    is_lost = Flag()
    common = {"bootstrap.servers": options.servers, "log_level": 0, "error_cb": lambda error: is_lost.set()}
    group = f"{options.application}.actuator"
    consumer = Consumer(
        {
            **common,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": 6_000,
            "topic.metadata.refresh.interval.ms": 2_000,
        }
    )
    producer = Producer(
        {**common, "transactional.id": group, "message.timeout.ms": 10_000, "transaction.timeout.ms": 15_000}
    )
    try:
        producer.init_transactions(_TRANSACTION_S)
        consumer.subscribe([options.commands])
        while not stop.is_set():
            commands = [one for one in consumer.consume(_BATCH, _POLL_S) if _is_record(one)]
            if is_lost.is_set():
                return
            if commands:
                with _restarted_if_stuck():
                    producer.begin_transaction()
                    for command in commands:
                        producer.produce(options.acted, _acknowledgement(actuator, command), command.key())
                    producer.send_offsets_to_transaction(
                        consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), _TRANSACTION_S
                    )
                    producer.commit_transaction(_TRANSACTION_S)
    finally:
        consumer.close()


@contextmanager
def _restarted_if_stuck() -> Iterator[None]:
    """If the broker dies within a transaction, librdkafka may never end it, whatever the timeout: restart the process then."""
    timer = Timer(_STUCK_S, _restart)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _restart() -> None:
    """Execute the program again in the same process. Its next producer aborts the open transaction."""
    sys.stderr.write(f"the actuator restarts: a transaction has not ended after {_STUCK_S:g} s\n")
    os.execv(sys.executable, sys.orig_argv)


def _is_record(message: Message) -> bool:
    error = message.error()
    if error is None:
        return True
    if error.fatal() or error.code() == KafkaError._MAX_POLL_EXCEEDED:
        raise KafkaException(error)
    # The topic does not exist yet, or the broker is down: librdkafka retries by itself.
    return False


def _acknowledgement(actuator: _Once, message: Message) -> bytes:
    value = message.value()
    assert value is not None, "the alerts of a pipeline have values"
    command: dict[str, Any] = json.loads(value)
    acknowledged = {
        "id": command["id"],
        "acted": actuator.act(command),
        "command": command.get("message"),
        "at": time.time(),
    }
    return json.dumps(acknowledged).encode()


if __name__ == "__main__":
    sys.exit(main())
