"""A client of a broker and the asyncio twins have the methods of an embedded store, with the same arguments."""

from __future__ import annotations

import inspect
import re

import pytest

import warren.aio.producer
import warren.aio.store
import warren.aio.topic
from warren import api
from warren.client.groups import QueueWorker, StreamMember
from warren.client.log import RemoteLog
from warren.client.store import RemoteStore
from warren.client.topic import RemoteTopic
from warren.client.transaction import RemoteProducer, RemoteTransaction
from warren.queue.leases.queue_group import QueueGroup
from warren.queue.stream.stream_group import StreamGroup
from warren.queue.topic import Topic
from warren.storage.format.columns import Batch
from warren.storage.log import Log
from warren.transaction.producer import Producer
from warren.transaction.store import Store
from warren.transaction.transaction import Transaction

RESIDENT = {"after_fork", "file_count", "rest"}
INSIDE = {
    Store: RESIDENT
    | {"check_open", "check_writable", "new_settings", "note_owner", "opened_topic", "refresh_topic", "settle"}
    | {"is_replicated", "life", "undecided"},
    Topic: {"check_body", "check_bodies", "clock", "differs", "filesystem", "logs", "route", "see_partitions"}
    | {"check_takes_puts", "loses_nothing", "syncs_answers", "take_settings", "waits_for_replicas"},
    Transaction: {"append", "commit_numbers", "forget", "limits_of", "needs_no_journal", "put_kafka", "spill"}
    | {"target_for"},
    Producer: RESIDENT,
    StreamGroup: RESIDENT
    | {"apply_positions", "check_claim", "claim", "keep", "owned", "read_positions"}
    | {"read_within", "unread"},
    QueueGroup: RESIDENT
    | {"finish", "give_back", "held", "hold", "redrive_on", "reject_waiting"}
    | {"report_consumed", "still_leased", "take_within"},
    Log: {
        "append_packed",
        "append_record",
        "begin",
        "block_of",
        "check_writable",
        "flag",
        "format",
        "markers",
        "number_at",
        "packed",
    }
    | {"has_room", "page", "read_page", "recovered_us", "recovery", "settle", "standing", "stored", "tail"},
}
"""For other modules of Warren."""
OF_FILES = {
    # The files belong to the broker, which also delivers and retires.
    Store: {"keep"},
    Topic: {"close"},
    Log: {"close", "cut", "extension", "inspect", "open", "path", "reader", "readers", "record_size_max", "remove"}
    | {"remove_reader", "reopen", "retire", "sync", "verify", "version"},
}
MARKED = {"append_many", "append_arrow"}
"""They take a marker, which clients make themselves."""
UNPACK = re.compile(r"Unpack\[(\w+Options)\]")
GROUP_OPTIONS = dict.fromkeys(api.GroupOptions.__annotations__, "by the group")
BATCHING_OPTIONS = dict.fromkeys(api.BatchingOptions.__annotations__, "by the batching")
DEFAULTS: dict[str, object] = {
    **GROUP_OPTIONS,
    **BATCHING_OPTIONS,
    **Batch._field_defaults,
    **api.MessageFields._field_defaults,
    "partition": None,
    "reply_to": "",
}
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
    (StreamGroup, warren.aio.topic.StreamGroup),
    (QueueGroup, warren.aio.topic.QueueGroup),
]


def names(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


def for_users(kind: type) -> set[str]:
    return names(kind) - INSIDE[kind] - OF_FILES.get(kind, set())


@pytest.mark.parametrize(("here", "there"), REMOTE, ids=lambda kind: kind.__name__)
def test_a_client_has_the_methods_of_the_embedded_object(here: type, there: type) -> None:
    assert for_users(here) - names(there) == set()

    for name in for_users(here) - MARKED:
        if inspect.isfunction(getattr(here, name)):
            assert arguments(here, name) == arguments(there, name), name


def arguments(kind: type, name: str) -> tuple[list[object], set[object]]:
    """Returns the positional parameters in order, and the keyword ones; `Unpack` stands for the
    options that it names.
    """
    parameters = inspect.signature(getattr(kind, name)).parameters.values()
    positional: list[object] = []
    keywords: set[object] = set()
    for each in parameters:
        unpacked = UNPACK.fullmatch(str(each.annotation))
        if unpacked is not None:
            options = getattr(api, unpacked[1]).__annotations__
            keywords |= {(option, DEFAULTS[option]) for option in options}
        elif each.kind is inspect.Parameter.KEYWORD_ONLY:
            keywords.add((each.name, each.default))
        else:
            positional.append((each.name, each.kind, each.default))
    return positional, keywords


@pytest.mark.parametrize(("here", "twin"), TWINS, ids=lambda kind: kind.__name__)
def test_an_asyncio_twin_has_the_methods_of_its_synchronous_object(here: type, twin: type) -> None:
    assert for_users(here) - names(twin) == set()
