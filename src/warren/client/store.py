"""RemoteStore: a store behind a broker; what `warren.connect` gives."""

from __future__ import annotations

import itertools
import ssl
import threading
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from warren.client.calls import Calls, same
from warren.client.topic import RemoteTopic
from warren.config import CLIENT_TIMEOUT_S_DEFAULT
from warren.errors import NoSuchTopic
from warren.protocol.own_api import setting_values, settings_of
from warren.protocol.own_schemas import OwnKey
from warren.queue.description import TopicDescription
from warren.queue.names import checked_name
from warren.queue.settings import TopicSettings, check_known


class RemoteStore:
    """A store behind a broker, with the methods of one that is here. Any thread may use it.

    What it has open at the broker, groups and transactions among it, is closed with it, and when its connections end.
    """

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self._mutex = threading.Lock()
        self._topics: dict[str, RemoteTopic] = {}
        self._marker, self._puts = uuid4().bytes[:8], itertools.count(1)

    def new_marker(self) -> bytes:
        """Bytes that no other put has."""
        return self._marker + next(self._puts).to_bytes(8, "big")

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

    # --- Ending ---

    def close(self) -> None:
        """Close what is open at the broker. Closing twice does no harm."""
        self.calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<RemoteStore {self.calls.address}{' closed' if self.is_closed else ''}>"


def connect_to(
    address: str, timeout_s: float | None, tls: ssl.SSLContext | bool | None, user: str | None, password: str | None
) -> RemoteStore:
    """A client that has reached its broker; what `warren.connect` does."""
    context = ssl.create_default_context() if tls is True else tls or None
    timeout_s = CLIENT_TIMEOUT_S_DEFAULT if timeout_s is None else timeout_s
    store = RemoteStore(Calls(address, timeout_s=timeout_s, tls=context, user=user, password=password))
    try:
        store.topics()
    except BaseException:
        store.close()
        raise
    return store
