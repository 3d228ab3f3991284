"""BrokerView: the parts of the broker that a check of rights uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Set

    from warren.broker.security.peer import Peer, Requester
    from warren.broker.security.rights import Rights
    from warren.broker.settings import BrokerSettings
    from warren.queue.topic import Topic
    from warren.transaction.store import Store


class HandleNames(NamedTuple):
    """The names behind a handle of a client, each empty if there is none. Every call checks the rights to them.

    `id` is the name that the client gave a transaction or a producer.
    """

    topic: str = ""
    group: str = ""
    id: str = ""


NO_NAMES: Final = HandleNames()


class TopicNames(Protocol):
    """Finds topics by name or id."""

    def find(self, name: str) -> Topic:
        """Returns the topic. Raises NoSuchTopic if it does not exist."""

    def find_by_id(self, topic_id: bytes) -> Topic:
        """Returns the topic with this id. Raises NoSuchTopic if it does not exist."""


class TopicMaker(Protocol):
    """Makes topics within the quotas of the user."""

    async def make(
        self,
        requester: Requester,
        name: str,
        partitions: int | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        is_strict: bool = True,
    ) -> Topic:
        """Returns the topic, created if it does not exist."""


class ClassicGroupView(Protocol):
    """The part of a classic consumer group that the checks of rights use."""

    @property
    def protocol_type(self) -> str | None: ...

    @property
    def topics(self) -> Set[str]: ...


class ClassicGroups(Protocol):
    """Finds classic consumer groups."""

    def find_classic(self, name: str) -> ClassicGroupView | None:
        """Returns the group. None if there is no classic group of this name."""


class Handles(Protocol):
    """Knows which objects the clients of Warren's own protocol have open."""

    def names(self, peer: Peer, handle: int) -> HandleNames:
        """Returns the names behind a handle of this connection; NO_NAMES if nothing is open by it."""


class DenialLog(Protocol):
    """A log of denied requests, which limits how often it writes."""

    def tell(self, message: str, *values: object) -> None: ...


class BrokerView(Protocol):
    """The parts of a broker that a check of rights uses."""

    @property
    def store(self) -> Store: ...

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def rights(self) -> Rights | None: ...

    @property
    def denials(self) -> DenialLog: ...

    @property
    def topics(self) -> TopicNames: ...

    @property
    def allotment(self) -> TopicMaker: ...

    @property
    def coordinator(self) -> ClassicGroups: ...

    @property
    def sessions(self) -> Handles: ...

    async def opened_topic(self, name: str) -> Topic: ...

    def client_message(self, whom: object, error: BaseException | str) -> str: ...
