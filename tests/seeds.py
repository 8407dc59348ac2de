"""The seed of a random campaign: pytest shows the printed line when the campaign fails, and the variable repeats it."""

from __future__ import annotations

import os
import sys
from random import Random


def seed_from(variable: str) -> int:
    """The seed in the environment variable, or a new one."""
    seed = int(os.environ.get(variable) or Random().getrandbits(32))
    sys.stdout.write(f"to repeat this run: {variable}={seed}\n")
    return seed
