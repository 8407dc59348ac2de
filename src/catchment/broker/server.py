"""One broker, from its settings to its listeners.

Start: lock and open the log directories, load the cluster metadata, open a partition for each local replica, bind the listeners,
register, and only then accept clients. Close undoes this in reverse order, and writes the clean-shutdown marker last.
"""

import asyncio
import contextlib
import logging
import random
import socket
from collections.abc import Mapping
from functools import partial
from uuid import UUID

from catchment.broker.admin.config_changes import check_topic_settings
from catchment.broker.consumed_retention import ConsumedRetention
from catchment.broker.context import Services
from catchment.broker.coordinators.groups import GroupCoordinator
from catchment.broker.coordinators.internal_topics import TRANSACTIONS_TOPIC
from catchment.broker.coordinators.share_groups import ShareGroupCoordinator
from catchment.broker.coordinators.share_state import ShareStateCoordinator
from catchment.broker.coordinators.transactions import TransactionCoordinator
from catchment.broker.fetch_sessions import FetchSessions
from catchment.broker.network.buffers import BufferPool
from catchment.broker.network.listeners import Connections, bind
from catchment.broker.network.routing import Interceptor, Router
from catchment.broker.quotas.enforcement import Quotas
from catchment.broker.share.manager import SharePartitionManager
from catchment.broker.transactions.markers import write_markers
from catchment.cluster.controller import Controller
from catchment.cluster.local_store import DIRECTORY_NAME, LocalStore
from catchment.cluster.metadata import BrokerImage, Endpoint, MetadataImage
from catchment.ports.clock import Clock, SystemClock
from catchment.ports.disk import Disk
from catchment.ports.network import Address, Listening, Network, SocketNetwork
from catchment.ports.real_disk import RealDisk
from catchment.ports.workers import LoopWorker, ProcessWorker
from catchment.replication.cleaner import LogCleaner
from catchment.replication.maintenance import LogMaintenance
from catchment.replication.replicas import Replicas
from catchment.settings.broker import BrokerSettings
from catchment.storage.config import LogConfig
from catchment.storage.directory import LogDirectory
from catchment.storage.layout import format_uuid
from catchment.storage.log import Log

_logger = logging.getLogger(__name__)


