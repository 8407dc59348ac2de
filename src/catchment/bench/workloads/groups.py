"""Many consumer groups: how long a startup takes that has to load them all, and the cost of a heartbeat among them."""

from __future__ import annotations

import itertools
import socket
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.offset_commit.v10.request import OffsetCommitRequest, OffsetCommitRequestPartition
from kio.schema.sync_group.v5.request import SyncGroupRequest
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from catchment.bench.measure import Measure
from catchment.bench.target import CEILING, Target
from catchment.protocol.adapters.offset_commit import OffsetCommitRequestTopic
from catchment.protocol.client import ClientProtocol

_TOPIC = "committed"
_PARTITIONS = 10
_IN_FLIGHT = 20
_HEARTBEATS = 5_000
_TIMEOUT_SECONDS = 120
_VERSIONS = {8: 8, 10: 4, 11: 5, 12: 3, 14: 3, 16: 4}
"""A version of each API that every Kafka since 2.4 supports."""
_RECEIVE_BYTES = 1 << 20
_SESSION = i32Timedelta.parse(timedelta(seconds=60))


@dataclass(frozen=True, slots=True)
class Groups:
    """A separate server: it is filled, stopped, and started again."""

    count: int
    name: str = "groups"

    @property
    def measures(self) -> Sequence[Measure]:
        among = f"{self.count:,} groups with {self.count * _PARTITIONS:,} committed offsets"
        return (
            Measure("groups loaded", f"start until {among} are loaded", "s", False),
            Measure("heartbeat", f"a heartbeat among {self.count:,} groups, p50", "µs", False),
            Measure("heartbeat cpu", "the same, the server's processor time", "µs", False),
        )

    def run(self, target: Target) -> dict[str, float]:
        if target.name == CEILING:
            return {}
        with target.factory() as server:
            admin = AdminClient({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
            admin.create_topics([NewTopic(_TOPIC, _PARTITIONS, 1)])[_TOPIC].result(_TIMEOUT_SECONDS)
            with _Connection(server.port) as connection:
                connection.find_coordinator("group-0")
                connection.commit(f"group-{number}" for number in range(self.count))
            began = time.perf_counter()
            server.restart()
            with _Connection(server.port) as connection:
                connection.wait_for_groups(self.count)
                loaded_seconds = time.perf_counter() - began
                heartbeat = connection.join("beating")
                connection.time(heartbeat, _HEARTBEATS)
                cpu_seconds = server.process.cpu_seconds()
                seconds = connection.time(heartbeat, _HEARTBEATS)
                cpu_seconds = server.process.cpu_seconds() - cpu_seconds
        return {
            "groups loaded": loaded_seconds,
            "heartbeat": statistics.median(seconds) * 1e6,
            "heartbeat cpu": cpu_seconds / _HEARTBEATS * 1e6,
        }


class _Connection:
    """A client with only the measured requests."""

    def __init__(self, port: int) -> None:
        self._protocol = ClientProtocol("bench")
        self._socket = socket.create_connection(("127.0.0.1", port), _TIMEOUT_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> _Connection:
        return self

    def __exit__(self, *reason: object) -> None:
        self._socket.close()

    def ask(self, request: Any) -> Any:
        self._send(request)
        return self._receive(1)[0]

    def find_coordinator(self, group: str) -> None:
        """Have the offsets topic created, and wait for it."""
        request = FindCoordinatorRequest(key_type=i8(0), coordinator_keys=(group,))
        self._until(lambda: self.ask(request).coordinators[0].error_code is ErrorCode.none)

    def commit(self, groups: Iterator[str]) -> None:
        """Commit an offset of every partition for every group, several requests in flight at a time."""
        while batch := list(itertools.islice(groups, _IN_FLIGHT)):
            waiting = {group: _commit(group) for group in batch}
            deadline = time.monotonic() + _TIMEOUT_SECONDS
            while waiting:
                for request in waiting.values():
                    self._send(request)
                for group, answer in zip(list(waiting), self._receive(len(waiting)), strict=True):
                    codes = {partition.error_code for topic in answer.topics for partition in topic.partitions}
                    if codes == {ErrorCode.none}:
                        del waiting[group]
                    elif time.monotonic() > deadline:
                        raise RuntimeError(f"offsets cannot be committed: {codes}")

    def wait_for_groups(self, count: int) -> None:
        """Wait until the server has loaded all groups."""

        def all_known() -> bool:
            answer = self.ask(ListGroupsRequest(states_filter=(), types_filter=()))
            return answer.error_code is ErrorCode.none and len(answer.groups) >= count

        self._until(all_known)

    def join(self, group: str) -> HeartbeatRequest:
        """Become the only member of a group. Returns its heartbeat."""
        joined = self.ask(_join(group, ""))
        joined = self.ask(_join(group, joined.member_id))
        if joined.error_code is not ErrorCode.none:
            raise RuntimeError(f"joining a group failed: {joined.error_code}")
        synced = self.ask(
            SyncGroupRequest(
                group_id=GroupId(group), generation_id=joined.generation_id, member_id=joined.member_id, assignments=()
            )
        )
        if synced.error_code is not ErrorCode.none:
            raise RuntimeError(f"the member gets no assignment: {synced.error_code}")
        return HeartbeatRequest(group_id=GroupId(group), generation_id=joined.generation_id, member_id=joined.member_id)

    def time(self, request: HeartbeatRequest, count: int) -> list[float]:
        """The seconds that each of these requests took, one at a time."""
        found = []
        for _ in range(count):
            began = time.perf_counter()
            answer = self.ask(request)
            found.append(time.perf_counter() - began)
            if answer.error_code is not ErrorCode.none:
                raise RuntimeError(f"a heartbeat was rejected: {answer.error_code}")
        return found

    def _until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        while not is_so():
            if time.monotonic() > deadline:
                raise RuntimeError("the server does not become ready")
            time.sleep(0.005)

    def _send(self, request: Any) -> None:
        self._socket.sendall(self._protocol.request(request, _VERSIONS[request.__api_key__]))

    def _receive(self, count: int) -> list[Any]:
        answers: list[Any] = []
        while len(answers) < count:
            data = self._socket.recv(_RECEIVE_BYTES)
            if not data:
                raise RuntimeError("the server has closed the connection")
            answers += [answer.decode() for answer in self._protocol.receive(data)]
        return answers


def _commit(group: str) -> OffsetCommitRequest:
    partitions = tuple(
        OffsetCommitRequestPartition(partition_index=i32(number), committed_offset=i64(number), committed_metadata=None)
        for number in range(_PARTITIONS)
    )
    return OffsetCommitRequest(
        group_id=GroupId(group),
        member_id="",
        topics=(OffsetCommitRequestTopic(topic_id=None, name=TopicName(_TOPIC), partitions=partitions),),
    )


def _join(group: str, member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=GroupId(group),
        session_timeout=_SESSION,
        rebalance_timeout=_SESSION,
        member_id=member_id,
        protocol_type="bench",
        protocols=(JoinGroupRequestProtocol(name="one", metadata=b""),),
        reason=None,
    )
