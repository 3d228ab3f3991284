"""Store: a data directory with its topics. What `warren.open` gives, but for transactions."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Set
from types import TracebackType
from typing import Any, Final, Self, Unpack

from warren.clock import SYSTEM_CLOCK, Clock
from warren.config import RETENTION_LOOK_S
from warren.errors import (
    BadInput,
    CorruptSettings,
    IsAQueue,
    NoSuchTopic,
    NotAQueue,
    NotAStore,
    ReadOnlyStore,
    StoreClosed,
)
from warren.queue import store_paths
from warren.queue.batching import Batching, BatchingOptions
from warren.queue.codec import Codec, codec_of
from warren.queue.description import TopicDescription
from warren.queue.durable_queue import BLOCK_SIZE, DurableQueue
from warren.queue.identity import find_or_make_id
from warren.queue.json_file import read_json, write_json
from warren.queue.keeper import Keeper
from warren.queue.mover import Mover
from warren.queue.names import checked_name
from warren.queue.renewal import Renewals
from warren.queue.session import Onlooker, Session
from warren.queue.settings import TopicSettings, check_known
from warren.queue.shared_lock import SharedLock
from warren.queue.topic import Topic
from warren.queue.wakeup import Wakeup
from warren.storage.filesystem import SYSTEM_FILE_SYSTEM, FileSystem, ReadOnlyFileSystem, remove_tree
from warren.storage.residents import process_residents

TOPIC_KIND: Final = "topic"
QUEUE_KIND: Final = "queue"
"""What `topic.json` says of the topic of a durable queue. A topic keeps its kind for good."""


class Store:
    """A data directory. Any number of processes may have it open at once, and any thread may use it.

    `defaults` are settings for topics that are made through this opening. With `keeps` a thread of this process
    delivers what is due and retires what is old; without, `keep()` does when it is called.

    Opened with `read_only` it changes nothing, and works in a directory that this process may only read; what would
    change something raises ReadOnlyStore.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        defaults: Mapping[str, Any] | None = None,
        keeps: bool = True,
        create: bool = True,
        read_only: bool = False,
        filesystem: FileSystem = SYSTEM_FILE_SYSTEM,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.is_read_only, self.clock = read_only, clock
        self.filesystem = filesystem = ReadOnlyFileSystem(filesystem, self.path) if read_only else filesystem
        self._defaults = dict(defaults or {})
        check_known(self._defaults)
        TopicSettings(**self._defaults)
        self._mutex = threading.RLock()
        self._topics: dict[str, Topic] = {}
        self.is_closed = False
        self.undecided: Callable[[str, str], Set[int]] = _none_undecided
        """The partitions of a topic in which the position of a group depends on a transaction that nobody decided."""
        self.settle: Callable[[], None] = _nothing
        """Finishes what sessions that died had committed: called, without any lock, before what they held is freed."""
        if read_only or not create:
            self._require()
        self.lock = self._found_lock()
        with self.lock:
            self.id = find_or_make_id(filesystem, self.path)
        self.session = (Onlooker if read_only else Session)(filesystem, store_paths.sessions_directory(self.path))
        if not read_only:
            self._begin_duties(keeps)
        process_residents().register(self)

    def _begin_duties(self, keeps: bool) -> None:
        """From now on this opening takes its part in what all of them do together."""
        filesystem, clock = self.filesystem, self.clock
        self.session.sweep()
        self.wakeup = Wakeup(filesystem, store_paths.wakeup_file(self.path), clock)
        self.keeper = Keeper(self.wakeup, clock, threaded=keeps)
        self.renewals = Renewals(clock, threaded=keeps)
        self.keeper.add(self._retire, listens=False)
        self.mover = Mover(self)
        self.keeper.add(self.mover.run)

    def _require(self) -> None:
        """Raises NotAStore, which says what is there instead, if there is no store."""
        if not self.filesystem.exists(self.path):
            raise NotAStore(self.path, "there is no such directory")
        if not self.filesystem.exists(store_paths.store_file(self.path)):
            other = "it is another directory, without a store.json"
            raise NotAStore(self.path, other if os.path.isdir(self.path) else "it is a file")

    def _found_lock(self) -> SharedLock:
        if not self.filesystem.exists(self.path):
            self.filesystem.make_directory(self.path, is_private=True)
        try:
            names = self.filesystem.names(self.path)
        except NotADirectoryError as error:
            raise NotAStore(self.path, "it is a file; a store is a directory") from error
        # A store that lost its power while it was made may have no more than one of these.
        if names and not {"topics", "store.json.new", "store.json", "store.lock"} & set(names):
            raise NotAStore(self.path, f"the directory holds other files, such as {names[0]!r}")
        return SharedLock(self.filesystem, store_paths.store_lock(self.path), self.clock)

    def check_open(self) -> None:
        """StoreClosed where it was closed."""
        if self.is_closed:
            raise StoreClosed(self.path)

    def check_writable(self) -> None:
        """Raises StoreClosed if the store was closed, and ReadOnlyStore if it was opened for reading alone."""
        self.check_open()
        if self.is_read_only:
            raise ReadOnlyStore(self.path)

    # --- Topics ---

    def topic(self, name: str, partitions: int | None = None, **settings: Any) -> Topic:
        """The topic `name`, made where there is none: with one partition, if nothing else is said.

        SettingsDiffer where it is there and has other settings than those given.
        """
        return self._topic(name, partitions, settings, TOPIC_KIND)

    def _topic(self, name: str, partitions: int | None, settings: Mapping[str, Any], kind: str) -> Topic:
        """The topic `name`, made as one of this kind if there is none."""
        self.check_open()
        checked_name("topic", name)
        check_known(settings)
        with self._mutex:
            topic = self._topics.get(name)
            if topic is None or not self.has_topic(name):
                topic = self._open_topic(name, partitions, settings, kind)
            topic.differs(partitions, settings)
            return topic

    def _open_topic(self, name: str, partitions: int | None, settings: Mapping[str, Any], kind: str) -> Topic:
        with self.lock:
            kept = self._read_settings(name)
            if kept is None:
                kept = self.new_settings(partitions, settings)
                self._check_dead_letter(kept)
                self._make_topic(name, kept, kind)
            is_queue = self._read_kind(name) == QUEUE_KIND
        old = self._topics.pop(name, None)
        if old is not None:
            old.close()
        topic = self._topics[name] = Topic(self, name, kept, is_queue=is_queue)
        return topic

    def new_settings(self, partitions: int | None, settings: Mapping[str, Any]) -> TopicSettings:
        """The settings that a topic would have that is made with these. Raises BadInput if there is no such topic."""
        check_known(settings)
        wanted = {"partitions": partitions} if partitions is not None else {}
        return TopicSettings(**{**self._defaults, **settings, **wanted})

    def note_owner(self, name: str, owner: str) -> None:
        """Notes which user of a broker made the topic. The first one counts."""
        path = store_paths.topic_file(store_paths.topic_directory(self.path, name))
        with self.lock:
            data = read_json(self.filesystem, path)
            if data is not None and "owner" not in data:
                write_json(self.filesystem, path, {**data, "owner": owner})

    def _read_kind(self, name: str) -> str:
        """What the topic was made as. Raises CorruptSettings for a kind that this release does not know."""
        path = store_paths.topic_file(store_paths.topic_directory(self.path, name))
        kind = str((read_json(self.filesystem, path) or {}).get("kind", TOPIC_KIND))
        if kind not in (TOPIC_KIND, QUEUE_KIND):
            raise CorruptSettings(path, f"kind {kind!r} is not known to this release")
        return kind

    def _check_dead_letter(self, settings: TopicSettings) -> None:
        """Raises IsAQueue if dead letters would go into a queue."""
        if settings.dead_letter and self._read_kind(settings.dead_letter) == QUEUE_KIND:
            raise IsAQueue(settings.dead_letter)

    def _make_topic(self, name: str, settings: TopicSettings, kind: str) -> None:
        directory = store_paths.topic_directory(self.path, name)
        # What a deletion left that was cut short.
        remove_tree(self.filesystem, directory)
        self.filesystem.make_directory(directory)
        now_us = self.clock.now_ns() // 1000
        data = {**settings.to_json(), "kind": kind, "id": str(uuid.uuid4()), "created": now_us}
        write_json(self.filesystem, store_paths.topic_file(directory), data)

    def _read_settings(self, name: str) -> TopicSettings | None:
        path = store_paths.topic_file(store_paths.topic_directory(self.path, name))
        data = read_json(self.filesystem, path)
        return None if data is None else TopicSettings.from_json(path, data)

    def has_topic(self, name: str) -> bool:
        """Whether there is a topic of this name."""
        self.check_open()
        path = store_paths.topic_file(store_paths.topic_directory(self.path, checked_name("topic", name)))
        return self.filesystem.exists(path)

    def topics(self) -> list[str]:
        """The names of all topics, sorted."""
        self.check_open()
        names = self.filesystem.names(store_paths.topics_directory(self.path))
        return [name for name in names if self.has_topic(name)]

    def existing_topic(self, name: str) -> Topic:
        """The topic `name`; NoSuchTopic where there is none."""
        if not self.has_topic(name):
            raise NoSuchTopic(name)
        # Without the mutex: a thread that makes or deletes a topic of many partitions holds it for seconds.
        topic = self._topics.get(name)
        return self.topic(name) if topic is None else topic

    def opened_topic(self, name: str) -> Topic | None:
        """The topic `name` as this process has it open, whatever others did to it; None where it has not."""
        return self._topics.get(name)

    def describe(self, name: str) -> TopicDescription:
        """What there is to know of a topic; NoSuchTopic where there is none."""
        return self.existing_topic(name).describe()

    def configure_topic(self, name: str, changes: Mapping[str, Any]) -> TopicSettings:
        """Change settings of a topic; the settings it has now."""
        self.check_writable()
        checked_name("topic", name)
        with self._mutex:
            with self.lock:
                kept = self._read_settings(name)
                if kept is None:
                    raise NoSuchTopic(name)
                path = store_paths.topic_file(store_paths.topic_directory(self.path, name))
                changed = kept.changed(changes)
                self._check_dead_letter(changed)
                write_json(self.filesystem, path, {**(read_json(self.filesystem, path) or {}), **changed.to_json()})
            topic = self._topics.get(name)
            if topic is not None:
                topic.take_settings(changed)
        self.wakeup.ring()
        return changed

    def refresh_topic(self, topic: Topic) -> None:
        """Take the settings that the topic has now."""
        self.check_open()
        with self._mutex:
            settings = self._read_settings(topic.name)
            if settings is None:
                raise NoSuchTopic(topic.name)
            if settings != topic.settings:
                topic.take_settings(settings)

    def delete_topic(self, name: str) -> None:
        """Remove a topic with its messages, groups and what is parked for it, for every process."""
        self.check_writable()
        topic = self.existing_topic(name)
        with self._mutex, self.lock:
            parkings = topic.delay.parkings()
            # From here on there is no such topic, whatever of its files is still there.
            self.filesystem.remove(store_paths.topic_file(topic.directory))
            self.filesystem.sync_directory(topic.directory)
            del self._topics[name]
            for log in topic.logs:
                log.remove()
            # The mover is not in the middle of a delivery while it holds no lock.
            with topic.delay.lock:
                for parking in parkings:
                    parking.log.remove()
                remove_tree(self.filesystem, topic.directory)
                # Whoever still wants it finds that it is gone.
                topic.delay.lock.close()
            # Once more for file systems that keep the names of open files: that of the lock, and maps, are closed now.
            remove_tree(self.filesystem, topic.directory)
        self.wakeup.ring()

    def queue(
        self,
        name: str,
        maxsize: int = 0,
        *,
        codec: str | Codec = "json",
        **settings: Any,
    ) -> DurableQueue[Any]:
        """The durable queue `name`, with the methods of `queue.Queue`, for all processes that have the store open.

        It is a topic of the same name with one partition, which gives back the space of what was taken. The topic is
        marked as a queue's: nothing but a queue puts into it. Raises NotAQueue if `name` is an ordinary topic.

        `codec` says how items become bytes: "json", "bytes" or "pickle", or an object with `dumps` and `loads`. Reading
        a pickle runs code that its writer chose: use it only if you trust everyone who can open the queue.
        """
        found = codec_of(codec)
        self.check_writable()
        if settings.get("partitions", 1) != 1:
            # Before the topic is made: it would be no queue, and its partitions would be counted as one.
            raise BadInput(f"partitions {settings['partitions']!r}: a queue has 1 partition")
        if not self.has_topic(name):
            settings = {"retention_consumed": True, "block_size": BLOCK_SIZE, "partitions": 1, **settings}
        topic = self._topic(name, None, settings, QUEUE_KIND)
        if not topic.is_queue:
            raise NotAQueue(name)
        return DurableQueue(topic, maxsize, found)

    def batching(self, **options: Unpack[BatchingOptions]) -> Batching:
        """Puts that are gathered and written together in the background, each with a future of its own."""
        self.check_open()
        return Batching(self, **options)

    # --- Keeping house ---

    def keep(self) -> float:
        """Do what is due now; after how many seconds there is more to do."""
        self.check_writable()
        return min(self.renewals.run(), self.keeper.keep())

    def _retire(self) -> float:
        names = self.topics()
        self._forget_deleted(names)
        for name in names:
            settings = self._read_settings(name)
            rules = settings and (settings.retention_age_s, settings.retention_bytes, settings.retention_consumed)
            if rules and any(rules):
                self.topic(name).retire()
        return RETENTION_LOOK_S

    def _forget_deleted(self, names: Iterable[str]) -> None:
        """Let go of topics that others deleted: their space is free when nobody has their files open."""
        for name in set(self._topics).difference(names):
            with self._mutex:
                # One that was made meanwhile is not in the list.
                if not self.has_topic(name):
                    self._topics.pop(name, None)

    def close(self) -> None:
        """Close all topics. Closing twice does no harm."""
        if self.is_closed:
            return
        if not self.is_read_only:
            self.renewals.stop()
            self.keeper.stop()
            self.mover.stop()
        with self._mutex:
            self.is_closed = True
            for topic in self._topics.values():
                topic.close()
            self._topics.clear()
            self.session.close()
            self.lock.close()
            if not self.is_read_only:
                self.wakeup.close()

    # --- As a resident of the process: told when it forks, asked for no files ---

    file_count = 0

    def rest(self) -> bool:
        return False

    def after_fork(self) -> None:
        self._mutex = threading.RLock()
        if not self.is_closed:
            self.lock.after_fork()
            self.session.after_fork()
            if not self.is_read_only:
                self.mover.after_fork()
            for topic in self._topics.values():
                topic.delay.after_fork()
            if not self.is_read_only:
                self.keeper.after_fork()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.path}{' closed' if self.is_closed else ''}>"


def _none_undecided(topic: str, group: str) -> Set[int]:
    """Where there are no transactions, none waits to be decided."""
    return frozenset()


def _nothing() -> None:
    """Where there are no transactions, nothing is left to finish."""
