"""Run the plan: all servers of a policy run side by side, and take turns at every workload.

They take turns (A, B, A, B …) because the speed of a shared machine varies, and the order is reversed in every second round, so
that none is always first. Before that, each server is warmed up with loads that do not count: a JVM compiles what it runs often,
and a cold one would make us look better.
"""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from confluent_kafka import KafkaException

from catchment.bench import plan
from catchment.bench.peers.maven import PeerUnavailable
from catchment.bench.peers.rabbitmq import RabbitServer
from catchment.bench.results import Results
from catchment.bench.target import POLICIES, FlushPolicy, Target, factories
from catchment.bench.workloads.on_rabbitmq import run_on_rabbitmq
from catchment.bench.workloads.workload import Workload

# Errors of a server or a client that do not end the whole run.
_EXPECTED = (RuntimeError, OSError, KafkaException, PeerUnavailable, subprocess.SubprocessError)


@dataclass(frozen=True, slots=True)
class Session:
    """One policy with its workloads."""

    policy: FlushPolicy
    workloads: Sequence[Workload]
    warm_up: Sequence[Workload] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run reports its current activity and each finished step."""

    describe: Callable[[str], None]
    advance: Callable[[], None]


def step_count(sessions: Sequence[Session], names: list[str], rounds: int) -> int:
    """How many steps `run` will report."""
    return sum(len(session.workloads) * rounds * len(factories(session.policy, names)) for session in sessions)


def run(sessions: Sequence[Session], names: list[str], rounds: int, results: Results, progress: Progress) -> None:
    """Run every session and fill in the results."""
    for session in sessions:
        for workload in session.workloads:
            for measure in workload.measures:
                results.expect(session.policy, measure)
        with ExitStack() as stack:
            targets = _start(session.policy, names, results, stack, progress)
            for workload, target in itertools.product(session.warm_up, targets):
                progress.describe(f"{session.policy.key}: warming up {target.name}")
                _measure(session.policy, workload, target, Results(peers=[]))
            for workload in session.workloads:
                for number in range(rounds):
                    for target in targets if number % 2 == 0 else reversed(targets):
                        progress.describe(f"{session.policy.key}: {workload.name} · {target.name} · round {number + 1}")
                        _measure(session.policy, workload, target, results)
                        progress.advance()


def _start(
    policy: FlushPolicy, names: list[str], results: Results, stack: ExitStack, progress: Progress
) -> list[Target]:
    targets = []
    for name, factory in factories(policy, names).items():
        progress.describe(f"{policy.key}: starting {name}")
        try:
            targets.append(Target(name, factory, stack.enter_context(factory())))
        except _EXPECTED as error:
            results.unavailable[name] = str(error)
    return targets


def _measure(policy: FlushPolicy, workload: Workload, target: Target, results: Results) -> None:
    # Write the page cache of the previous server to disk now, so that it does not cost this one time.
    os.sync()
    try:
        if isinstance(target.server, RabbitServer):
            results.add(policy, target.name, run_on_rabbitmq(workload, target, target.server))
        else:
            results.add(policy, target.name, workload.run(target))
    except _EXPECTED as error:
        results.failures.append(f"{policy.key}: {workload.name} on {target.name}: {error}")


def sessions(choose: Callable[[FlushPolicy], Sequence[Workload]]) -> list[Session]:
    """One session for every policy that has any workload left."""
    found = [Session(policy, choose(policy), plan.warm_up()) for policy in POLICIES]
    return [session for session in found if session.workloads]
