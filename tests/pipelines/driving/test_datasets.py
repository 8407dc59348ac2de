"""Datasets have the names that OpenLineage gives them, whatever the address looks like."""

from __future__ import annotations

import pytest

from catchment.pipelines.driving.datasets import lake_dataset, table_dataset, topic_dataset


@pytest.mark.parametrize(
    ("address", "namespace", "name"),
    [
        ("postgresql://ann:secret@db/city", "postgres://db:5432", "city.public.board"),
        ("postgres://db:6543,other:6544/my%20city", "postgres://db:6543", "my city.public.board"),
        ("postgresql:///city?host=db&port=1&password=secret", "postgres://db:1", "city.public.board"),
        ("postgresql://[::1]/?dbname=city", "postgres://[::1]:5432", "city.public.board"),
        ("redis://:secret@cache", "redis://cache:6379", "0.board"),
        ("rediss://cache:7000/2", "redis://cache:7000", "2.board"),
        ("unix:///run/redis.sock?db=1&password=secret", "unix:///run/redis.sock", "1.board"),
        ("sqlite:////data/city.db", "file", "/data/city.db#board"),
    ],
)
def test_a_table_is_named_by_its_server_and_its_database(address: str, namespace: str, name: str) -> None:
    assert table_dataset(address, "board") == (namespace, name)


@pytest.mark.parametrize(
    ("address", "namespace", "name"),
    [
        ("/data/lake/reports", "file", "/data/lake/reports"),
        ("file:///data/lake/", "file", "/data/lake"),
        ("s3://bucket/lake/reports/", "s3://bucket", "lake/reports"),
        ("s3a://id:secret@bucket/lake?region=x", "s3://bucket", "lake"),
        ("s3://bucket", "s3://bucket", "/"),
        ("gcs://bucket/lake", "gs://bucket", "lake"),
        ("hdfs://node:8020/lake", "hdfs://node:8020", "/lake"),
        (
            "abfss://box@account.dfs.core.windows.net/lake",
            "abfss://box@account.dfs.core.windows.net",
            "lake",
        ),
    ],
)
def test_a_lake_is_named_by_its_bucket_or_its_path(address: str, namespace: str, name: str) -> None:
    assert lake_dataset(address) == (namespace, name)


def test_a_topic_is_named_by_the_first_broker() -> None:
    assert topic_dataset("one:9092,two:9092", "reports") == ("kafka://one:9092", "reports")
