"""RemoteStore: a store behind a broker; what `warren.connect` gives."""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from warren.client.calls import Calls, same
from warren.client.login import Login
from warren.client.queue import RemoteQueue
from warren.client.tls import tls_context
from warren.client.topic import RemoteTopic
from warren.client.transaction import RemoteProducer, RemoteTransaction
from warren.clock import Duration, seconds_of
from warren.config import CLIENT_TIMEOUT_S_DEFAULT, TRANSACTION_TIMEOUT_S_DEFAULT
from warren.errors import BadInput, NoSuchTopic
from warren.protocol.own_api import ANY, setting_values, settings_of
from warren.protocol.own_schemas import OwnKey
from warren.queue.batching import Batching, BatchingOptions
from warren.queue.codec import Codec, codec_of
from warren.queue.description import TopicDescription
from warren.queue.names import checked_name
from warren.queue.renewal import Renewals
from warren.queue.settings import TopicSettings, check_known
from warren.transaction.coordinator import Prepared, checked_application, checked_id, checked_ids, checked_version
from warren.transaction.states import State


class RemoteStore:
    """A store behind a broker, with the methods of one that is here. Any thread may use it.

    What it has open at the broker, groups and transactions among it, is closed with it, and when its connections end.
    """

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self._mutex = threading.Lock()
        self._topics: dict[str, RemoteTopic] = {}
        self.renewals = Renewals(calls.clock, threaded=True)

    @property
    def id(self) -> str:
        """The id of the store."""
        if not self.calls.store_id:
            self.topics()
        return self.calls.store_id

    @property
    def is_closed(self) -> bool:
        return self.calls.is_closed

    # --- Topics ---

    def topic(self, name: str, partitions: int | None = None, **settings: Any) -> RemoteTopic:
        """The topic `name`, made where there is none: with one partition, if nothing else is said.

        SettingsDiffer where it is there and has other settings than those given.
        """
        check_known(settings)
        given = settings if partitions is None else {"partitions": partitions, **settings}
        return self._opened(checked_name("topic", name), must_exist=False, settings=given)

    def existing_topic(self, name: str) -> RemoteTopic:
        """The topic `name`; NoSuchTopic where there is none."""
        return self._opened(checked_name("topic", name), must_exist=True, settings={})

    def _opened(self, name: str, *, must_exist: bool, settings: dict[str, Any]) -> RemoteTopic:
        values = {"topic": name, "must_exist": must_exist, "settings": setting_values(settings)}
        shown = self.calls.call(OwnKey.OPEN_TOPIC, values, repeat=same)
        with self._mutex:
            topic = self._topics.get(name)
            if topic is None:
                topic = self._topics[name] = RemoteTopic(self, name, shown)
            else:
                topic.take_settings(settings_of(shown.settings))
            return topic

    def has_topic(self, name: str) -> bool:
        """Whether there is a topic of this name."""
        try:
            self.existing_topic(name)
        except NoSuchTopic:
            return False
        return True

    def topics(self) -> list[str]:
        """The names of all topics, sorted."""
        return list(self.calls.call(OwnKey.LIST_TOPICS, {}, repeat=same).topics)

    def describe(self, name: str) -> TopicDescription:
        """What there is to know of a topic; NoSuchTopic where there is none."""
        return self.existing_topic(name).describe()

    def configure_topic(self, name: str, changes: dict[str, Any]) -> TopicSettings:
        """Change settings of a topic; the settings it has now."""
        return self.existing_topic(name).configure(**changes)

    def delete_topic(self, name: str) -> None:
        """Remove a topic with its messages, groups and what is parked for it, for everybody."""
        self.calls.call(OwnKey.DELETE_TOPIC, {"topic": checked_name("topic", name)})
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
        """The durable queue `name`, with the methods of `queue.Queue`, for all clients and processes.

        `codec` is "json", "bytes" or "pickle", or an object with `dumps` and `loads`, as for `Store.queue`. Reading a
        pickle runs code that its writer chose: use it only if you trust everyone who can open the queue.
        """
        check_known(settings)
        return RemoteQueue(self, checked_name("topic", name), maxsize, codec_of(codec), settings)

    def batching(self, **options: Unpack[BatchingOptions]) -> Batching:
        """Puts that are gathered and sent together in the background, each with a future of its own."""
        return Batching(self, **options)

    # --- Transactions ---

    def transaction(
        self,
        timeout: Duration = TRANSACTION_TIMEOUT_S_DEFAULT,
        id: str | None = None,
        prepared_timeout: Duration | None = None,
    ) -> RemoteTransaction:
        """A transaction: what is put to it happens when it is committed, all of it or nothing.

        It is aborted when it is still open after `timeout` seconds, or when this client is gone. Once prepared it waits
        to be decided, for `prepared_timeout` seconds or for ever.
        """
        return RemoteTransaction(self, timeout, id, prepared_timeout)

    def commit(self, id: str) -> State:
        """Commit a prepared transaction, whoever prepared it: "done". Once more does nothing."""
        return self._decide(id, "commit")

    def abort(self, id: str) -> State:
        """Abort a transaction that was prepared by anybody: "aborted". Once more does nothing."""
        return self._decide(id, "abort")

    def transaction_state(self, id: str) -> State:
        """Where a transaction stands; "unknown" where there is none, or it ended long ago."""
        return self._decide(id, "state")

    def _decide(self, id: str, action: str) -> State:
        values = {"id": checked_id(id), "action": action}
        return State(self.calls.call(OwnKey.END_TRANSACTION, values, repeat=same).state)

    def commit_batch(self, application: str, version: int, ids: Sequence[str]) -> State:
        """Commit prepared transactions together, as what `application` did to reach `version`: "done"."""
        values = {
            "application": checked_application(application),
            "version": checked_version(version),
            "ids": checked_ids(ids),
        }
        return State(self.calls.call(OwnKey.COMMIT_BATCH, values, repeat=same).state)

    def commit_all(self, ids: Sequence[str]) -> State:
        """Commit prepared transactions together, for nobody who would come back: "done"."""
        values = {"application": None, "ids": checked_ids(ids)}
        return State(self.calls.call(OwnKey.COMMIT_BATCH, values, repeat=same).state)

    def abort_prepared(self, prefix: str, before: str | None = None) -> list[str]:
        """Abort every prepared transaction whose id starts with `prefix`, and sorts before `before`; their ids."""
        values = {"action": "abort_prepared", "name": checked_id(prefix), "before": before}
        return list(self.calls.call(OwnKey.RECOVER, values, repeat=same).ids)

    def last_version(self, application: str) -> int | None:
        """The version of the last `commit_batch` of an application; None where there was none, or not for long."""
        values = {"action": "last_version", "name": checked_application(application)}
        version = int(self.calls.call(OwnKey.RECOVER, values, repeat=same).version)
        return None if version == ANY else version

    @property
    def last_failure(self) -> str:
        """Why something that was decided could not be carried out at the broker, the last time; empty for nothing."""
        return str(self.calls.call(OwnKey.RECOVER, {"action": "last_failure"}, repeat=same).failure)

    def recover(self) -> list[Prepared]:
        """Finish what was left, and give the transactions that wait for somebody to decide, the oldest first."""
        found = self.calls.call(OwnKey.RECOVER, {"action": "recover"}, repeat=same).prepared
        return [Prepared(*(getattr(each, name) for name in Prepared._fields)) for each in found]

    def producer(self, name: str) -> RemoteProducer:
        """The producer `name`, which numbers its puts. ProducerBusy while it is open anywhere."""
        return RemoteProducer(self, name)

    # --- Ending ---

    def close(self) -> None:
        """Close what is open at the broker. Closing twice does no harm."""
        self.renewals.stop()
        self.calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RemoteStore {self.calls.address}{' closed' if self.is_closed else ''}>"


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
) -> RemoteStore:
    """A client that has reached its broker; `warren.connect` says the rest."""
    if (user is None) != (password is None) or (user is None and mechanism is not None):
        raise BadInput("give both user and password, or neither")
    login = None if user is None or password is None else Login(user, password, mechanism)
    context = tls_context(tls, ca, certificate, key)
    timeout_s = CLIENT_TIMEOUT_S_DEFAULT if timeout is None else seconds_of(timeout)
    store = RemoteStore(Calls(address, timeout_s=timeout_s, first_wait_s=seconds_of(wait), tls=context, login=login))
    try:
        store.topics()
    except BaseException:
        store.close()
        raise
    return store