class BrokerServer:
    def __init__(
        self,
        settings: BrokerSettings,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        network: Network | None = None,
        randomness: random.Random | None = None,
        interceptor: Interceptor | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._disk = disk or RealDisk(settings.integer("catchment.max.open.files"))
        self._network = network or SocketNetwork()
        self._randomness = randomness or random.SystemRandom()
        self._interceptor = interceptor
        self._closing = contextlib.AsyncExitStack()
        self._services: Services | None = None
        self._listening: dict[str, Listening] = {}

    @property
    def services(self) -> Services:
        """The parts of the broker, once it has started."""
        if self._services is None:
            raise RuntimeError("the broker has not started")
        return self._services

    @property
    def endpoints(self) -> Mapping[str, Address]:
        """The bound addresses, by listener name."""
        return {name: listening.address for name, listening in self._listening.items()}

    async def start(self) -> None:
        """Start the broker, which is ready for clients on return; on failure, release everything acquired so far."""
        async with contextlib.AsyncExitStack() as acquired:
            await self._start(acquired)
            self._closing = acquired.pop_all()

    async def close(self) -> None:
        """Stop cleanly: no client is served any more, and all appended records are on disk."""
        await self._closing.aclose()

    async def _start(self, acquired: contextlib.AsyncExitStack) -> None:
        for notice in self._settings.notices():
            _logger.warning(notice)
        directories = self._open_directories(acquired)
        store = LocalStore(self._disk, f"{directories[0].path}/{DIRECTORY_NAME}")
        acquired.push_async_callback(store.close)
        controller = Controller(
            store,
            self._settings.node_id,
            cluster_id=directories[0].cluster_id,
            validate_topic_settings=lambda overrides: check_topic_settings(overrides, self._current_settings()),
            new_uuid=self._new_uuid,
        )
        await controller.start()
        replicas = Replicas(self._settings, self._disk, directories)
        self._open_logs(directories, replicas, controller.image)
        await self._adopt_unknown_topics(directories, controller)
        services = self._services = self._make_services(controller, replicas)
        for apply in (self._use_dynamic_settings, services.quotas.apply, replicas.apply):
            apply(MetadataImage(), controller.image)
            controller.subscribe(apply)
        acquired.push_async_callback(replicas.finish)
        self._start_maintenance(acquired, services)
        await self._start_coordinators(acquired, services)
        await self._listen(acquired, services)

    def _make_services(self, controller: Controller, replicas: Replicas) -> Services:
        settings, clock = self._settings, self._clock
        groups = GroupCoordinator(settings, controller, replicas, clock, self._randomness)
        share_state = ShareStateCoordinator(settings, controller, replicas, clock)
        return Services(
            settings,
            controller,
            replicas,
            clock,
            self._disk,
            FetchSessions(settings.integer("max.incremental.fetch.session.cache.slots"), self._randomness),
            groups,
            share_state,
            share_groups=ShareGroupCoordinator(groups.runtime, share_state, controller),
            share_partitions=SharePartitionManager(settings, controller, replicas, share_state, clock),
            transactions=TransactionCoordinator(
                settings, controller, replicas, clock, partial(write_markers, replicas, groups)
            ),
            quotas=Quotas(settings, clock),
        )

    def _start_maintenance(self, acquired: contextlib.AsyncExitStack, services: Services) -> None:
        replicas = services.replicas
        consumed = ConsumedRetention(services.controller, replicas, services.groups, services.share_state)
        maintenance = LogMaintenance(replicas, self._clock, lambda: services.settings, consumed.apply)
        maintenance.start()
        acquired.push_async_callback(maintenance.close)
        worker = ProcessWorker() if isinstance(self._disk, RealDisk) else LoopWorker(self._disk)
        cleaner = LogCleaner(replicas, self._disk, self._clock, lambda: services.settings, worker)
        cleaner.start()
        acquired.push_async_callback(cleaner.close)

    async def _start_coordinators(self, acquired: contextlib.AsyncExitStack, services: Services) -> None:
        await services.share_state.start()
        acquired.push_async_callback(services.share_state.close)
        services.share_partitions.start()
        acquired.push_async_callback(services.share_partitions.close)
        await services.groups.start()
        acquired.push_async_callback(services.groups.close)
        services.share_groups.start()
        acquired.push_async_callback(services.share_groups.close)
        await services.transactions.start()
        acquired.push_async_callback(services.transactions.close)

    async def _listen(self, acquired: contextlib.AsyncExitStack, services: Services) -> None:
        router = Router(services, self._interceptor)
        connections = Connections(services)
        pool = BufferPool()
        acquired.push_async_callback(router.close)
        acquired.callback(services.workers.stop)
        acquired.callback(connections.abort_all)
        idle = asyncio.get_running_loop().create_task(connections.close_idle_connections())
        acquired.callback(idle.cancel)
        for configured in self._settings.listeners:
            listening = await bind(self._network, configured, connections, router, pool)
            acquired.push_async_callback(listening.close)
            self._listening[configured.name] = listening
        await services.controller.register_broker(
            BrokerImage(self._settings.node_id, self._advertised(), self._settings.text("broker.rack"))
        )
        for listening in self._listening.values():
            await listening.start()

    def _advertised(self) -> dict[str, Endpoint]:
        """The addresses that clients get; a missing host or port is that of this machine and of the bound listener."""
        return {
            advertised.name: Endpoint(
                advertised.host or socket.gethostname(),
                advertised.port or self._listening[advertised.name].address.port,
            )
            for advertised in self._settings.advertised_listeners
        }

    def _open_directories(self, acquired: contextlib.AsyncExitStack) -> list[LogDirectory]:
        directories: list[LogDirectory] = []
        for path in self._settings.log_dirs:
            cluster_id = directories[0].cluster_id if directories else None
            directory = LogDirectory(
                self._disk,
                self._clock,
                str(path),
                node_id=self._settings.node_id,
                cluster_id=cluster_id,
                new_id=self._new_uuid,
            )
            acquired.callback(self._close_directory, directory)
            directories.append(directory)
        return directories

    def _close_directory(self, directory: LogDirectory) -> None:
        """Mark the shutdown as clean only if the broker had started: otherwise the logs may not have been recovered."""
        if self._services is None:
            directory.close(clean=False)
        else:
            directory.close(high_watermarks=self._services.replicas.high_watermarks())

    def _open_logs(self, directories: list[LogDirectory], replicas: Replicas, image: MetadataImage) -> None:
        def config(topic: str) -> LogConfig:
            known = image.topics.get(topic)
            # A topic that another Kafka wrote may have been compacted, so its log may have gaps.
            return replicas.log_config({"cleanup.policy": "compact,delete"} if known is None else known.settings)

        for directory in directories:
            directory.open_logs(config)

    async def _adopt_unknown_topics(self, directories: list[LogDirectory], controller: Controller) -> None:
        """Adopt the topics of a directory that Apache Kafka wrote: Kafka keeps their metadata elsewhere."""
        found: dict[str, dict[int, Log]] = {}
        for directory in directories:
            for (topic, number), log in list(directory.logs.items()):
                if log.topic_id in controller.deleted_topic_ids:
                    directory.delete_log(topic, number)
                    self._disk.sync_directory(directory.path)
                elif topic not in controller.image.topics:
                    found.setdefault(topic, {})[number] = log
        if found:
            from catchment.broker.coordinators.transactions import highest_producer_id

            # New producers must not get ids whose sequences or transactions are in the logs.
            adopted = [log for logs in found.values() for log in logs.values()]
            highest = max((entry.producer_id for log in adopted for entry in log.producers), default=-1)
            in_transactions = await highest_producer_id(found.get(TRANSACTIONS_TOPIC, {}).values())
            await controller.allocate_producer_ids(max(highest, in_transactions) + 1)
        for topic, logs in found.items():
            epochs = {number: log.leader_epochs.latest for number, log in logs.items()}
            await controller.adopt_topic(topic, next(iter(logs.values())).topic_id, epochs)
            _logger.info("adopted topic %s with %d partitions found on disk", topic, len(logs))

    def _use_dynamic_settings(self, old: MetadataImage, new: MetadataImage) -> None:
        services = self.services
        node_id = self._settings.node_id
        dynamic = (new.default_broker_settings, new.broker_settings.get(node_id, {}))
        if dynamic != (old.default_broker_settings, old.broker_settings.get(node_id, {})):
            services.settings = self._settings.with_dynamic(*dynamic)
            services.replicas.use_settings(services.settings)

    def _current_settings(self) -> BrokerSettings:
        return self._settings if self._services is None else self._services.settings

    def _new_uuid(self) -> UUID:
        """A random id whose text, like Kafka's, does not look like a command-line option."""
        while format_uuid(made := UUID(int=self._randomness.getrandbits(128), version=4)).startswith("-"):
            pass
        return made
