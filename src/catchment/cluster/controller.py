"""The controller: the one place that changes the cluster, through the coordination store.

Every change is one `multi` that also checks the controller's epoch, so a controller that was replaced without noticing changes nothing
(KAFKA-6082). The image is replaced once the store has the change, and subscribers are called before the caller gets its result.
A lone broker is its own controller and every partition's only replica.
"""

import asyncio
import contextlib
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from uuid import UUID, uuid4

from kio.schema.errors import ErrorCode

from catchment.cluster import nodes, stored_image
from catchment.cluster.metadata import (
    NO_LEADER,
    BrokerImage,
    ClientQuotas,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from catchment.cluster.new_topic import (
    NewTopic,
    check_topic_name,
    collision_key,
    fresh_partitions,
    plan_assignments,
    plan_more_assignments,
)
from catchment.cluster.placement import Assignment
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
"""Called with the old image and the new one; may return what a deletion has to wait for."""
SettingsValidator = Callable[[Mapping[str, str]], None]
"""Raises ApiError INVALID_CONFIG for topic settings that are not valid."""

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_running_changes: set[asyncio.Task[Any]] = set()
"""The event loop refers to its tasks weakly; this keeps them alive."""


def _completes(
    change: Callable[_Parameters, Coroutine[Any, Any, _Result]],
) -> Callable[_Parameters, Coroutine[Any, Any, _Result]]:
    """Let a change finish though its caller is cancelled, as by a client that disconnects.

    Otherwise the store could have a change that the image never shows.
    """

    @wraps(change)
    async def run(*arguments: _Parameters.args, **keywords: _Parameters.kwargs) -> _Result:
        task = asyncio.get_running_loop().create_task(change(*arguments, **keywords))
        _running_changes.add(task)
        task.add_done_callback(_running_changes.discard)
        return await asyncio.shield(task)

    return run


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
        """`cluster_id` is for a cluster whose store is empty; None draws one."""
        self._store = store
        self._broker_id = broker_id
        self._first_cluster_id = cluster_id
        self._validate_topic_settings = validate_topic_settings
        self._new_uuid = new_uuid
        self._epoch = 0
        self._image = MetadataImage()
        self._subscribers: list[Subscriber] = []
        self._names: dict[str, str] = {}
        """Topics by the form of their names in metrics, those still being created included."""
        self._change = asyncio.Lock()
        """Held by changes of what exists. Creations do not conflict, thanks to `_names`, and may share a sync."""
        self._producer_ids = _ProducerIds(self.allocate_producer_ids)
        self._past_deletions: list[UUID] = []
        """Deleted topics whose ids are still in the store, though nothing else of them is left."""
        self.deleted_topic_ids: frozenset[UUID] = frozenset()
        """Topics that were deleted shortly before the last stop: a start must not adopt files of them."""

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
        """Become controller, and raise every leader epoch, all in one change.

        The epoch separates what was written before the restart from what comes after, where a crash has cut the log.
        """
        image = await stored_image.load_image(self._store)
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
            operations += [Create(path, b"{}") for path in await stored_image.missing_roots(self._store)]
        self._epoch = epoch_version + 1
        operations.append(Set(nodes.CONTROLLER_EPOCH, b"{}", epoch_version))
        operations.append(Create(nodes.CONTROLLER, nodes.encode({"broker": self._broker_id}), ephemeral=True))
        topics = [topic.led_by(self._broker_id) for topic in image.topics.values()]
        for topic in topics:
            operations += [
                Set(
                    nodes.partition(topic.id, state.partition),
                    nodes.encode_partition(state, self._epoch),
                    state.partition_epoch - 1,
                )
                for state in topic.partitions
            ]
        await self._multi(operations)
        self._names = {collision_key(topic.name): topic.name for topic in topics}
        self._publish(replace(image, controller_id=self._broker_id).with_topics(topics))

    @_completes
    async def register_broker(self, broker: BrokerImage) -> BrokerImage:
        """Register the broker for as long as its session lasts; the result has its epoch."""
        path = nodes.broker(broker.id)
        if broker.id in self._image.brokers:
            node = await self._commit_one(Set(path, nodes.encode_broker(broker)))
        else:
            node = await self._commit_one(Create(path, nodes.encode_broker(broker), ephemeral=True))
        registered = replace(broker, epoch=node.created_by)
        self._publish(self._image.with_broker(registered))
        return registered

    @_completes
    async def create_topic(self, new: NewTopic, *, validate_only: bool = False) -> TopicImage:
        check_topic_name(new.name)
        self._check_name_is_free(new.name)
        assignments = plan_assignments(new, self._image, start=len(self._image.topics))
        self._validate_topic_settings(new.settings)
        topic = TopicImage(new.name, self._new_uuid(), fresh_partitions(assignments), dict(new.settings))
        if not validate_only:
            await self._create(topic)
        return topic

    @_completes
    async def adopt_topic(self, name: str, topic_id: UUID | None, leader_epochs: Mapping[int, int]) -> TopicImage:
        """Adopt a topic whose partitions lie on this broker's disk, written by a broker that kept its metadata elsewhere.

        `leader_epochs` has the last leader epoch in each partition's log, or -1. A number that is missing below the highest one
        belongs to an unknown broker: that partition has no leader. A name that collides with another is accepted, because the
        records are there.
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

    @_completes
    async def delete_topic(self, name: str) -> None:
        """Delete the topic; once subscribers are done, its files have other names.

        Its id stays in the store until the next deletion, so that a start after a crash in between does not adopt the files as a
        topic of another broker.
        """
        async with self._change:
            topic = self._existing(name)
            await self._commit(
                [
                    *stored_image.topic_deletion(topic),
                    *(Delete(nodes.deletion(topic_id)) for topic_id in self._past_deletions),
                    Create(nodes.deletion(topic.id), b"{}"),
                ]
            )
            self._past_deletions = [topic.id]
            self._release_name(name)
            for done in self._publish(self._image.without_topic(name)):
                await done

    @_completes
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
                await self._commit(stored_image.topic_growth(grown, new, self._epoch))
                self._publish(self._image.with_topics([grown]))
        return grown

    @_completes
    async def change_topic_settings(self, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
        """Replace what the topic overrides by `change` of it; no other change comes between the read and the write."""
        async with self._change:
            topic = self._existing(name)
            settings = dict(change(topic.settings))
            self._validate_topic_settings(settings)
            await self._commit([Set(nodes.topic_config(name), nodes.encode(settings))])
            self._publish(self._image.with_topics([replace(topic, settings=settings)]))

    @_completes
    async def change_broker_settings(
        self, broker_id: int | None, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> None:
        """As `change_topic_settings`, for a broker's dynamic settings, or with None those of every broker."""
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

    @_completes
    async def change_group_settings(
        self, group_id: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> None:
        """As `change_topic_settings`; a group need not exist to have settings."""
        async with self._change:
            current = self._image.group_settings.get(group_id, {})
            changed = change(current)
            operations = stored_image.group_settings_changes(group_id, current, changed)
            if operations:
                await self._commit(operations)
                self._publish(self._image.with_group_settings(group_id, changed))

    @_completes
    async def change_client_quotas(self, change: Callable[[ClientQuotas], ClientQuotas]) -> None:
        """As `change_topic_settings`, for the quotas of all entities."""
        async with self._change:
            current = self._image.client_quotas
            changed = change(current)
            operations = stored_image.client_quota_changes(current, changed)
            if operations:
                await self._commit(operations)
                self._publish(self._image.with_client_quotas(changed))

    @_completes
    async def allocate_producer_ids(self, count: int = 1000) -> range:
        """A block of producer ids that no producer has had before, and that no crash makes available again."""
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
            await self._commit(stored_image.topic_creation(topic, self._epoch))
        self._publish(self._image.with_topics([topic]))

    @contextlib.contextmanager
    def _reserved(self, name: str) -> Iterator[None]:
        """Reserve the name while the store is written; a failure frees it."""
        self._names[collision_key(name)] = name
        try:
            yield
        except BaseException:
            self._release_name(name)
            raise

    async def _commit(self, operations: Sequence[Operation]) -> Sequence[Node | None]:
        results = await self._multi([Check(nodes.CONTROLLER_EPOCH, self._epoch), *operations])
        return results[1:]

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
                f"It is not known whether the change was made ({error}); check before trying again.",
            ) from error
        except CoordinationError as error:
            raise ApiError(
                ErrorCode.not_controller, f"The cluster was changed by another controller ({error}); try again there."
            ) from error

    def _publish(self, image: MetadataImage) -> list[Awaitable[object]]:
        old, self._image = self._image, image
        results = [subscriber(old, image) for subscriber in self._subscribers]
        return [result for result in results if result is not None]


class _ProducerIds:
    """Producer ids one by one, from blocks that the controller has allocated durably."""

    def __init__(self, allocate_block: Callable[[], Awaitable[range]]) -> None:
        self._allocate_block = allocate_block
        self._block: Iterator[int] = iter(())
        self._allocating = asyncio.Lock()

    async def next(self) -> int:
        """An id that no producer has had before. Ids left of a block when the broker stops are never used."""
        producer_id = next(self._block, None)
        if producer_id is not None:
            return producer_id
        async with self._allocating:
            producer_id = next(self._block, None)
            while producer_id is None:
                self._block = iter(await self._allocate_block())
                producer_id = next(self._block, None)
            return producer_id


def _exists(name: str) -> ApiError:
    return ApiError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")


def _cluster_id(uuid: UUID) -> str:
    """As Kafka prints its ids: 22 characters of base 64."""
    return urlsafe_b64encode(uuid.bytes).decode().rstrip("=")
