"""A master that is paused with SIGSTOP: clients leave it for the next one, and it gives no old ends when it wakes."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import warren
from tests.broker.cluster.load import load
from tests.broker.cluster.processes import PATIENCE_S, ProcessCluster, process_cluster
from tests.integration.registry.servers import HOST, RunningServer
from tests.support.broker.calls import Caller
from warren.broker.kafka.errors import Code
from warren.client.net.session import CLIENT_SILENT_S_MAX
from warren.protocol.api_keys import ApiKey
from warren.protocol.native_messages import FindTimeRequest, OpenTopicRequest, ReadRequest, WirePosition
from warren.protocol.native_schemas import NativeKey

LOGGER = logging.getLogger(__name__)
TOPIC, GROUP = "orders", "readers"
OLD_COUNT = 3
LATEST = -1
FAR_FUTURE_US = 1 << 60
GAP_S_MAX = 4 * CLIENT_SILENT_S_MAX
"""Five seconds of silence, the end of a session of two seconds, an election, and the delays of a busy machine."""


def fetched_end(caller: Caller) -> int | None:
    part = {"partition": 0, "fetch_offset": OLD_COUNT, "partition_max_bytes": 1 << 20}
    values = {
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "topics": [{"topic": TOPIC, "partitions": [part]}],
    }
    row = caller.call(ApiKey.FETCH, 11, values).responses[0].partitions[0]
    return None if row.error_code == Code.NOT_LEADER_OR_FOLLOWER else row.high_watermark


def listed_end(caller: Caller) -> int | None:
    part = {"partition_index": 0, "timestamp": LATEST}
    answer = caller.call(ApiKey.LIST_OFFSETS, 7, {"topics": [{"name": TOPIC, "partitions": [part]}]})
    row = answer.topics[0].partitions[0]
    return None if row.error_code == Code.OFFSET_NOT_AVAILABLE else row.offset


def own_end(caller: Caller) -> int | None:
    answer = caller.call(NativeKey.OPEN_TOPIC, 0, OpenTopicRequest(TOPIC, must_exist=True))
    return None if answer.error is not None else answer.partitions[0].end


def own_read_end(caller: Caller) -> int | None:
    answer = caller.call(NativeKey.READ, 0, ReadRequest(TOPIC, [WirePosition(0, OLD_COUNT)], limit=1))
    return None if answer.error is not None else answer.positions[0].number


def found_end(caller: Caller) -> int | None:
    answer = caller.call(NativeKey.FIND_TIME, 0, FindTimeRequest(TOPIC, FAR_FUTURE_US))
    return None if answer.error is not None else answer.positions[0].number


def committed_position(caller: Caller) -> int | None:
    values = {"groups": [{"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}]}
    group = caller.call(ApiKey.OFFSET_FETCH, 8, values).groups[0]
    return None if group.error_code == Code.NOT_COORDINATOR else group.topics[0].partitions[0].committed_offset


ENDS: tuple[Callable[[Caller], int | None], ...] = (
    fetched_end,
    listed_end,
    own_end,
    own_read_end,
    found_end,
    committed_position,
)


def addresses(cluster: ProcessCluster, *, without: int) -> str:
    return ",".join(f"{HOST}:{port}" for replica, port in cluster.ports.items() if replica != without)


def put_and_commit(brokers: str, count: int) -> None:
    with warren.connect(brokers, timeout=PATIENCE_S) as client:
        client.topic(TOPIC).put_many([b"%d" % number for number in range(count)])
        group = client.topic(TOPIC).group(GROUP)
        group.read(limit=count)
        group.commit()


def answer_of(ask: Callable[[Caller], int | None], caller: Caller) -> int | None:
    """Returns the answer; None if the connection ends without one."""
    try:
        return ask(caller)
    except (AssertionError, OSError):
        return None


def test_a_master_that_was_paused_answers_with_no_old_end(tmp_path: Path, zookeeper: RunningServer) -> None:
    with (
        process_cluster(tmp_path, zookeeper) as cluster,
        ThreadPoolExecutor(len(ENDS)) as threads,
        ExitStack() as stack,
    ):
        cluster.all_in_sync()
        put_and_commit(cluster.brokers, OLD_COUNT)
        old = cluster.master()
        paused = cluster.replicas[old].child
        callers = [stack.enter_context(Caller((HOST, cluster.ports[old]))) for _ in ENDS]
        assert [ask(caller) for ask, caller in zip(ENDS, callers, strict=True)] == [OLD_COUNT] * len(ENDS)

        os.kill(paused, signal.SIGSTOP)
        try:
            cluster.master(2)
            put_and_commit(addresses(cluster, without=old), 1)
            # They lie in its sockets when it wakes, so it answers them before it hears of anything else.
            answers = [threads.submit(answer_of, ask, caller) for ask, caller in zip(ENDS, callers, strict=True)]
            for each in answers:
                assert not each.done()
        finally:
            os.kill(paused, signal.SIGCONT)

        assert [each.result(PATIENCE_S) for each in answers] == [None] * len(ENDS)


def test_our_client_turns_from_a_paused_master_to_the_next_one(tmp_path: Path, zookeeper: RunningServer) -> None:
    with process_cluster(tmp_path, zookeeper) as cluster:
        cluster.all_in_sync()
        with load(cluster) as running:
            paused = cluster.replicas[cluster.master()].child
            os.kill(paused, signal.SIGSTOP)
            try:
                # Its own timeout is 90 seconds, and the master sleeps on.
                running.wait_for_more()
                assert cluster.master(2) is not None
            finally:
                os.kill(paused, signal.SIGCONT)
        LOGGER.info("longest gap %.1f s, %d unknown outcomes", running.longest_gap_s, len(running.unknown))
        assert CLIENT_SILENT_S_MAX < running.longest_gap_s < GAP_S_MAX
        # The put that was under way, at most: as after a kill.
        assert len(running.unknown) <= 1
