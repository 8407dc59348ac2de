"""A pytest plugin: a process that a test forks does not keep the connection of its parent to pytest-xdist.

xdist learns that a worker process died from the end of that connection. A forked child holds it open for as long as it lives, so a
worker that died beside such a child left the whole run waiting without a word.
"""

from __future__ import annotations

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    worker = next((one for one in config.pluginmanager.get_plugins() if type(one).__name__ == "WorkerInteractor"), None)
    if worker is None:
        return
    # Public interfaces of execnet do not show the descriptors.
    connection = worker.channel.gateway._io
    descriptors = [connection.infile.fileno(), connection.outfile.fileno()]

    def disconnect() -> None:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in descriptors:
            # The number stays in use: objects of the parent, which the child has too, would close a file of the same number.
            os.dup2(nothing, descriptor)
        os.close(nothing)

    os.register_at_fork(after_in_child=disconnect)
