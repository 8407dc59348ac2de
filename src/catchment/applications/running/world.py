"""The processes of a running application: broker, generator, pipeline and actuator, started in order, killed on request."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from catchment.applications.running.generating import FINISH_S
from catchment.applications.running.layout import lay_out
from catchment.applications.running.processes import BrokerChild, Child
from catchment.client.errors import ClientError

_PARTITIONS: Final = 2
_TIMEOUT_S: Final = 30.0
_STOP_SPARK_S: Final = 90.0
_STOP_GENERATOR_S: Final = FINISH_S + 30.0
_TABLE: Final = {"cleanup.policy": "compact"}


class World:
    """An application in a folder, with all that it needs."""

    def __init__(
        self, name: str, folder: Path, *, rate: float, port: int | None = None, master: str = "local[*]"
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.broker = BrokerChild(folder, port)
        self.broker.start()
        try:
            self.layout = lay_out(name, folder)
            self._make_topics()
        except BaseException:
            self.broker.stop()
            raise
        self.generator = self._generator(rate)
        self.actuator = self._actuator()
        self.pipeline = self._pipeline(master)
        self._spark_kills = 0

    def start(self) -> None:
        """Start the processes, the slowest one first."""
        self.pipeline.start()
        self.generator.start()
        if self.actuator is not None:
            self.actuator.start()

    def close(self) -> None:
        """Stop the processes that write before those that they write to."""
        self.stop_pipeline()
        self.broker.stop()

    def stop_pipeline(self) -> None:
        """Stop everything except the broker, so that what was written can still be read."""
        self.stop_generator()
        self.pipeline.stop(_STOP_SPARK_S)
        if self.actuator is not None:
            self.actuator.stop()

    def kill(self) -> None:
        """End every process at once, with all that it has started."""
        for child in (self.generator, self.pipeline, self.actuator, self.broker):
            if child is not None:
                child.stop(0.0)

    def stop_generator(self) -> None:
        """Let it send what it has in its ledger, for as long as it gives itself for that."""
        self.generator.stop(_STOP_GENERATOR_S)

    def check(self) -> None:
        """Raise an error if a process that should be running is not."""
        if self.pipeline.exit_code is not None and self._spark_kills:
            # Killed more often than its supervisor allows: here that is what the keys are for.
            self._spark_kills = 0
            self.pipeline.start()
        for child in (self.broker, self.pipeline, self.generator, self.actuator):
            if child is not None and child.exit_code not in (None, 0):
                raise child.failure()

    def kill_spark(self) -> bool:
        """Kill -9 the JVM of the driver; False if there is none just now."""
        found = self.pipeline.descendants("java")
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._spark_kills += bool(found)
        return bool(found)

    def kill_broker(self) -> None:
        """Kill -9 the broker, and start it again on the same data; its clients wait until it is back."""
        self.broker.kill()
        self.broker.launch()

    def _make_topics(self) -> None:
        """Create the topics that the pipeline only reads, and that of the answers; the pipeline creates the others."""
        layout = self.layout
        wanted = [NewTopic(layout.source, _PARTITIONS)]
        wanted += [NewTopic(topic, 1, config=_TABLE) for topic in layout.tables]
        wanted += [NewTopic(layout.acted, 1)] if layout.commands else []
        # The futures complete only while the client exists.
        admin = AdminClient({"bootstrap.servers": self.broker.servers})
        for topic, made in admin.create_topics(wanted).items():
            try:
                made.result(_TIMEOUT_S)
            except KafkaException as error:
                if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                    raise ClientError(f"topic {topic} cannot be created: {error.args[0].str()}") from error

    def _generator(self, rate: float) -> Child:
        layout = self.layout
        arguments = [layout.name, "--servers", self.broker.servers, "--topic", layout.source]
        arguments += ["--ledger", str(layout.ledger), "--rate", str(rate), "--lateness", str(layout.lateness_s)]
        module = "catchment.applications.running.generating"
        return Child("generator", [module, *arguments], layout.folder / "generator.log")

    def _actuator(self) -> Child | None:
        layout = self.layout
        if layout.commands is None:
            return None
        arguments = [
            layout.name,
            "--servers",
            self.broker.servers,
            "--commands",
            layout.commands,
            "--acted",
            layout.acted,
        ]
        module = "catchment.applications.running.acting"
        return Child("actuator", [module, *arguments], layout.folder / "actuator.log")

    def _pipeline(self, master: str) -> Child:
        layout = self.layout
        arguments = [
            str(layout.file),
            "--bootstrap-server",
            self.broker.servers,
            "--home",
            str(layout.home.root),
            "--master",
            master,
        ]
        return Child("pipeline", ["catchment.cli", "pipeline", "run", *arguments], layout.folder / "pipeline.log")
