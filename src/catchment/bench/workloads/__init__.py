"""The workloads: each runs one kind of load on a running server and returns numbers by measure."""
