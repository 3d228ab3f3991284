"""Store: a data directory with its topics, without transactions. `warren.transaction.store` adds those."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterable, Mapping, Set
from types import TracebackType
from typing import Any, Final, Self, Unpack

from warren.api.values import BatchingOptions
from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import (
    GONE,
    BadInput,
    CorruptSettings,
    IsAQueue,
    NoSuchTopic,
    NotAQueue,
    NotAStore,
    ReadOnlyStore,
    StoreClosed,
    UnsupportedByVersion,
    WarrenError,
)
from warren.queue.batching import Batching
from warren.queue.delay.delay_worker import Mover
from warren.queue.leases.renewal import Renewals
from warren.queue.standalone.codec import Codec, codec_of
from warren.queue.standalone.durable_queue import BLOCK_SIZE, DurableQueue
from warren.queue.state import paths
from warren.queue.state.description import TopicDescription
from warren.queue.state.housekeeping import Keeper
from warren.queue.state.identity import find_or_make_id
from warren.queue.state.json_file import read_json, write_json
from warren.queue.state.session import Onlooker, Session
from warren.queue.state.settings import TOPIC_SETTINGS, TopicSettings, checked_name
from warren.queue.state.shared_lock import SharedLock
from warren.queue.state.wakeup import Wakeup
from warren.queue.topic import Topic
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, FileSystem, ReadOnlyFileSystem, remove_tree
from warren.storage.disk.open_files import process_residents

RETENTION_LOOK_S: Final = 30.0
"""How often the store checks whether blocks can be retired."""

TOPIC_KIND: Final = "topic"
QUEUE_KIND: Final = "queue"
"""The kind in `topic.json` of a durable queue's topic. A topic never changes its kind."""


