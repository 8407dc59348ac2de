"""Arrow rows as batches: our own readers and those of others read what was written."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pyarrow as pa
import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.produce.v13.request import PartitionProduceData, ProduceRequest
from kio.schema.types import TopicName
from kio.static.primitive import Records, i16, i32, i32Timedelta
from tests.client.logs import Logs
from tests.client.record_rows import LIMIT_BYTES, headers, nullable_bytes

from catchment.client.cluster import Cluster
from catchment.client.columns.decoding import decode
from catchment.client.columns.encoding import EncodedBatch, encode
from catchment.client.columns.schema import COLUMN_TYPES
from catchment.client.errors import RecordTooLarge
from catchment.client.settings import Codec
from catchment.client.warming import warm
from catchment.protocol.adapters.produce import TopicProduceData
from catchment.protocol.batch import check
from catchment.protocol.records import Record, encode_batch, read_records

NOW_MS: Final = 1_700_000_000_000
CODECS: Final[tuple[Codec, ...]] = ("none", "gzip", "snappy", "lz4", "zstd")
SENT: Final = ("key", "value", "headers", "timestamp")
SCHEMA: Final = pa.schema([(name, COLUMN_TYPES[name]) for name in SENT])

header_lists = headers.map(lambda pairs: [{"key": name, "value": value} for name, value in pairs] or None)
rows = st.fixed_dictionaries(
    {
        "key": nullable_bytes,
        "value": nullable_bytes,
        "headers": header_lists,
        "timestamp": st.none() | st.integers(-100_000, 2 * NOW_MS).map(lambda milliseconds: milliseconds * 1000),
    }
)


@pytest.fixture(scope="module", autouse=True)
def _compiled_loops() -> None:
    """Compile first, so that no example of a property waits for the compiler."""
    warm()


def record_of(row: dict[str, Any], offset_delta: int, base_timestamp_ms: int) -> Record:
    pairs = tuple((header["key"], header["value"]) for header in row["headers"] or ())
    return Record(row["key"], row["value"], pairs, offset_delta, timestamp_ms_of(row) - base_timestamp_ms)


def timestamp_ms_of(row: dict[str, Any]) -> int:
    return NOW_MS if row["timestamp"] is None else int(row["timestamp"] // 1000)


def decoded(batches: list[EncodedBatch]) -> list[dict[str, Any]]:
    found = []
    for batch in batches:
        result = decode(batch.data, SENT, topic="t", partition=0, start_offset=0).batch
        times = result.column("timestamp").cast(pa.int64()).to_pylist()
        found += [{**row, "timestamp": time} for row, time in zip(result.to_pylist(), times, strict=True)]
    return found


@given(st.lists(rows, max_size=12), st.sampled_from(CODECS), st.integers(1_300, 3_000))
def test_what_is_encoded_is_decoded_again(written: list[dict[str, Any]], codec: Codec, max_batch_bytes: int) -> None:
    table = pa.Table.from_pylist(written, SCHEMA)
    batches = encode(table, codec=codec, timestamp_ms=NOW_MS, max_batch_bytes=max_batch_bytes)
    assert decoded(batches) == [{**row, "timestamp": timestamp_ms_of(row) * 1000} for row in written]
    assert all(len(batch.data) <= max_batch_bytes for batch in batches)
    assert sum(batch.record_count for batch in batches) == len(written)


@given(st.lists(rows, min_size=1, max_size=8))
def test_bytes_equal_those_of_the_protocol_s_own_encoder(written: list[dict[str, Any]]) -> None:
    (batch,) = encode(
        pa.RecordBatch.from_pylist(written, SCHEMA),
        timestamp_ms=NOW_MS,
        producer_id=77,
        producer_epoch=3,
        base_sequence=9,
        is_transactional=True,
    )
    base_ms = timestamp_ms_of(written[0])
    assert batch.data == encode_batch(
        [record_of(row, index, base_ms) for index, row in enumerate(written)],
        base_timestamp_ms=base_ms,
        leader_epoch=-1,
        producer_id=77,
        producer_epoch=3,
        base_sequence=9,
        is_transactional=True,
    )


@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka_reads_our_batches(codec: Codec) -> None:
    written = [
        {"key": b"k%d" % number, "value": b"v" * 100, "headers": [{"key": "é", "value": None}]} for number in range(50)
    ]
    (batch,) = encode(pa.Table.from_pylist(written, SCHEMA), codec=codec, timestamp_ms=NOW_MS)
    theirs = DefaultRecordBatch(batch.data)
    assert theirs.validate_crc()
    assert theirs.compression_type == CODECS.index(codec)
    assert [(one.offset, one.timestamp, one.key, one.value, list(one.headers)) for one in theirs] == [
        (number, NOW_MS, b"k%d" % number, b"v" * 100, [("é", None)]) for number in range(50)
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka_reads_our_batches_from_a_broker(logs: Logs, codec: Codec) -> None:
    topic = logs.topic()
    written = [
        {"key": b"a", "value": b"x" * 300, "headers": [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]},
        {"key": None, "value": b"", "headers": None, "timestamp": NOW_MS * 1000 - 5000},
        {"key": b"", "value": None, "headers": None},
    ]
    with Cluster(logs.bootstrap_servers) as cluster:
        for batch in encode(
            pa.Table.from_pylist(written, SCHEMA), codec=codec, timestamp_ms=NOW_MS, max_batch_bytes=420
        ):
            produce(cluster, topic, batch)
    assert [
        (one.key(), one.value(), one.headers(), one.timestamp()[1], one.offset()) for one in logs.messages(topic)
    ] == [
        (b"a", b"x" * 300, [("h", b"1"), ("n", None)], NOW_MS, 0),
        (None, b"", None, NOW_MS - 5, 1),
        (b"", None, None, NOW_MS, 2),
    ]


def produce(cluster: Cluster, topic: str, batch: EncodedBatch) -> None:
    data = PartitionProduceData(index=i32(0), records=Records(batch.data))
    named = TopicProduceData(name=TopicName(topic), topic_id=cluster.topic_id(topic), partition_data=(data,))
    timeout = i32Timedelta.parse(timedelta(seconds=30))
    request = ProduceRequest(transactional_id=None, acks=i16(-1), timeout=timeout, topic_data=(named,))
    response = cluster.ask(request, to=cluster.leader(topic, 0).broker_id)
    assert [part.error_code.name for one in response.responses for part in one.partition_responses] == ["none"]


def test_sequence_numbers_continue_from_batch_to_batch_and_wrap_around() -> None:
    table = pa.table({"value": [b"x" * 50] * 10})
    batches = encode(
        table, timestamp_ms=0, max_batch_bytes=200, producer_id=1, producer_epoch=0, base_sequence=2**31 - 3
    )
    assert [(batch.base_sequence, batch.record_count) for batch in batches] == [
        (2**31 - 3, 2),
        (2**31 - 1, 2),
        (1, 2),
        (3, 2),
        (5, 2),
    ]
    assert [check(memoryview(batch.data)).base_sequence for batch in batches] == [one.base_sequence for one in batches]


def test_small_chunks_of_a_table_share_a_batch() -> None:
    table = pa.concat_tables([pa.table({"value": [b"%d" % number]}) for number in range(20)])
    (batch,) = encode(table, timestamp_ms=0)
    assert [record.value for record in read_records(batch.data, LIMIT_BYTES)] == [
        b"%d" % number for number in range(20)
    ]


def test_slices_of_arrays_have_their_own_rows() -> None:
    written = [
        {"key": b"k%d" % n, "value": None if n % 3 else b"v", "headers": [{"key": str(n), "value": b"h"}] * (n % 2)}
        for n in range(30)
    ]
    part = pa.RecordBatch.from_pylist(written, SCHEMA).slice(11, 9)
    assert [(row["key"], row["value"], row["headers"]) for row in decoded(encode(part, timestamp_ms=0))] == [
        (row["key"], row["value"], row["headers"] or None) for row in written[11:20]
    ]


def test_records_that_do_not_shrink_are_sent_uncompressed() -> None:
    table = pa.table({"value": [b"\x17"]})
    (plain,) = encode(table, timestamp_ms=0)
    for codec in CODECS:
        assert encode(table, codec=codec, timestamp_ms=0) == [plain]


def test_the_largest_record_fits_and_one_byte_more_is_rejected() -> None:
    fitting = pa.table({"value": [b"", b"x" * 100]})
    size = len(encode(fitting.slice(1), timestamp_ms=0)[0].data)
    assert [batch.record_count for batch in encode(fitting, timestamp_ms=0, max_batch_bytes=size)] == [1, 1]
    with pytest.raises(RecordTooLarge, match=f"row 1 does not fit into a batch of {size - 1} bytes"):
        encode(fitting, timestamp_ms=0, max_batch_bytes=size - 1)


def test_a_record_that_is_larger_than_a_batch_is_sent_alone_and_in_order() -> None:
    values = [b"a", b"x" * 300, b"b", b"c", b"y" * 400]
    table = pa.table({"value": values})
    largest = len(encode(table.slice(4), timestamp_ms=0)[0].data)
    batches = encode(table, timestamp_ms=0, max_batch_bytes=120, max_record_bytes=largest, base_sequence=7)
    assert [(one.base_sequence, one.record_count) for one in batches] == [(7, 1), (8, 1), (9, 2), (11, 1)]
    assert [one["value"] for one in decoded(batches)] == values
    with pytest.raises(RecordTooLarge, match=f"row 4 does not fit into a batch of {largest - 1} bytes"):
        encode(table, timestamp_ms=0, max_batch_bytes=120, max_record_bytes=largest - 1)


KINDS: Final = (
    pa.string(),
    pa.large_string(),
    pa.large_binary(),
    pa.binary(3),
    pa.string_view(),
    pa.binary_view(),
    pa.dictionary(pa.int8(), pa.string()),
)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_bytes_and_text_of_every_type_are_accepted(kind: pa.DataType) -> None:
    column = pa.array(["abc", None, "xyz"]).cast(kind)
    batches = encode(pa.table({"value": column}), timestamp_ms=0)
    assert [row["value"] for row in decoded(batches)] == [b"abc", None, b"xyz"]


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"value": [1]}, "the column value is of type int64"),
        ({"key": [b"k"]}, "no column value among key"),
        ({"value": [b"v"], "timestamp": ["now"]}, "the column timestamp is of type string"),
        ({"value": [b"v"], "headers": [b"h"]}, "the column headers is of type binary"),
        ({"value": [b"v"], "headers": [[{"key": None, "value": b"x"}]]}, "row 0 has a header without a key"),
    ],
)
def test_columns_of_other_types_are_rejected_by_name(columns: dict[str, list[Any]], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        encode(pa.table(columns), timestamp_ms=0)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_every_unit_become_milliseconds(unit: str) -> None:
    column = pa.array([NOW_MS // 1000, None]).cast(pa.timestamp("s")).cast(pa.timestamp(unit))
    (batch,) = encode(pa.table({"value": [b"a", b"b"], "timestamp": column}), timestamp_ms=NOW_MS + 5)
    assert [row["timestamp"] for row in decoded([batch])] == [NOW_MS * 1000, (NOW_MS + 5) * 1000]


def test_no_rows_give_no_batches() -> None:
    assert encode(pa.Table.from_pylist([], SCHEMA), timestamp_ms=0) == []
    assert encode(pa.RecordBatch.from_pylist([], SCHEMA), timestamp_ms=0) == []
