"""Makes and parses every file and directory name of a store."""

from __future__ import annotations

import hashlib
import os.path
from collections.abc import Iterable
from typing import Final, NamedTuple

SESSION_SUFFIX: Final = ".session"
DONE_SUFFIX: Final = ".done"
RUN_SUFFIX: Final = ".run"
NEW_SUFFIX: Final = ".new"
TRANSACTIONAL_SUFFIX: Final = ".json"
MEMBER_SUFFIX: Final = ".member"
WORKER_SUFFIX: Final = ".worker"


def store_file(store: str) -> str:
    return os.path.join(store, "store.json")


def store_lock(store: str) -> str:
    return os.path.join(store, "store.lock")


def wakeup_file(store: str) -> str:
    return os.path.join(store, "wakeup")


def mover_lock(store: str) -> str:
    """Held by the process that delivers due messages."""
    return os.path.join(store, "mover.lock")


def broker_lock(store: str) -> str:
    """Held by the broker that serves the store."""
    return os.path.join(store, "broker.lock")


def replica_file(store: str) -> str:
    """The cluster, shard and replica that the directory belongs to."""
    return os.path.join(store, "replication", "replica.json")


def users_file(store: str) -> str:
    """The users of the store's brokers, with the data that their passwords are checked against."""
    return os.path.join(store, "users.json")


def rights_file(store: str) -> str:
    """The rights (ACLs) of the users of the store's brokers."""
    return os.path.join(store, "rights.json")


def quotas_file(store: str) -> str:
    """The quotas of users, clients and addresses of the store's brokers."""
    return os.path.join(store, "quotas.json")


def security_lock(store: str) -> str:
    """Held by the process that changes users, rights or quotas."""
    return os.path.join(store, "security.lock")


def broker_directory(store: str) -> str:
    """State that the store's brokers keep across restarts."""
    return os.path.join(store, "broker")


def producer_ids_file(broker_directory: str) -> str:
    """The number up to which producer ids were assigned."""
    return os.path.join(broker_directory, "producer_ids.json")


def readiness_file(broker_directory: str) -> str:
    """Written to check that the store can be written to."""
    return os.path.join(broker_directory, "ready")


def transactional_directory(broker_directory: str) -> str:
    """The producers with a transactional id, one file each."""
    return os.path.join(broker_directory, "transactional")


def transactional_files(transactional_directory: str, names: Iterable[str]) -> list[str]:
    """Returns the files in the directory, except those that are still being written."""
    return [os.path.join(transactional_directory, name) for name in names if name.endswith(TRANSACTIONAL_SUFFIX)]


def transactional_file(transactional_directory: str, transactional_id: str) -> str:
    """Named by a digest, because a transactional id may have more characters, and other ones, than a file name."""
    digest = hashlib.sha256(transactional_id.encode()).hexdigest()
    return os.path.join(transactional_directory, digest + TRANSACTIONAL_SUFFIX)


def sessions_directory(store: str) -> str:
    return os.path.join(store, "sessions")


def session_path(sessions: str, id: str) -> str:
    return os.path.join(sessions, id + SESSION_SUFFIX)


def session_id(name: str) -> str | None:
    """Returns the session whose file is called `name`, or None for any other file."""
    return name[: -len(SESSION_SUFFIX)] if name.endswith(SESSION_SUFFIX) else None


def topics_directory(store: str) -> str:
    return os.path.join(store, "topics")


def topic_directory(store: str, topic: str) -> str:
    return os.path.join(store, "topics", topic)


def topic_file(topic_directory: str) -> str:
    return os.path.join(topic_directory, "topic.json")


def partition_directory(topic_directory: str, partition: int) -> str:
    return os.path.join(topic_directory, str(partition))


def sequences_file(partition_directory: str) -> str:
    """The sequence numbers of producers that put into a partition through a broker."""
    return os.path.join(partition_directory, "sequences.json")


def groups_directory(topic_directory: str) -> str:
    return os.path.join(topic_directory, "groups")


def group_directory(topic_directory: str, group: str) -> str:
    return os.path.join(topic_directory, "groups", group)


def group_file(group_directory: str) -> str:
    return os.path.join(group_directory, "group.json")


def group_notes_file(group_directory: str) -> str:
    """Metadata that clients of the broker stored with the positions of a group."""
    return os.path.join(group_directory, "notes.json")


class MemberName(NamedTuple):
    """The fields of the name of a member's file."""

    id: str
    session: str


def members_directory(group_directory: str) -> str:
    return os.path.join(group_directory, "members")


def member_path(members: str, id: str, session: str) -> str:
    return os.path.join(members, f"{id}.{session}{MEMBER_SUFFIX}")


