"""The sink's options: read whatever their case, refused with a remedy, and every one of them in the reference."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.init_producer_id.v6.request import InitProducerIdRequest
from kio.schema.init_producer_id.v6.response import InitProducerIdResponse
from kio.schema.types import ProducerId
from kio.static.primitive import i16, i32Timedelta
from tests.client.logs import CatchmentLogs, Logs
from tests.spark.sink_query import SCHEMA, Query

from catchment.client.cluster import Cluster
from catchment.client.errors import ClientError, SettingsError
from catchment.spark.options.java_settings import ROLE_SETTINGS
from catchment.spark.sink.options import OPTIONS, SinkOptions
from catchment.spark.sink.stream_writer import StreamWriter

SERVERS = {"kafka.bootstrap.servers": "localhost:9"}
OF_THE_SOURCE = {"default.api.timeout.ms", "group.id", "isolation.level", "metadata.max.age.ms"}
KAFKA_OPTIONS = sorted(f"kafka.{name}" for name in ROLE_SETTINGS - OF_THE_SOURCE - {"transactional.id"})
REFERENCE = Path(__file__).parents[3] / "docs/reference/spark-sink.md"


def test_options_are_read_whatever_their_case() -> None:
    options = SinkOptions.read(
        {
            "KAFKA.Bootstrap.Servers": "localhost:9",
            "TOPIC": "Orders",
            "deliveryguarantee": "ATLEASTONCE",
            "transactionalIdPrefix": "Ours",
            "Kafka.compression.type": "ZSTD",
            "kafka.compression.zstd.level": "7",
            "kafka.compression.gzip.level": "9",
            "kafka.transaction.timeout.ms": "1000",
            "kafka.delivery.timeout.ms": "2000",
            "kafka.max.request.size": "3000",
            "checkpointLocation": "/tmp/c",
        }
    )
    assert options.topic == "Orders"
    assert not options.is_exactly_once
    assert options.transactional_id_prefix == "Ours"
    assert (options.codec, options.level) == ("zstd", 7)
    assert (options.transaction_timeout_ms, options.delivery_timeout_ms, options.max_record_bytes) == (1000, 2000, 3000)
    assert options.checkpoint == "/tmp/c"


@pytest.mark.parametrize(
    ("codec", "level", "is_one"),
    [
        ("zstd", -131072, True),
        ("zstd", -131073, False),
        ("zstd", 0, True),
        ("zstd", 23, False),
        ("gzip", 9, True),
        ("gzip", -1, True),
        ("gzip", 0, False),
        ("lz4", 18, False),
    ],
)
def test_levels_have_the_bounds_of_the_java_producer(codec: str, level: int, is_one: bool) -> None:
    given = {**SERVERS, "kafka.compression.type": codec, f"kafka.compression.{codec}.level": str(level)}
    if is_one:
        assert SinkOptions.read(given).level == level
    else:
        with pytest.raises(SettingsError, match=r"level cannot be .*Give a whole number from"):
            SinkOptions.read(given)


def test_exactly_once_is_the_default() -> None:
    options = SinkOptions.read(SERVERS)
    assert options.is_exactly_once
    assert options.codec == "none"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "deliveryGuarantee",
            "atMostOnce",
            "deliveryGuarantee cannot be 'atMostOnce'. Choose exactlyOnce or atLeastOnce",
        ),
        ("deliveryGarantee", "atLeastOnce", "unknown option deliveryGarantee. Did you mean deliveryGuarantee?"),
        ("kafka.compression.type", "brotli", "Choose none, gzip, snappy, lz4 or zstd"),
        ("kafka.transaction.timeout.ms", "soon", "kafka.transaction.timeout.ms cannot be 'soon'. Give a whole number"),
        ("kafka.transaction.timeout.ms", "0", "from 1 to 2147483647"),
        ("kafka.transaction.timeout.ms", "2147483648", "from 1 to 2147483647"),
        ("kafka.transactional.id", "mine", "Set transactionalIdPrefix"),
        ("kafka.compresion.type", "lz4", "Did you mean kafka.compression.type?"),
    ],
)
def test_a_wrong_option_is_refused_with_the_remedy(name: str, value: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        SinkOptions.read({**SERVERS, name: value})
    assert message in str(caught.value)


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(SettingsError) as caught:
        SinkOptions.read({"deliveryGuarantee": "often", "kafka.compression.type": "brotli", "sinkName": "a/b"})
    message = str(caught.value)
    assert "4 options are wrong" in message
    assert all(name in message for name in ("bootstrap.servers", "deliveryGuarantee", "compression.type", "sinkName"))


def test_options_for_reading_the_same_table_are_left_alone() -> None:
    assert SinkOptions.read({**SERVERS, "subscribe": "t", "startingOffsets": "latest"}).topic is None


def test_exactly_once_without_a_checkpoint_is_refused_and_at_least_once_is_not() -> None:
    options = {**SERVERS, "topic": "t"}
    with pytest.raises(SettingsError, match=r"checkpointLocation.*or set deliveryGuarantee=atLeastOnce"):
        StreamWriter(options, SCHEMA)
    StreamWriter({**options, "deliveryGuarantee": "atLeastOnce"}, SCHEMA)


def test_a_checkpoint_that_spark_has_elsewhere_is_refused(tmp_path: Path) -> None:
    options = {**SERVERS, "topic": "t", "checkpointLocation": str(tmp_path)}
    with pytest.raises(SettingsError, match=r"no checkpoint at .* as seen from the sink.*with its scheme"):
        StreamWriter(options, SCHEMA)
    (tmp_path / "metadata").write_text('{"id":"query"}')
    StreamWriter(options, SCHEMA)


def test_a_time_out_above_the_brokers_bound_is_refused_at_the_start(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(logs, tmp_path / "checkpoint", monkeypatch, **{"kafka.transaction.timeout.ms": "900001"})
    with pytest.raises(SettingsError, match=r"open for 900001 ms.*raise transaction.max.timeout.ms"):
        query.tasks(0, [["a"]])


def test_a_cluster_that_denies_transactions_is_reported_with_the_way_to_do_without(
    catchment_logs: CatchmentLogs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(catchment_logs, tmp_path / "checkpoint", monkeypatch, transactionalidprefix="ours")
    ask = Cluster.ask

    def denied(cluster: Cluster, request: Any, **how: Any) -> Any:
        if not isinstance(request, InitProducerIdRequest):
            return ask(cluster, request, **how)
        return InitProducerIdResponse(
            throttle_time=i32Timedelta.parse(timedelta()),
            error_code=ErrorCode.transactional_id_authorization_failed,
            producer_id=ProducerId(-1),
            producer_epoch=i16(-1),
        )

    monkeypatch.setattr(Cluster, "ask", denied)
    with pytest.raises(SettingsError, match=r"ids that begin with ours.*deliveryGuarantee=atLeastOnce"):
        query.tasks(0, [["a"]])


def test_a_task_that_takes_longer_than_its_transaction_may_is_reported(
    logs: Logs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(logs, tmp_path / "checkpoint", monkeypatch, **{"kafka.transaction.timeout.ms": "1"})
    with pytest.raises(ClientError, match=r"longer than its transaction may be open, 1 ms.*maxOffsetsPerTrigger"):
        query.tasks(0, [["a"]])
    assert query.values() == []


def test_every_option_is_in_the_reference() -> None:
    reference = REFERENCE.read_text()
    assert [name for name in (*OPTIONS, *KAFKA_OPTIONS) if f"| `{name}` |" not in reference] == []


def test_the_reference_has_no_option_that_is_not_there() -> None:
    rows = [line.split("`")[1] for line in REFERENCE.read_text().splitlines() if line.startswith("| `")]
    options = [name for name in rows if name.startswith("kafka.") or name in OPTIONS or name[0].islower()]
    columns = {"value", "valueBytes", "key", "headers", "topic", "partition", "timestamp"}
    assert set(options) - columns <= {*OPTIONS, *KAFKA_OPTIONS}
