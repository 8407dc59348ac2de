"""The nodes of the coordination store: the path of each fact about the cluster, and its JSON document."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from catchment.cluster.metadata import BrokerImage, Endpoint, PartitionImage

CLUSTER = "/cluster"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKERS = "/brokers"
BROKER_IDS = "/brokers/ids"
TOPICS = "/topics"
PARTITIONS = "/partitions"
CONFIGS = "/configs"
TOPIC_CONFIGS = "/configs/topics"
BROKER_CONFIGS = "/configs/brokers"
DEFAULT_BROKER_CONFIG = "/configs/brokers/default"
GROUP_CONFIGS = "/configs/groups"
QUOTA_CONFIGS = "/configs/quotas"
PRODUCER_IDS = "/producer-ids"
DELETIONS = "/deletions"
"""Ids of deleted topics whose files may still be on disk after a crash."""

ROOTS = (
    CONTROLLER_EPOCH,
    BROKERS,
    BROKER_IDS,
    TOPICS,
    PARTITIONS,
    CONFIGS,
    TOPIC_CONFIGS,
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    QUOTA_CONFIGS,
    PRODUCER_IDS,
    DELETIONS,
)
"""The nodes that are created before all others, parents first."""


def broker(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def topic_partitions(topic_id: UUID) -> str:
    return f"{PARTITIONS}/{topic_id}"


def partition(topic_id: UUID, number: int) -> str:
    return f"{PARTITIONS}/{topic_id}/{number}"


def deletion(topic_id: UUID) -> str:
    return f"{DELETIONS}/{topic_id}"


def topic_config(name: str) -> str:
    return f"{TOPIC_CONFIGS}/{name}"


def broker_config(broker_id: int | None) -> str:
    return DEFAULT_BROKER_CONFIG if broker_id is None else f"{BROKER_CONFIGS}/{broker_id}"


def encode(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def decode(data: bytes) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(data)
    return document


def encode_topic(topic_id: UUID, assignments: Sequence[Sequence[int]]) -> bytes:
    return encode({"id": str(topic_id), "replicas": [list(replicas) for replicas in assignments]})


def decode_topic(data: bytes) -> tuple[UUID, list[tuple[int, ...]]]:
    document = decode(data)
    return UUID(document["id"]), [tuple(replicas) for replicas in document["replicas"]]


def encode_partition(state: PartitionImage, controller_epoch: int) -> bytes:
    return encode(
        {
            "leader": state.leader,
            "leader_epoch": state.leader_epoch,
            "isr": list(state.isr),
            "controller_epoch": controller_epoch,
        }
    )


def decode_partition(number: int, replicas: tuple[int, ...], data: bytes, version: int) -> PartitionImage:
    document = decode(data)
    return PartitionImage(
        partition=number,
        leader=document["leader"],
        leader_epoch=document["leader_epoch"],
        replicas=replicas,
        isr=tuple(document["isr"]),
        partition_epoch=version,
    )


def encode_broker(image: BrokerImage) -> bytes:
    endpoints = {name: [endpoint.host, endpoint.port] for name, endpoint in image.endpoints.items()}
    return encode({"endpoints": endpoints, "rack": image.rack})


def decode_broker(broker_id: int, data: bytes, epoch: int) -> BrokerImage:
    document = decode(data)
    endpoints = {name: Endpoint(host, port) for name, (host, port) in document["endpoints"].items()}
    return BrokerImage(broker_id, endpoints, document["rack"], epoch)