def member_of(name: str) -> MemberName | None:
    """Returns the member whose file is called `name`, or None for any other file."""
    id, dot, session = name.removesuffix(MEMBER_SUFFIX).partition(".")
    return MemberName(id, session) if dot and name.endswith(MEMBER_SUFFIX) else None


def owner_lock(group_directory: str, partition: int) -> str:
    """Held by the member that owns the partition."""
    return os.path.join(group_directory, f"{partition}.owner")


def delayed_directory(topic_directory: str) -> str:
    return os.path.join(topic_directory, "delayed")


def delay_lock(topic_directory: str) -> str:
    """Held by a process that delivers or cancels parked messages of a topic."""
    return os.path.join(topic_directory, "delay.lock")


def intent_file(delayed_directory: str) -> str:
    """The messages that are being delivered from the parked logs of a topic."""
    return os.path.join(delayed_directory, "intent")


def parked_directory(delayed_directory: str, horizon: str) -> str:
    """The parked log of one horizon."""
    return os.path.join(delayed_directory, horizon)


def done_directory(delayed_directory: str, horizon: str) -> str:
    return os.path.join(delayed_directory, horizon + ".done")


def done_path(done_directory: str, first: int) -> str:
    """The file of bits from number `first` on."""
    return os.path.join(done_directory, f"{first:020d}{DONE_SUFFIX}")


def done_first(name: str) -> int | None:
    """Returns the first number of the file of bits called `name`, or None for any other file."""
    digits = name.removesuffix(DONE_SUFFIX)
    return int(digits) if name.endswith(DONE_SUFFIX) and digits.isdigit() else None


def order_directory(delayed_directory: str, horizon: str) -> str:
    return os.path.join(delayed_directory, horizon + ".order")


def run_path(order_directory: str, numbers: range) -> str:
    """The run that covers `numbers`."""
    return os.path.join(order_directory, f"{numbers.start:020d}-{numbers.stop:020d}{RUN_SUFFIX}")


def run_numbers(name: str) -> range | None:
    """Returns the numbers that the run called `name` covers, or None for any other file."""
    first, _, end = name.removesuffix(RUN_SUFFIX).partition("-")
    if not name.endswith(RUN_SUFFIX) or not first.isdigit() or not end.isdigit():
        return None
    return range(int(first), int(end))


def queue_directory(topic_directory: str) -> str:
    """What a durable queue stores in addition to its topic."""
    return os.path.join(topic_directory, "queue")


def queue_lock(queue_directory: str) -> str:
    return os.path.join(queue_directory, "queue.lock")


def worker_path(queue_directory: str, session: str) -> str:
    return os.path.join(queue_directory, session + WORKER_SUFFIX)


def worker_session(name: str) -> str | None:
    """Returns the session whose count is in the file called `name`, or None for any other file."""
    return name[: -len(WORKER_SUFFIX)] if name.endswith(WORKER_SUFFIX) else None


def transactions_directory(store: str) -> str:
    return os.path.join(store, "transactions")


def producers_directory(store: str) -> str:
    return os.path.join(store, "producers")


def journal_directory(transactions: str) -> str:
    return os.path.join(transactions, "journal")


def journal_copy_directory(transactions: str) -> str:
    """A copy of a damaged journal, which is read here and may be cut."""
    return os.path.join(transactions, "journal.copy")


def new_journal_directory(transactions: str) -> str:
    """The new journal that replaces a damaged one, while it is made."""
    return os.path.join(transactions, "journal.new")


def damaged_journal_directory(transactions: str, when_us: int) -> str:
    """The place to which a damaged journal is moved."""
    return os.path.join(transactions, f"journal.damaged-{when_us}")


def settling_lock(transactions: str) -> str:
    """Held by the process that finishes transactions of other processes."""
    return os.path.join(transactions, "settling.lock")


def producer_lock(producers: str, producer: str) -> str:
    return os.path.join(producers, producer + ".lock")


def producer_file(producers: str, producer: str) -> str:
    return os.path.join(producers, producer + ".json")


def leases_directory(group_directory: str) -> str:
    """The ledger of a queue group."""
    return os.path.join(group_directory, "ledger")


def dead_letter_lock(group_directory: str) -> str:
    """Held by a process that moves messages of the group to the dead letters, or back."""
    return os.path.join(group_directory, "dead.lock")


def pipeline_directory(store: str, pipeline: str) -> str:
    """State that a pipeline keeps in the store that it reads."""
    return os.path.join(store, "pipelines", pipeline)


def pipeline_lock(pipeline_directory: str) -> str:
    """Held by the process that runs the pipeline."""
    return os.path.join(pipeline_directory, "running.lock")


def pipeline_checkpoint(pipeline_directory: str) -> str:
    return os.path.join(pipeline_directory, "checkpoint")
