"""The outside world as parameters: clock, disk, network, workers, settings and telemetry; and other processes of this machine."""
