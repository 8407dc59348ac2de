"""The five bytes that serializers with a registry put before a payload: a zero, and the id of its schema in big-endian."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from catchment.client.columns.arrays import Longs
from catchment.spark.formats.decoder import Decoded
from catchment.spark.formats.payloads import Payloads

HEADER_BYTES: Final = 5
NOT_FRAMED: Final = "it does not begin with a zero byte and the id of a schema"


class Framed(NamedTuple):
    """Payloads without their frames, the schema id of each, and the rows that had no frame, which are no longer present."""

    payloads: Payloads
    schema_ids: Longs
    errors: dict[int, str]


def unframe(payloads: Payloads) -> Framed:
    """Cut the frames off."""
    long_enough = payloads.present & (payloads.ends - payloads.starts >= HEADER_BYTES)
    starts = np.where(long_enough, payloads.starts, 0)
    schema_ids = np.zeros(len(payloads), np.int64)
    framed = long_enough
    if long_enough.any():
        for byte in range(1, HEADER_BYTES):
            schema_ids = schema_ids << 8 | payloads.data[starts + np.where(long_enough, byte, 0)]
        framed = long_enough & (payloads.data[starts] == 0)
    errors = {int(row): NOT_FRAMED for row in np.flatnonzero(payloads.present & ~framed)}
    bodies = Payloads(
        payloads.data, np.where(framed, payloads.starts + HEADER_BYTES, payloads.starts), payloads.ends, framed
    )
    return Framed(bodies, np.where(framed, schema_ids, -1), errors)


def decode_by_schema(framed: Framed, decode: Callable[[int, Payloads], Decoded]) -> Decoded:
    """Decode the rows of each schema id together, and put them back into their order. Rows without a frame go along."""
    present = framed.payloads.present
    ids = np.unique(framed.schema_ids[present])
    if len(ids) <= 1:
        decoded = decode(int(ids[0]) if len(ids) else -1, framed.payloads)
        return Decoded(decoded.column, {**framed.errors, **decoded.errors})
    schema_ids = np.where(present, framed.schema_ids, ids[0])
    columns: list[Any] = []
    order: list[Longs] = []
    errors = dict(framed.errors)
    for schema_id in ids:
        rows = np.flatnonzero(schema_ids == schema_id)
        decoded = decode(int(schema_id), framed.payloads.only(rows))
        columns.append(decoded.column)
        order.append(rows)
        errors.update({int(rows[row]): reason for row, reason in decoded.errors.items()})
    return Decoded(pa.concat_arrays(columns).take(pa.array(np.argsort(np.concatenate(order)))), errors)


def refuse_all(payloads: Payloads, reason: str, column_type: Any) -> Decoded:
    """Every row that is present is wrong for one reason."""
    rows = np.flatnonzero(payloads.present)
    return Decoded(pa.nulls(len(payloads), column_type), {int(row): reason for row in rows})
