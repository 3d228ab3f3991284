"""RemoteStore: a store behind a broker; `warren.connect` returns one."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from warren.api.values import BatchingOptions
from warren.client.net.rack_reads import RackReads
from warren.client.net.session import CLIENT_TIMEOUT_S_DEFAULT, Calls, same
from warren.client.queue import RemoteQueue
from warren.client.topic import RemoteTopic
from warren.client.transaction import RemoteProducer, RemoteTransaction
from warren.clock import Duration, seconds_of
from warren.errors import BadInput, NoSuchTopic
from warren.limits import TRANSACTION_TIMEOUT_S_DEFAULT
from warren.protocol.login import Login
from warren.protocol.native.calls import ANY, settings_of, wire_settings
from warren.protocol.native_messages import (
    CommitBatchRequest,
    DeleteTopicRequest,
    EndTransactionRequest,
    ListTopicsRequest,
    OpenTopicRequest,
    RecoverRequest,
)
from warren.protocol.wire_struct import fields_of
from warren.queue.batching import Batching
from warren.queue.leases.renewal import Renewals
from warren.queue.standalone.codec import Codec, codec_of
from warren.queue.state.description import TopicDescription
from warren.queue.state.settings import TOPIC_SETTINGS, TopicSettings, checked_name
from warren.tls import tls_context
from warren.transaction.coordinator import Prepared, checked_application, checked_id, checked_ids, checked_version
from warren.transaction.states import State


class RemoteStore:
    """A store behind a broker, with the methods of an embedded store. Any thread may use it.

    Objects that it has open at the broker, such as groups and transactions, are closed with it, or when its connections
    end.
    """

    def __init__(self, calls: Calls, reads: RackReads | None = None) -> None:
        self.calls, self.reads = calls, reads or RackReads(calls)
        self._mutex = threading.Lock()
        self._topics: dict[str, RemoteTopic] = {}
        self.renewals = Renewals(calls.clock, threaded=True)

    @property
    def id(self) -> str:
        """Returns the id of the store."""
        if not self.calls.store_id:
            self.topics()
        return self.calls.store_id

    @property
    def is_closed(self) -> bool:
        return self.calls.is_closed

    # --- Topics ---

    def topic(self, name: str, partitions: int | None = None, **settings: Any) -> RemoteTopic:
        """Returns the topic `name`. Creates it if it does not exist, with one partition unless another number is given.

        Raises SettingsDiffer if it exists with settings other than those given.
        """
        TOPIC_SETTINGS.check_names(settings)
        chosen = settings if partitions is None else {"partitions": partitions, **settings}
        return self._opened(checked_name("topic", name), must_exist=False, settings=chosen)

    def existing_topic(self, name: str) -> RemoteTopic:
        """Returns the topic `name`. Raises NoSuchTopic if there is none."""
        return self._opened(checked_name("topic", name), must_exist=True, settings={})

    def _opened(self, name: str, *, must_exist: bool, settings: dict[str, Any]) -> RemoteTopic:
        request = OpenTopicRequest(name, must_exist, settings=wire_settings(settings))
        opened = self.calls.call(request, repeat=same)
        with self._mutex:
            topic = self._topics.get(name)
            if topic is None:
                topic = self._topics[name] = RemoteTopic(self, name, opened)
            else:
                topic.take_settings(settings_of(opened.settings))
            return topic

    def has_topic(self, name: str) -> bool:
        """Returns whether there is a topic of this name."""
        try:
            self.existing_topic(name)
        except NoSuchTopic:
            return False
        return True

    def topics(self) -> list[str]:
        """Returns the names of all topics, sorted."""
        return list(self.calls.call(ListTopicsRequest(), repeat=same).topics)

    def describe(self, name: str) -> TopicDescription:
        """Returns the settings, partitions and groups of a topic. Raises NoSuchTopic if there is none."""
        return self.existing_topic(name).describe()

    def configure_topic(self, name: str, changes: Mapping[str, Any]) -> TopicSettings:
        """Changes settings of a topic, and returns the new ones."""
        return self.existing_topic(name).configure(**changes)

    def delete_topic(self, name: str) -> None:
        """Removes a topic for all clients, with its messages, its groups and its parked messages."""
        self.calls.call(DeleteTopicRequest(topic=checked_name("topic", name)))
        self.reads.forget(name)
        with self._mutex:
            self._topics.pop(name, None)

    def queue(
        self,
        name: str,
        maxsize: int = 0,
        *,
        codec: str | Codec = "json",
        **settings: Any,
    ) -> RemoteQueue[Any]:
        """Returns the durable queue `name`, with the methods of `queue.Queue`, for all clients and processes.

        `codec` is "json", "bytes" or "pickle", or an object with `dumps` and `loads`, as for `Store.queue`. Reading a
        pickle runs code that its writer chose: use it only if you trust everyone who can open the queue.
        """
        TOPIC_SETTINGS.check_names(settings)
        return RemoteQueue(self, checked_name("topic", name), maxsize, codec_of(codec), settings)

    def batching(self, **options: Unpack[BatchingOptions]) -> Batching:
        """Returns a Batching, which gathers puts and sends them in the background. Each put has a future of its own."""
        return Batching(self, **options)

    # --- Transactions ---

    def transaction(
        self,
        timeout: Duration = TRANSACTION_TIMEOUT_S_DEFAULT,
        id: str | None = None,
        prepared_timeout: Duration | None = None,
    ) -> RemoteTransaction:
        """Returns a new transaction. Its puts happen together when it is committed, or not at all.

        The broker aborts it if it is still open after `timeout` seconds, or if this client disappears. Once prepared,
        it waits for a decision: for `prepared_timeout` seconds, or without a limit if that is None.
        """
        return RemoteTransaction(self, timeout, id, prepared_timeout)

    def commit(self, id: str) -> State:
        """Commits a prepared transaction of any client or process. Returns "done". Committing twice does no harm."""
        return self._decide(id, "commit")

    def abort(self, id: str) -> State:
        """Aborts a prepared transaction of any client or process. Returns "aborted". Aborting twice does no harm."""
        return self._decide(id, "abort")

    def transaction_state(self, id: str) -> State:
        """Returns the state of a transaction; "unknown" if it never existed or ended long ago."""
        return self._decide(id, "state")

    def _decide(self, id: str, action: str) -> State:
        request = EndTransactionRequest(id=checked_id(id), action=action)
        return State(self.calls.call(request, repeat=same).state)

    def commit_batch(self, application: str, version: int, ids: Sequence[str]) -> State:
        """Commits prepared transactions together, as the step of `application` to `version`. Returns "done"."""
        request = CommitBatchRequest(checked_application(application), checked_version(version), checked_ids(ids))
        return State(self.calls.call(request, repeat=same).state)

    def commit_all(self, ids: Sequence[str]) -> State:
        """Commits prepared transactions together, as `commit_batch` does, without an application. Returns "done"."""
        return State(self.calls.call(CommitBatchRequest(None, ids=checked_ids(ids)), repeat=same).state)

    def abort_prepared(self, prefix: str, before: str | None = None) -> list[str]:
        """Aborts the prepared transactions whose ids start with `prefix` and sort before `before`. Returns the ids."""
        request = RecoverRequest("abort_prepared", checked_id(prefix), before)
        return list(self.calls.call(request, repeat=same).ids)

    def last_version(self, application: str) -> int | None:
        """Returns the version of an application's last `commit_batch`; None if there was none, or it was long ago."""
        request = RecoverRequest("last_version", checked_application(application))
        version = self.calls.call(request, repeat=same).version
        return None if version == ANY else version

    @property
    def last_failure(self) -> str:
        """Returns why the broker last failed to carry out a decision; empty if it never failed."""
        return self.calls.call(RecoverRequest("last_failure"), repeat=same).failure

    def recover(self) -> list[Prepared]:
        """Finishes transactions that were interrupted. Returns those that wait for a decision, the oldest first."""
        prepared = self.calls.call(RecoverRequest("recover"), repeat=same).prepared
        return [Prepared(**fields_of(each)) for each in prepared]

    def producer(self, name: str) -> RemoteProducer:
        """Returns the producer `name`, which numbers its puts. Raises ProducerBusy if it is open anywhere else."""
        return RemoteProducer(self, name)

    # --- Ending ---

    def close(self) -> None:
        """Closes what is open at the broker, and the connections. Closing twice does no harm."""
        self.renewals.stop()
        self.reads.close()
        self.calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        reads = "" if self.reads.address == self.calls.address else f", reads at {self.reads.address}"
        return f"<RemoteStore {self.calls.address}{reads}{' closed' if self.is_closed else ''}>"


def connect(
    address: str,
    *,
    timeout: Duration | None = None,
    wait: Duration = 0.0,
    tls: ssl.SSLContext | bool | None = None,
    ca: str | os.PathLike[str] | None = None,
    certificate: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    user: str | None = None,
    password: str | None = None,
    mechanism: str | None = None,
    rack: str | None = None,
) -> RemoteStore:
    """Returns a client that has reached its broker. `warren.connect` explains the options and errors."""
    if (user is None) != (password is None) or (user is None and mechanism is not None):
        raise BadInput("pass both user and password, or neither")
    login = None if user is None or password is None else Login(user, password, mechanism)
    context = tls_context(tls, ca, certificate, key)
    timeout_s = CLIENT_TIMEOUT_S_DEFAULT if timeout is None else seconds_of(timeout)
    calls = Calls(address, timeout_s=timeout_s, first_wait_s=seconds_of(wait), tls=context, login=login)
    store = RemoteStore(calls, RackReads(calls, rack))
    try:
        store.topics()
    except BaseException:
        store.close()
        raise
    return store
