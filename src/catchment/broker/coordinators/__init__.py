"""The runtime of the coordinators' state machines: appends, replay, timers, and waiting for the high watermark."""
