"""The table of APIs agrees with kio's own index."""

from __future__ import annotations

import subprocess
import sys

import pytest
from kio.schema.index import api_key_map, schema_name_map

from catchment.protocol.apis import APIS, is_flexible, knows, newest, request_class, response_class
from catchment.protocol.errors import MalformedRequest


def test_the_table_has_every_api_of_kio_with_its_versions() -> None:
    table = {key: (api.module, api.oldest, api.newest) for key, api in APIS.items()}
    index = {
        key: (module, min(schema_name_map[module]), max(schema_name_map[module])) for key, module in api_key_map.items()
    }
    assert table == index


def test_flexible_versions_are_those_of_kio() -> None:
    for key, api in APIS.items():
        for version in range(api.oldest, api.newest + 1):
            assert is_flexible(key, version) == request_class(key, version).__flexible__
            assert is_flexible(key, version) == response_class(key, version).__flexible__


def test_names_are_spelled_as_kafka_spells_them() -> None:
    assert APIS[18].name == "ApiVersions"
    assert APIS[24].name == "AddPartitionsToTxn"


@pytest.mark.parametrize(("key", "version"), [(4, 0), (3, 14), (0, 2), (-1, 0), (3, -1)])
def test_an_api_that_is_not_in_the_table_has_no_class(key: int, version: int) -> None:
    assert not knows(key, version)
    with pytest.raises(MalformedRequest):
        request_class(key, version)


def test_the_newest_version_is_known() -> None:
    assert all(knows(key, newest(key)) for key in APIS)


def test_importing_the_codec_loads_no_message_versions() -> None:
    script = "import sys, catchment.protocol.codec; print([n for n in sys.modules if n.startswith('kio.schema.')])"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout
    assert "metadata" not in loaded
    assert "kio.schema.index" not in loaded
