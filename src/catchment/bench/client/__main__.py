"""One load in one process: `python -m catchment.bench.client '{"kind": "produce", …}'` prints the result as JSON."""

from __future__ import annotations

import gc
import json
import os
import sys

from catchment.bench.client.load import LOADS, Load


def main() -> None:
    """Run the load that the argument describes."""
    load = Load(**json.loads(sys.argv[1]))
    gc.disable()
    result = LOADS[load.kind](load)
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
    # The library's threads need not be joined: the process has done its one job.
    os._exit(0)


if __name__ == "__main__":
    main()
