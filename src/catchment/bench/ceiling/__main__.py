"""Run the ceiling: `python -m catchment.bench.ceiling --port 9092`. Stops on SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import signal

import uvloop

from catchment.bench.ceiling.cold import ColdAnswers
from catchment.bench.ceiling.connection import Connection
from catchment.bench.ceiling.memory import RememberedTopics


async def serve(host: str, port: int) -> None:
    """Serve until the process is stopped."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    topics = RememberedTopics()
    cold = ColdAnswers(topics, host, port)
    server = await loop.create_server(lambda: Connection(topics, cold), host, port)
    async with server:
        await stopped.wait()


def main() -> None:
    """Read the address and serve."""
    parser = argparse.ArgumentParser(description="A server that parses requests and responds but stores nothing.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    arguments = parser.parse_args()
    uvloop.run(serve(arguments.host, arguments.port))


if __name__ == "__main__":
    main()
