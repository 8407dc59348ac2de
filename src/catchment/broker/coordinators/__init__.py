"""What runs the coordinators' state machines: appends, replays, timers and the waiting for the high watermark."""
