"""What a worker has loaded stays: the garbage collector need not look through it again.

PySpark's processes collect garbage after every task, and the planner after every plan. With all that is imported, and the compiled
loops, that takes 20 ms: as long as a small task itself.
"""

from __future__ import annotations

import gc
from functools import cache


@cache
def set_aside_what_is_loaded() -> None:
    """To be called when a task has used everything once; it does its work the first time alone."""
    gc.collect()
    gc.freeze()
