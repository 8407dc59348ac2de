"""Addresses of stores and lakes are shown without credentials."""

from __future__ import annotations

import pytest

from catchment.pipelines.declaration.addresses import without_credentials


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ann:secret@db/city", "postgresql://db/city"),
        ("postgresql://ann:sec@ret@db:5432/city", "postgresql://db:5432/city"),
        ("postgresql://ann:sec/ret@db/city", "postgresql://db/city"),
        ("postgresql://db/city?password=secret&sslmode=require", "postgresql://db/city?sslmode=require"),
        ("postgresql://db/city?user=ann&password=secret", "postgresql://db/city"),
        ("postgresql://ann:secret?@db/city", "postgresql://…"),
        ("postgresql://db/city?password=sec@ret", "postgresql://…"),
        ("redis://:secret@cache:6379/1", "redis://cache:6379/1"),
        ("unix:///run/redis.sock?db=1&password=secret", "unix:///run/redis.sock?db=1"),
        ("postgresql://ann:${SECRET}@db/city", "postgresql://db/city"),
        ("s3://id:secret@bucket/reports@2", "s3://bucket/reports@2"),
        ("s3://id:sec/ret@bucket/reports", "s3://bucket/reports"),
        ("hdfs://node:8020/reports@2", "hdfs://node:8020/reports@2"),
        ("abfss://box:secret@account.dfs.core.windows.net/a", "abfss://box@account.dfs.core.windows.net/a"),
        ("abfss://box@account.dfs.core.windows.net/a", "abfss://box@account.dfs.core.windows.net/a"),
        ("s3://bucket/reports?secret_key=secret&region=x", "s3://bucket/reports?region=x"),
        ("sqlite:////data/a@b.db", "sqlite:////data/a@b.db"),
        ("lake/reports", "lake/reports"),
    ],
)
def test_an_address_is_shown_without_its_passwords(address: str, shown: str) -> None:
    assert without_credentials(address) == shown
    assert "sec" not in shown
