"""Clients of a simulated shard. They put, read ends and read committed messages, and survive every fail-over."""

from __future__ import annotations

from functools import partial

from tests.crash.replication.cluster import FILES, LOGS, Cluster
from tests.crash.replication.process import Process

TIMEOUT_S = 1.0
THINK_S = (0.01, 0.25)


class Client:
    """One client. It sends one request at a time to the replica that it takes for the master, sometimes to another."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._target = 0
        self._request = 0
        self.is_stopped = False
        cluster.after(cluster.random.uniform(0, 0.3), None, self._next, 0)

    def _next(self, request: int) -> None:
        """Sends the next request after `request` was answered or has timed out, if that is still the last one."""
        if request != self._request or self.is_stopped:
            return
        cluster, random = self._cluster, self._cluster.random
        self._request += 1
        draw = random.random()
        if draw < 0.15:
            self._target = random.randrange(len(cluster.machines))
        cluster.after(random.uniform(0.001, 0.01), None, self._arrive, self._request)
        cluster.after(TIMEOUT_S, None, self._next, self._request)

    def _arrive(self, request: int) -> None:
        process = self._cluster.machines[self._target].process
        if process is None or not process.is_alive:
            return
        if process.machine.paused_until > self._cluster.now:
            self._cluster.at(process.machine.paused_until, process, self._serve, process, request)
        else:
            process.machine.now = self._cluster.now
            self._serve(process, request)

    def _serve(self, process: Process, request: int) -> None:
        """Lets the replica take the request. A read must see everything that was acknowledged before."""
        cluster, random = self._cluster, self._cluster.random
        draw = random.random()
        answered = partial(self._answered, request)
        if draw < cluster.read_share:
            is_taken = self._read_end(process, request)
        elif draw < 0.75:
            is_taken = process.put(self._draw_log(process), random.getrandbits(48), answered)
        elif draw < 0.9:
            is_taken = process.change_file(random.choice(FILES), cluster.step_count, answered)
        elif draw < 0.96:
            is_taken = False
            cluster.checker.check_visible(process.machine.disk, process.visible)
        elif draw < 0.985:
            is_taken = process.make_log(f"topic {cluster.step_count}", answered)
        else:
            is_taken = self._remove_log(process, request)
        if not is_taken:
            self._target = random.randrange(len(cluster.machines))
            self._answered(request)

    def _read_end(self, process: Process, request: int) -> bool:
        checker = self._cluster.checker
        log = self._cluster.random.choice(LOGS)
        floor = checker.floor(log)

        def answer(end: int) -> None:
            checker.end_answered(log, end, floor)
            self._cluster.counts["end read"] += 1
            self._answered(request)

        return process.read_end(log, answer)

    def _remove_log(self, process: Process, request: int) -> bool:
        logs = [log for log in process.machine.disk.logs if log not in LOGS]
        return bool(logs) and process.remove_log(logs[0], partial(self._answered, request))

    def _draw_log(self, process: Process) -> str:
        logs = list(process.machine.disk.logs)
        return self._cluster.random.choice(logs) if logs else ""

    def _answered(self, request: int) -> None:
        if request == self._request:
            cluster = self._cluster
            cluster.after(cluster.random.uniform(*THINK_S), None, self._next, request)
