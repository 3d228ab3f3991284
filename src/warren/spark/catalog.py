"""The topics of a store as Spark's processes see them: read from the files, without opening the store."""

from __future__ import annotations

import os
import socket

from warren.errors import NoSuchPartition, NoSuchTopic, NotAStore
from warren.queue import store_paths
from warren.queue.json_file import read_json
from warren.queue.names import checked_name
from warren.queue.settings import TopicSettings
from warren.storage import Log
from warren.storage.filesystem import PICKING_FILE_SYSTEM, SYSTEM_FILE_SYSTEM


class Catalog:
    """What there is in a store. Nothing is ever written; every answer is read anew, so topics may come and go.

    NotAStore, naming the host, where the path is not a store on this machine.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        if not os.path.exists(store_paths.store_file(self.path)):
            reason = "has no store.json" if os.path.isdir(self.path) else "is not there"
            raise NotAStore(
                path,
                f"on the host {socket.gethostname()} it {reason}; on a cluster the path must lie on storage that the "
                "driver and every worker share",
            )

    def topics(self) -> list[str]:
        """The names of all topics, sorted."""
        names = SYSTEM_FILE_SYSTEM.names(store_paths.topics_directory(self.path))
        return sorted(name for name in names if os.path.exists(self._file(name)))

    def settings(self, topic: str) -> TopicSettings:
        """The settings of a topic; NoSuchTopic where there is none."""
        path = self._file(checked_name("topic", topic))
        data = read_json(SYSTEM_FILE_SYSTEM, path)
        if data is None:
            raise NoSuchTopic(topic)
        return TopicSettings.from_json(path, data)

    def topic_id(self, topic: str) -> str:
        """What tells a topic from another that had its name before; NoSuchTopic where there is none."""
        data = read_json(SYSTEM_FILE_SYSTEM, self._file(checked_name("topic", topic)))
        if data is None:
            raise NoSuchTopic(topic)
        return str(data.get("id", ""))

    def log(self, topic: str, partition: int) -> Log:
        """The log of a partition, to be read. The caller closes it."""
        count = self.settings(topic).partitions
        if partition not in range(count):
            raise NoSuchPartition(topic, partition, count)
        directory = store_paths.topic_directory(self.path, topic)
        path = store_paths.partition_directory(directory, partition)
        return Log.open(path, read_only=True, topic=topic, partition=partition, filesystem=PICKING_FILE_SYSTEM)

    def _file(self, topic: str) -> str:
        return store_paths.topic_file(store_paths.topic_directory(self.path, topic))
