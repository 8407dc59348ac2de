"""Topics, tables and lakes by the names that OpenLineage gives them, so that lineage from elsewhere meets ours.

Stores of which its specification says nothing are named alike: Redis by its address and database, SQLite by its file.

Gaps
    A table in PostgreSQL is told to be in the schema `public`: which one it is in is up to the user's search path.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from catchment.pipelines.declaration.addresses import POSTGRESQL, SQLITE, without_credentials
from catchment.spark.checkpoint.files import HADOOP_NAMES

_HOST: Final = re.compile(r"(?P<host>\[[^\]]*\]|[^:,]*)(?::(?P<port>\d+))?")
_LOCALHOST: Final = "localhost"
_POSTGRESQL_PORT: Final = "5432"
_REDIS_PORT: Final = "6379"
_FILE_SYSTEMS: Final = ("hdfs", "viewfs")
_GOOGLE: Final = {"gcs": "gs"}


class Dataset(NamedTuple):
    """What is read or written, by the two names that OpenLineage has for it."""

    namespace: str
    name: str


def topic_dataset(servers: str, topic: str) -> Dataset:
    return Dataset(f"kafka://{servers.partition(',')[0]}", topic)


def table_dataset(address: str, table: str) -> Dataset:
    """A table of the store at an address in which all variables are put in."""
    if address.startswith(SQLITE):
        return Dataset("file", f"{address.removeprefix(SQLITE)}#{table}")
    place, _, query = without_credentials(address).partition("?")
    scheme, _, place = place.partition("://")
    server, _, path = place.partition("/")
    options = dict(parse_qsl(query))
    if address.startswith(POSTGRESQL):
        database = options.get("dbname") or unquote(path)
        name = ".".join(filter(None, (database, "public", table)))
        return Dataset(f"postgres://{_host(server, _POSTGRESQL_PORT, options)}", name)
    if scheme == "unix":
        return Dataset(f"unix:///{path}", f"{options.get('db', '0')}.{table}")
    return Dataset(f"redis://{_host(server, _REDIS_PORT, options)}", f"{options.get('db') or path or '0'}.{table}")


def lake_dataset(address: str) -> Dataset:
    """The lake at an address in which all variables are put in, and which is a path or has a scheme."""
    if "://" not in address:
        return Dataset("file", address)
    scheme, _, place = without_credentials(address).partition("?")[0].partition("://")
    scheme = scheme.lower()
    bucket, _, path = place.partition("/")
    path = path.rstrip("/")
    if scheme == "file":
        return Dataset("file", f"/{path}")
    namespace = f"{(HADOOP_NAMES | _GOOGLE).get(scheme, scheme)}://{bucket}"
    # In an object store, what follows the bucket is a key and no path.
    return Dataset(namespace, f"/{path}" if scheme in _FILE_SYSTEMS or not path else path)


def _host(server: str, default_port: str, options: dict[str, str]) -> str:
    """The first server of an address, with its port."""
    found = _HOST.match(server)
    assert found is not None, "an empty address matches as well"
    host = found["host"] or options.get("host") or _LOCALHOST
    return f"{host}:{found['port'] or options.get('port') or default_port}"
