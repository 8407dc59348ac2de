"""Values that many answers share."""

from datetime import timedelta
from typing import Final

from kio.static.primitive import i32Timedelta

NO_THROTTLE: Final = i32Timedelta.parse(timedelta(0))
