"""Records to send: text that compresses about as well as real events do, the same in every run."""

from __future__ import annotations

import json
import random

_WORDS = (
    "sensor",
    "turbine",
    "pressure",
    "inlet",
    "valve",
    "north",
    "south",
    "nominal",
    "alarm",
    "level",
    "flow",
    "gauge",
)
_SEED = 7


def payloads(size: int, count: int) -> list[bytes]:
    """Different records of exactly this size."""
    source = random.Random(_SEED)
    text = bytearray()
    while len(text) < size + 64 * count:
        event = {
            "id": source.getrandbits(48),
            "source": f"{source.choice(_WORDS)}-{source.choice(_WORDS)}-{source.randrange(1000)}",
            "value": round(source.gauss(100, 15), 4),
            "state": source.choice(_WORDS),
        }
        text += json.dumps(event, separators=(",", ":")).encode()
    return [bytes(text[64 * index : 64 * index + size]) for index in range(count)]
