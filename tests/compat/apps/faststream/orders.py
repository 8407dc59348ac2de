"""FastStream, with aiokafka or confluent-kafka below: orders become invoices one by one, and invoices are counted in batches.

    python orders.py BOOTSTRAP-SERVERS aiokafka|confluent

Its interpreter has the packages of `requirements.txt`, not those of the project.
"""

import asyncio
import sys

from faststream import AckPolicy, FastStream
from pydantic import BaseModel


class Order(BaseModel):
    number: int
    price: int


class Invoice(BaseModel):
    number: int
    sum: int


def main(bootstrap_servers: str, client: str) -> None:
    if client == "aiokafka":
        from faststream.kafka import KafkaBroker
    else:
        from faststream.confluent import KafkaBroker
    broker = KafkaBroker(bootstrap_servers)
    # An offset is committed once its record is done; by default that is before.
    group = {
        "auto_offset_reset": "earliest",
        "ack_policy": AckPolicy.NACK_ON_ERROR,
        "session_timeout_ms": 6000,
        "heartbeat_interval_ms": 1000,
    }

    @broker.subscriber("orders", group_id="orders", **group)  # type: ignore[untyped-decorator]
    @broker.publisher("invoices")  # type: ignore[untyped-decorator]
    async def invoice(order: Order) -> Invoice:
        return Invoice(number=order.number, sum=order.price * 2)

    @broker.subscriber("invoices", group_id="invoices", batch=True, **group)  # type: ignore[untyped-decorator]
    async def count(invoices: list[Invoice]) -> None:
        for each in invoices:
            sys.stdout.write(f"{each.number}\n")
        sys.stdout.flush()

    asyncio.run(FastStream(broker).run())


if __name__ == "__main__":
    main(*sys.argv[1:])
