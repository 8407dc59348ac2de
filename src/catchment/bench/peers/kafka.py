"""Apache Kafka as a peer: one node, KRaft, the settings and the JVM flags that its own start script gives."""

from __future__ import annotations

import os
import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from catchment.bench.peers.java import java_command, kafka_classpath
from catchment.bench.peers.maven import PeerUnavailable
from catchment.bench.peers.server import Server
from catchment.ports.network import free_port

# The variables that kafka-server-start and kafka-run-class look at, and what they take where these are not set.
_VIRTUAL_MACHINE = {
    "KAFKA_HEAP_OPTS": "-Xmx1G -Xms1G",
    "KAFKA_JVM_PERFORMANCE_OPTS": "-server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 "
    "-XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true",
}
# Kafka's own configuration logs at this level too, to a file.
_LOGGING = """
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = [%d] %p %m (%c)%n
"""


class KafkaServer(Server):
    """One Kafka broker that is its own controller, or one more in the cluster of such a broker."""

    name = "kafka"

    def __init__(self, settings: Mapping[str, str] | None = None, joins: KafkaServer | None = None) -> None:
        """With another one to join, it is broker 2 of that one's cluster."""
        super().__init__()
        self._settings = dict(settings or {})
        self._is_controller = joins is None
        self.controller_port: int = free_port() if joins is None else joins.controller_port
        # A leading dash would look like an option to the tool.
        new_id = "c" + urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
        self.cluster_id: str = new_id if joins is None else joins.cluster_id

    def command(self, directory: Path) -> Sequence[str]:
        """Write the configuration, format the storage as an administrator would, and name the broker's command."""
        java = (java_command(), *_virtual_machine_options())
        logging = directory / "log4j2.properties"
        logging.write_text(_LOGGING.format(file=directory / "server.log"))
        properties = directory / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in self._properties(directory).items()))
        options = ("-cp", kafka_classpath(), f"-Dlog4j2.configurationFile={logging}")
        formatting = ("kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", str(properties))
        formatted = subprocess.run([*java, *options, *formatting], capture_output=True, text=True, check=False)
        if formatted.returncode != 0:
            raise PeerUnavailable(f"Kafka could not format its storage: {(formatted.stdout + formatted.stderr)[-500:]}")
        return (*java, *options, "kafka.Kafka", str(properties))

    def _properties(self, directory: Path) -> dict[str, str]:
        controller = f"127.0.0.1:{self.controller_port}"
        return {
            "process.roles": "broker,controller" if self._is_controller else "broker",
            "node.id": "1" if self._is_controller else "2",
            "controller.quorum.voters": f"1@{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}"
            + (f",CONTROLLER://{controller}" if self._is_controller else ""),
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(directory / "data"),
            # One node cannot keep three copies; Kafka's own single-node configuration says the same.
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **self._settings,
        }


def _virtual_machine_options() -> list[str]:
    return [option for name, usual in _VIRTUAL_MACHINE.items() for option in (os.environ.get(name) or usual).split()]
