"""What an embedded store can, a client of a broker can, and their asyncio twins: by name, and by the same arguments."""

from __future__ import annotations

import inspect

import pytest

import warren.aio.groups
import warren.aio.producer
import warren.aio.store
import warren.aio.topic
from warren.client.groups import QueueWorker, StreamMember
from warren.client.log import RemoteLog
from warren.client.store import RemoteStore
from warren.client.topic import RemoteTopic
from warren.client.transaction import RemoteProducer, RemoteTransaction
from warren.queue.queue_group import QueueGroup
from warren.queue.stream_group import StreamGroup
from warren.queue.topic import Topic
from warren.storage.log import Log
from warren.transaction.producer import Producer
from warren.transaction.store import Store
from warren.transaction.transaction import Transaction

RESIDENT = {"after_fork", "file_count", "rest"}
INSIDE = {
    Store: RESIDENT | {"check_open", "check_writable", "new_settings", "note_owner", "opened_topic", "refresh_topic"},
    Topic: {"check_body", "check_bodies", "clock", "differs", "filesystem", "logs", "route", "see_partitions"}
    | {"check_takes_puts", "take_settings"},
    Transaction: {"append", "commit_numbers", "forget", "limits_of", "needs_no_journal", "put_kafka", "spill"}
    | {"target_for"},
    Producer: RESIDENT,
    StreamGroup: RESIDENT
    | {"apply_positions", "check_claim", "claim", "keep", "owned", "read_positions"}
    | {"read_within", "unread"},
    QueueGroup: RESIDENT | {"finish", "give_back", "held", "hold", "still_leased", "take_within"},
    Log: {"append_packed", "block_of", "check_writable", "flag", "markers", "number_at", "packed", "read_page"}
    | {"page", "recovered_us", "recovery", "standing", "stored"},
}
"""For other modules of Warren."""
OF_FILES = {
    # Whose files are the broker's, which also delivers and retires.
    Store: {"keep"},
    Topic: {"close"},
    Log: {"close", "extension", "inspect", "open", "path", "reader", "readers", "record_size_max", "remove"}
    | {"remove_reader", "reopen", "retire", "sync", "verify", "version"},
}
MARKED = {"append_many", "append_arrow"}
"""They take a marker, which clients make themselves."""
REMOTE = [
    (Store, RemoteStore),
    (Topic, RemoteTopic),
    (Transaction, RemoteTransaction),
    (Producer, RemoteProducer),
    (StreamGroup, StreamMember),
    (QueueGroup, QueueWorker),
    (Log, RemoteLog),
]
TWINS = [
    (Store, warren.aio.store.Store),
    (Topic, warren.aio.topic.Topic),
    (Transaction, warren.aio.store.Transaction),
    (Producer, warren.aio.producer.Producer),
    (StreamGroup, warren.aio.groups.StreamGroup),
    (QueueGroup, warren.aio.groups.QueueGroup),
]


def names(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def for_users(kind: type) -> set[str]:
    return names(kind) - INSIDE[kind] - OF_FILES.get(kind, set())


@pytest.mark.parametrize(("here", "there"), REMOTE, ids=lambda kind: kind.__name__)
def test_a_client_has_what_the_embedded_one_has(here: type, there: type) -> None:
    assert for_users(here) - names(there) == set()

    for name in for_users(here) - MARKED:
        if inspect.isfunction(getattr(here, name)):
            assert arguments(here, name) == arguments(there, name), name


def arguments(kind: type, name: str) -> list[tuple[str, object, object]]:
    parameters = inspect.signature(getattr(kind, name)).parameters.values()
    return [(each.name, each.kind, each.default) for each in parameters]


@pytest.mark.parametrize(("here", "twin"), TWINS, ids=lambda kind: kind.__name__)
def test_a_twin_has_what_the_other_has(here: type, twin: type) -> None:
    assert for_users(here) - names(twin) == set()
