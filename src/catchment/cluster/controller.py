"""The controller: the one place that changes the cluster, through the coordination store.

Every change is one `multi` that also checks the controller's epoch, so a controller that was replaced without noticing changes nothing
(KAFKA-6082). The image is replaced once the store has the change, and subscribers are told before the caller is answered.
A lone broker is its own controller and every partition's only replica.
"""

import asyncio
import contextlib
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from uuid import UUID, uuid4

from kio.schema.errors import ErrorCode

from catchment.cluster import client_quotas, group_settings, nodes
from catchment.cluster.completion import completes
from catchment.cluster.loading import load_image, missing_roots
from catchment.cluster.metadata import (
    NO_LEADER,
    BrokerImage,
    ClientQuotas,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from catchment.cluster.new_topic import NewTopic, fresh_partitions, plan_assignments, plan_more_assignments
from catchment.cluster.placement import Assignment
from catchment.cluster.producer_ids import ProducerIds
from catchment.cluster.topic_names import check_topic_name, collision_key
from catchment.ports.coordination import (
    Check,
    Coordination,
    CoordinationError,
    Create,
    Delete,
    Node,
    NoNode,
    Operation,
    OutcomeUnknown,
    Set,
)
from catchment.protocol.errors import ApiError

Subscriber = Callable[[MetadataImage, MetadataImage], Awaitable[object] | None]
"""Is given the old image and the new one; may return what a deletion has to wait for."""
SettingsValidator = Callable[[Mapping[str, str]], None]
"""Raises ApiError INVALID_CONFIG for topic settings that cannot be."""


class Controller:
    def __init__(
        self,
        store: Coordination,
        broker_id: int,
        *,
        cluster_id: str | None = None,
        validate_topic_settings: SettingsValidator = lambda settings: None,
        new_uuid: Callable[[], UUID] = uuid4,
    ) -> None:
        """`cluster_id` names a cluster whose store is empty; None draws one."""
        self._store = store
        self._broker_id = broker_id
        self._first_cluster_id = cluster_id
        self._validate_topic_settings = validate_topic_settings
        self._new_uuid = new_uuid
        self._epoch = 0
        self._image = MetadataImage()
        self._subscribers: list[Subscriber] = []
        self._names: dict[str, str] = {}
        """Topics by what metrics make of their names, those still being created included."""
        self._change = asyncio.Lock()
        """Held by changes of what exists; two creations never meet, thanks to `_names`, and may share a sync."""
        self._producer_ids = ProducerIds(self.allocate_producer_ids)
        self._past_deletions: list[UUID] = []
        """Deleted topics that are still noted in the store, though nothing of them is left."""
        self.deleted_topic_ids: frozenset[UUID] = frozenset()
        """Topics that were deleted shortly before the last stop: files of them that a start finds are not to be adopted."""

    @property
    def image(self) -> MetadataImage:
        return self._image

    @property
    def epoch(self) -> int:
        """Rises with every controller."""
        return self._epoch

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber(old, new)` for every later change of the image."""
        self._subscribers.append(subscriber)

    async def start(self) -> None:
        """Take office, and raise every leader epoch, all in one change.

        The epoch tells what was written before the restart from what comes after, where a crash has cut the log between.
        """
        image = await load_image(self._store)
        operations: list[Operation] = []
        epoch_version = 0
        if not image.cluster_id:
            image = replace(image, cluster_id=self._first_cluster_id or _cluster_id(self._new_uuid()))
            operations.append(Create(nodes.CLUSTER, nodes.encode({"id": image.cluster_id})))
            operations += [Create(path, b"{}") for path in nodes.ROOTS]
        else:
            epoch_version = (await self._store.get(nodes.CONTROLLER_EPOCH)).version
            self._past_deletions = [UUID(name) for name in await self._store.children(nodes.DELETIONS)]
            self.deleted_topic_ids = frozenset(self._past_deletions)
            operations += [Create(path, b"{}") for path in await missing_roots(self._store)]
        self._epoch = epoch_version + 1
        operations.append(Set(nodes.CONTROLLER_EPOCH, b"{}", epoch_version))
        operations.append(Create(nodes.CONTROLLER, nodes.encode({"broker": self._broker_id}), ephemeral=True))
        topics = [self._with_raised_epochs(topic) for topic in image.topics.values()]
        for topic in topics:
            operations += [
                Set(nodes.partition(topic.id, state.partition), self._encoded(state), state.partition_epoch - 1)
                for state in topic.partitions
            ]
        await self._multi(operations)
        self._names = {collision_key(topic.name): topic.name for topic in topics}
        self._publish(replace(image, controller_id=self._broker_id).with_topics(topics))

    @completes
    async def register_broker(self, broker: BrokerImage) -> BrokerImage:
        """Make the broker known for as long as its session lasts; what is returned bears its epoch."""
        path = nodes.broker(broker.id)
        if broker.id in self._image.brokers:
            node = await self._commit_one(Set(path, nodes.encode_broker(broker)))
        else:
            node = await self._commit_one(Create(path, nodes.encode_broker(broker), ephemeral=True))
        registered = replace(broker, epoch=node.created_by)
        self._publish(self._image.with_broker(registered))
        return registered

    @completes
    async def create_topic(self, new: NewTopic, *, validate_only: bool = False) -> TopicImage:
        check_topic_name(new.name)
        self._check_name_is_free(new.name)
        assignments = plan_assignments(new, self._image, start=len(self._image.topics))
        self._validate_topic_settings(new.settings)
        topic = TopicImage(new.name, self._new_uuid(), fresh_partitions(assignments), dict(new.settings))
        if not validate_only:
            await self._create(topic)
        return topic

    @completes
    async def adopt_topic(self, name: str, topic_id: UUID | None, leader_epochs: Mapping[int, int]) -> TopicImage:
        """Take in a topic whose partitions lie on this broker's disk, written by a broker that kept its metadata elsewhere.

        `leader_epochs` has the last leader epoch in each partition's log, or -1. A number that is missing below the highest one
        belongs to a broker that we do not know: that partition has no leader. A name that collides with another is taken as it
        is, for the records are there.
        """
        check_topic_name(name)
        if name in self._image.topics:
            raise _exists(name)
        partitions = tuple(
            PartitionImage(number, self._broker_id, leader_epochs[number] + 1, (self._broker_id,), (self._broker_id,))
            if number in leader_epochs
            else PartitionImage(number, NO_LEADER, 0, (), ())
            for number in range(max(leader_epochs) + 1)
        )
        topic = TopicImage(name, topic_id or self._new_uuid(), partitions)
        await self._create(topic)
        return topic

    @completes
    async def delete_topic(self, name: str) -> None:
        """Delete the topic; when subscribers are done, its files are out of the way.

        Its id stays noted until the next deletion, so that a start after a crash in between does not take the files for a topic
        that somebody brought.
        """
        async with self._change:
            topic = self._existing(name)
            await self._commit(
                [
                    *(Delete(nodes.partition(topic.id, state.partition)) for state in topic.partitions),
                    Delete(nodes.topic_partitions(topic.id)),
                    Delete(nodes.topic_config(name)),
                    Delete(nodes.topic(name)),
                    *(Delete(nodes.deletion(topic_id)) for topic_id in self._past_deletions),
                    Create(nodes.deletion(topic.id), b"{}"),
                ]
            )
            self._past_deletions = [topic.id]
            self._release_name(name)
            for done in self._publish(self._image.without_topic(name)):
                await done

    @completes
    async def create_partitions(
        self, name: str, count: int, assignments: Sequence[Assignment] | None = None, *, validate_only: bool = False
    ) -> TopicImage:
        """Grow the topic to `count` partitions; `assignments` are those of the new ones alone."""
        async with self._change:
            topic = self._existing(name)
            more = plan_more_assignments(topic, count, assignments, self._image, start=len(self._image.topics))
            new = fresh_partitions(more, first_partition=len(topic.partitions))
            grown = replace(topic, partitions=topic.partitions + new)
            if not validate_only:
                replicas = [state.replicas for state in grown.partitions]
                topic_node = Set(nodes.topic(name), nodes.encode_topic(topic.id, replicas))
                await self._commit([topic_node, *self._partition_creations(topic.id, new)])
                self._publish(self._image.with_topics([grown]))
        return grown

    async def set_topic_settings(self, name: str, settings: Mapping[str, str]) -> None:
        """Replace all that the topic overrides."""
        await self.change_topic_settings(name, lambda _: settings)

    @completes
    async def change_topic_settings(self, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
        """Replace what the topic overrides by `change` of it; no other change comes between the reading and the writing."""
        async with self._change:
            topic = self._existing(name)
            settings = dict(change(topic.settings))
            self._validate_topic_settings(settings)
            await self._commit([Set(nodes.topic_config(name), nodes.encode(settings))])
            self._publish(self._image.with_topics([replace(topic, settings=settings)]))

    async def set_broker_settings(self, broker_id: int | None, settings: Mapping[str, str]) -> None:
        """Replace a broker's dynamic settings, or with None those of every broker."""
        await self.change_broker_settings(broker_id, lambda _: settings)

    @completes
    async def change_broker_settings(
        self, broker_id: int | None, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> None:
        """As `change_topic_settings`."""
        path = nodes.broker_config(broker_id)
        async with self._change:
            image = self._image
            current = image.default_broker_settings if broker_id is None else image.broker_settings.get(broker_id, {})
            settings = change(current)
            try:
                await self._store.get(path)
            except NoNode:
                await self._commit([Create(path, nodes.encode(settings))])
            else:
                await self._commit([Set(path, nodes.encode(settings))])
            self._publish(self._image.with_broker_settings(broker_id, settings))

    @completes
    async def change_group_settings(
        self, group_id: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> None:
        """As `change_topic_settings`; a group need not exist to have settings."""
        async with self._change:
            current = self._image.group_settings.get(group_id, {})
            changed = change(current)
            operations = group_settings.changes(group_id, current, changed)
            if operations:
                await self._commit(operations)
                self._publish(self._image.with_group_settings(group_id, changed))

    @completes
    async def change_client_quotas(self, change: Callable[[ClientQuotas], ClientQuotas]) -> None:
        """As `change_topic_settings`, for the quotas of all entities."""
        async with self._change:
            current = self._image.client_quotas
            changed = change(current)
            operations = client_quotas.changes(current, changed)
            if operations:
                await self._commit(operations)
                self._publish(self._image.with_client_quotas(changed))

    @completes
    async def allocate_producer_ids(self, count: int = 1000) -> range:
        """A block of producer ids that nobody has had, nor will have after any crash."""
        async with self._change:
            node = await self._store.get(nodes.PRODUCER_IDS)
            first = nodes.decode(node.data).get("next", 0)
            await self._commit([Set(nodes.PRODUCER_IDS, nodes.encode({"next": first + count}), node.version)])
        return range(first, first + count)

    async def next_producer_id(self) -> int:
        return await self._producer_ids.next()

    def _existing(self, name: str) -> TopicImage:
        topic = self._image.topics.get(name)
        if topic is None:
            raise ApiError(ErrorCode.unknown_topic_or_partition, f"There is no topic '{name}'.")
        return topic

    def _check_name_is_free(self, name: str) -> None:
        taken = self._names.get(collision_key(name))
        if taken == name or name in self._image.topics:
            raise _exists(name)
        if taken is not None:
            raise ApiError(
                ErrorCode.invalid_topic_exception,
                f"Topic '{name}' collides with existing topic: {taken}. In metrics '.' and '_' look the same.",
            )

    def _release_name(self, name: str) -> None:
        if self._names.get(collision_key(name)) == name:
            del self._names[collision_key(name)]

    async def _create(self, topic: TopicImage) -> None:
        with self._reserved(topic.name):
            await self._commit(
                [
                    Create(
                        nodes.topic(topic.name),
                        nodes.encode_topic(topic.id, [state.replicas for state in topic.partitions]),
                    ),
                    Create(nodes.topic_config(topic.name), nodes.encode(topic.settings)),
                    Create(nodes.topic_partitions(topic.id), b"{}"),
                    *self._partition_creations(topic.id, topic.partitions),
                ]
            )
        self._publish(self._image.with_topics([topic]))

    @contextlib.contextmanager
    def _reserved(self, name: str) -> Iterator[None]:
        """Keep the name from others while the store works; if that fails, it is free again."""
        self._names[collision_key(name)] = name
        try:
            yield
        except BaseException:
            self._release_name(name)
            raise

    def _partition_creations(self, topic_id: UUID, partitions: Sequence[PartitionImage]) -> list[Create]:
        return [Create(nodes.partition(topic_id, state.partition), self._encoded(state)) for state in partitions]

    def _encoded(self, state: PartitionImage) -> bytes:
        return nodes.encode_partition(state, self._epoch)

    def _with_raised_epochs(self, topic: TopicImage) -> TopicImage:
        partitions = tuple(
            replace(
                state,
                leader=self._broker_id if self._broker_id in state.isr else NO_LEADER,
                leader_epoch=state.leader_epoch + 1,
                partition_epoch=state.partition_epoch + 1,
            )
            for state in topic.partitions
        )
        return replace(topic, partitions=partitions)

    async def _commit(self, operations: Sequence[Operation]) -> Sequence[Node | None]:
        answers = await self._multi([Check(nodes.CONTROLLER_EPOCH, self._epoch), *operations])
        return answers[1:]

    async def _commit_one(self, operation: Operation) -> Node:
        (node,) = await self._commit([operation])
        assert node is not None
        return node

    async def _multi(self, operations: Sequence[Operation]) -> Sequence[Node | None]:
        try:
            return await self._store.multi(operations)
        except OutcomeUnknown as error:
            raise ApiError(
                ErrorCode.request_timed_out,
                f"It is not known whether the change was made ({error}); look before trying again.",
            ) from error
        except CoordinationError as error:
            raise ApiError(
                ErrorCode.not_controller, f"The cluster was changed by another controller ({error}); try again there."
            ) from error

    def _publish(self, image: MetadataImage) -> list[Awaitable[object]]:
        old, self._image = self._image, image
        answers = [subscriber(old, image) for subscriber in self._subscribers]
        return [answer for answer in answers if answer is not None]


def _exists(name: str) -> ApiError:
    return ApiError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")


def _cluster_id(uuid: UUID) -> str:
    """As Kafka prints its ids: 22 characters of base 64."""
    return urlsafe_b64encode(uuid.bytes).decode().rstrip("=")
