"""Values that many answers share."""

from datetime import UTC, datetime, timedelta
from typing import Final, cast

from kio.static.primitive import TZAware, i32Timedelta

NO_THROTTLE: Final = i32Timedelta.parse(timedelta(0))

NO_TIME: Final = cast("TZAware", datetime.fromtimestamp(0, UTC) - timedelta(milliseconds=1))
"""-1 on the wire. kio's type for times does not allow it, its writers do."""