class Store:
    """A data directory. Any number of processes may have it open at the same time, and any thread may use it.

    `defaults` are settings for topics that this object creates. With `keeps`, a thread of this process delivers delayed
    messages and retires old ones. Without it, that happens when `keep()` is called.

    A store that is opened with `read_only` changes nothing, and may lie in a directory that this process can only read.
    A call that would change something raises ReadOnlyStore.
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
        TOPIC_SETTINGS.check_names(self._defaults)
        TopicSettings(**self._defaults)
        self._mutex = threading.RLock()
        self._topics: dict[str, Topic] = {}
        self.is_closed = False
        if read_only or not create:
            self._require()
        self.lock = self._found_lock()
        with self.lock:
            self.id = find_or_make_id(filesystem, self.path, is_read_only=read_only)
        self.session = (Onlooker if read_only else Session)(filesystem, paths.sessions_directory(self.path))
        if not read_only:
            self._begin_duties(keeps)
        process_residents().register(self)

    def _begin_duties(self, keeps: bool) -> None:
        """Starts the work that all openings of the store share: retention, delivery and the renewal of leases."""
        filesystem, clock = self.filesystem, self.clock
        self.session.sweep()
        self.wakeup = Wakeup(filesystem, paths.wakeup_file(self.path), clock)
        self.keeper = Keeper(self.wakeup, clock, threaded=keeps)
        self.renewals = Renewals(clock, threaded=keeps)
        self.keeper.add(self._retire, listens=False)
        self.mover = Mover(self)
        self.keeper.add(self.mover.run)

    def _require(self) -> None:
        """Raises NotAStore, with a description of the path, if the directory is not a store."""
        if not self.filesystem.exists(self.path):
            raise NotAStore(self.path, "there is no such directory")
        if not self.filesystem.exists(paths.store_file(self.path)):
            other = "it is another directory, without a store.json"
            raise NotAStore(self.path, other if os.path.isdir(self.path) else "it is a file")

    def _found_lock(self) -> SharedLock:
        if not self.filesystem.exists(self.path):
            self.filesystem.make_directory(self.path, is_private=True)
        try:
            names = self.filesystem.names(self.path)
        except NotADirectoryError as error:
            raise NotAStore(self.path, "it is a file; a store is a directory") from error
        # After a power cut during the creation of the store, only one of these may exist.
        own_names = {"topics", "store.json.new", "store.json", "store.lock"}
        if self.is_replicated:
            own_names.add("replication")
        if names and not own_names & set(names):
            raise NotAStore(self.path, f"the directory contains other files, such as {names[0]!r}")
        return SharedLock(self.filesystem, paths.store_lock(self.path), self.clock)

    @property
    def is_replicated(self) -> bool:
        """Whether this process is the master of a store that has slaves."""
        return self.filesystem.shipping is not None

    @property
    def life(self) -> str:
        """What is new if unsynced data may have been lost: another start of the machine, or another master."""
        shipping, boot = self.filesystem.shipping, self.filesystem.boot_id().hex()
        return boot if shipping is None else f"{boot}.{shipping.epoch}"

    def check_open(self) -> None:
        """Raises StoreClosed if the store is closed."""
        if self.is_closed:
            raise StoreClosed(self.path)

    def check_writable(self) -> None:
        """Raises StoreClosed if the store is closed, and ReadOnlyStore if it was opened for reading only."""
        self.check_open()
        if self.is_read_only:
            raise ReadOnlyStore(self.path)

    # --- Topics ---

    def topic(self, name: str, partitions: int | None = None, **settings: Any) -> Topic:
        """Returns the topic `name`. Creates it if it does not exist, with one partition if `partitions` is None.

        Raises SettingsDiffer if the topic exists with settings other than those given.
        """
        self.check_open()
        # The common call is for a topic that is open. It costs one check on disk, because another process may have
        # deleted the topic. A name that cannot be a key, from a caller without type checks, is refused by `_topic` like
        # other bad names.
        topic = self._topics.get(name) if isinstance(name, str) else None  # type: ignore[redundant-expr]
        if topic is not None and partitions is None and not settings and self.filesystem.exists(topic.file):
            return topic
        return self._topic(name, partitions, settings, TOPIC_KIND)

    def _topic(self, name: str, partitions: int | None, settings: Mapping[str, Any], kind: str) -> Topic:
        """Returns the topic `name`, and creates it with this kind if it does not exist."""
        self.check_open()
        checked_name("topic", name)
        TOPIC_SETTINGS.check_names(settings)
        with self._mutex:
            topic = self._topics.get(name)
            if topic is None or not self.has_topic(name):
                with self.lock:
                    if self._read_settings(name) is None:
                        new = self.new_settings(partitions, settings)
                        self._check_dead_letter(new)
                        self._make_topic(name, new, kind)
                    topic = self._open_topic(name)
            topic.differs(partitions, settings)
            return topic

    def _open_topic(self, name: str) -> Topic:
        """Opens the topic `name`. Raises NoSuchTopic if it does not exist. The caller holds the mutex and the lock."""
        settings = self._read_settings(name)
        if settings is None:
            raise NoSuchTopic(name)
        is_queue = self._read_kind(name) == QUEUE_KIND
        old = self._topics.pop(name, None)
        if old is not None:
            old.close()
        topic = self._topics[name] = Topic(self, name, settings, is_queue=is_queue)
        return topic

    def new_settings(self, partitions: int | None, settings: Mapping[str, Any]) -> TopicSettings:
        """Returns the settings that a new topic would get from these. Raises BadInput if they are not valid.

        Raises UnsupportedByVersion if the store is replicated and the format cannot be.
        """
        TOPIC_SETTINGS.check_names(settings)
        own = {"partitions": partitions} if partitions is not None else {}
        made = TopicSettings(**{**self._defaults, **settings, **own})
        if self.is_replicated and not made.format.has_meta_data:
            # Its records have no checksums that a slave could check.
            raise UnsupportedByVersion("replication", made.version)
        return made

    def note_owner(self, name: str, owner: str) -> None:
        """Stores which user of a broker created the topic. Later calls change nothing."""
        path = paths.topic_file(paths.topic_directory(self.path, name))
        with self.lock:
            data = read_json(self.filesystem, path)
            if data is not None and "owner" not in data:
                write_json(self.filesystem, path, {**data, "owner": owner})

    def _read_kind(self, name: str) -> str:
        """Returns the kind of the topic. Raises CorruptSettings for a kind that this release does not support."""
        path = paths.topic_file(paths.topic_directory(self.path, name))
        kind = str((read_json(self.filesystem, path) or {}).get("kind", TOPIC_KIND))
        if kind not in (TOPIC_KIND, QUEUE_KIND):
            raise CorruptSettings(path, f"this release does not support the kind {kind!r}")
        return kind

    def _check_dead_letter(self, settings: TopicSettings) -> None:
        """Raises IsAQueue if dead letters would go into the topic of a durable queue."""
        if settings.dead_letter and self._read_kind(settings.dead_letter) == QUEUE_KIND:
            raise IsAQueue(settings.dead_letter)

    def _make_topic(self, name: str, settings: TopicSettings, kind: str) -> None:
        directory = paths.topic_directory(self.path, name)
        # Removes the rest of a deletion that was interrupted.
        remove_tree(self.filesystem, directory)
        self.filesystem.make_directory(directory)
        now_us = self.clock.now_ns() // 1000
        data = {**settings.to_json(), "kind": kind, "id": str(uuid.uuid4()), "created": now_us}
        write_json(self.filesystem, paths.topic_file(directory), data)

    def _read_settings(self, name: str) -> TopicSettings | None:
        path = paths.topic_file(paths.topic_directory(self.path, name))
        data = read_json(self.filesystem, path)
        return None if data is None else TopicSettings.from_json(path, data)

    def has_topic(self, name: str) -> bool:
        """Returns whether the topic exists."""
        self.check_open()
        path = paths.topic_file(paths.topic_directory(self.path, checked_name("topic", name)))
        return self.filesystem.exists(path)

    def topics(self) -> list[str]:
        """Returns the names of all topics, sorted."""
        self.check_open()
        names = self.filesystem.names(paths.topics_directory(self.path))
        return [name for name in names if self.has_topic(name)]

    def existing_topic(self, name: str) -> Topic:
        """Returns the topic `name`. Raises NoSuchTopic if it does not exist."""
        if not self.has_topic(name):
            raise NoSuchTopic(name)
        # Without the mutex, because a thread that creates or deletes a topic of many partitions holds it for seconds.
        topic = self._topics.get(name)
        if topic is not None:
            return topic
        with self._mutex, self.lock:
            # Never makes the topic: another process may have deleted it since the check above.
            return self._topics.get(name) or self._open_topic(name)

    def opened_topic(self, name: str) -> Topic | None:
        """Returns the topic if this process has it open, even if another process deleted it; otherwise None."""
        return self._topics.get(name)

    def describe(self, name: str) -> TopicDescription:
        """Returns the settings, partitions and groups of a topic. Raises NoSuchTopic if it does not exist."""
        return self.existing_topic(name).describe()

    def configure_topic(self, name: str, changes: Mapping[str, Any]) -> TopicSettings:
        """Changes settings of a topic, and returns the new ones. Raises NoSuchTopic if it does not exist."""
        self.check_writable()
        checked_name("topic", name)
        with self._mutex:
            with self.lock:
                settings = self._read_settings(name)
                if settings is None:
                    raise NoSuchTopic(name)
                path = paths.topic_file(paths.topic_directory(self.path, name))
                changed = settings.changed(changes)
                self._check_dead_letter(changed)
                write_json(self.filesystem, path, {**(read_json(self.filesystem, path) or {}), **changed.to_json()})
            topic = self._topics.get(name)
            if topic is not None:
                topic.take_settings(changed)
        self.wakeup.ring()
        return changed

    def refresh_topic(self, topic: Topic) -> None:
        """Applies the settings that the topic has on disk."""
        self.check_open()
        with self._mutex:
            settings = self._read_settings(topic.name)
            if settings is None:
                raise NoSuchTopic(topic.name)
            if settings != topic.settings:
                topic.take_settings(settings)

    def delete_topic(self, name: str) -> None:
        """Deletes a topic with its messages, groups and delayed messages, for every process."""
        self.check_writable()
        topic = self.existing_topic(name)
        with self._mutex, self.lock:
            parkings = topic.delay.parkings()
            # From here on the topic does not exist, even if some of its files still do.
            self.filesystem.remove(paths.topic_file(topic.directory))
            self.filesystem.sync_directory(topic.directory)
            del self._topics[name]
            for log in topic.logs:
                log.remove()
            # The mover holds this lock during a delivery, so no delivery runs here.
            with topic.delay.lock:
                for parking in parkings:
                    parking.log.remove()
                remove_tree(self.filesystem, topic.directory)
                # A process that waits for the lock then sees that the topic was deleted.
                topic.delay.lock.close()
            # Once more, for file systems that keep the names of open files: the lock file and the maps are closed by
            # now.
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
        """Returns the durable queue `name`, which has the methods of `queue.Queue` and is shared by processes.

        It is stored in a topic of the same name with one partition. The space of taken items is freed. Only queues put
        into such a topic. Raises NotAQueue if `name` is an ordinary topic.

        `codec` says how items become bytes: "json", "bytes" or "pickle", or an object with `dumps` and `loads`. Reading
        a pickle runs code that its writer chose: use it only if you trust everyone who can open the queue.
        """
        checked_codec = codec_of(codec)
        self.check_writable()
        if settings.get("partitions", 1) != 1:
            # Checked before the topic is created: a topic with more partitions cannot be a queue.
            raise BadInput(f"partitions {settings['partitions']!r}: expected 1 for a queue")
        if not self.has_topic(name):
            settings = {"retention_consumed": True, "block_size": BLOCK_SIZE, "partitions": 1, **settings}
        topic = self._topic(name, None, settings, QUEUE_KIND)
        if not topic.is_queue:
            raise NotAQueue(name)
        return DurableQueue(topic, maxsize, checked_codec)

    def batching(self, **options: Unpack[BatchingOptions]) -> Batching:
        """Returns an object that gathers puts and writes them together in the background. Each put has a future."""
        self.check_open()
        return Batching(self, **options)

    # --- For transactions, which `warren.transaction.store` adds ---

    def settle(self) -> None:
        """Finishes the committed transactions of dead sessions. Called without a lock, before their leases are freed.

        This store has no transactions, so there is nothing to do.
        """

    def undecided(self, topic: str, group: str) -> Set[int]:
        """Returns the partitions in which the position of a group depends on an undecided transaction: none here."""
        return frozenset()

    # --- Keeping house ---

    def keep(self) -> float:
        """Does the work that is due. Returns after how many seconds there is more to do."""
        self.check_writable()
        return min(self.renewals.run(), self.keeper.keep())

    def _retire(self) -> float:
        names = self.topics()
        self._forget_deleted(names)
        failure: Exception | None = None
        for name in names:
            try:
                self._retire_topic(name)
            except (WarrenError, OSError) as error:
                # One topic that cannot be read must not keep the others from freeing their space.
                failure = failure or error
        if failure is not None:
            raise failure
        return RETENTION_LOOK_S

    def _retire_topic(self, name: str) -> None:
        settings = self._read_settings(name)
        rules = settings and (settings.retention_age_s, settings.retention_bytes, settings.retention_consumed)
        if rules and any(rules):
            try:
                # Not `topic`, which would make the topic again if another process deleted it just now.
                self.existing_topic(name).retire()
            except (NoSuchTopic, *GONE):
                # Only a deletion explains the error. If the topic still exists, it is damaged.
                if self.has_topic(name):
                    raise

    def _forget_deleted(self, names: Iterable[str]) -> None:
        """Closes topics that other processes deleted.

        Their disk space is free once all processes have closed their files.
        """
        for name in set(self._topics).difference(names):
            with self._mutex:
                # A topic that was created in the meantime is not in the list.
                if not self.has_topic(name):
                    self._topics.pop(name, None)

    def close(self) -> None:
        """Closes all topics. A second call does nothing."""
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

    # --- As a resident of the process: called after a fork, has no files to close ---

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
