"""RemoteStoreView and RemoteTopicView: the parts of a client's store and topics that its logs, groups and transactions
use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, Unpack

from warren.api.values import FieldOptions

if TYPE_CHECKING:
    import pyarrow

    from warren.client.net.rack_reads import RackReads
    from warren.client.net.session import Calls
    from warren.message import Origin
    from warren.protocol.native_messages import OpenTopicResponse
    from warren.queue.leases.renewal import Renewals
    from warren.storage.format.columns import Batch
    from warren.transaction.states import State

T_co = TypeVar("T_co", covariant=True)


class RemoteStoreView(Protocol[T_co]):
    """A broker's store, whose topics are of type T_co."""

    @property
    def calls(self) -> Calls: ...

    @property
    def reads(self) -> RackReads: ...

    @property
    def renewals(self) -> Renewals: ...

    @property
    def is_closed(self) -> bool: ...

    def topic(self, name: str, partitions: int | None = None, **settings: Any) -> T_co: ...

    def existing_topic(self, name: str) -> T_co: ...

    def has_topic(self, name: str) -> bool: ...

    def commit(self, id: str) -> State: ...

    def abort(self, id: str) -> State: ...

    def transaction_state(self, id: str) -> State: ...


class RemoteTopicView(Protocol):
    """A broker's topic."""

    @property
    def name(self) -> Origin: ...

    @property
    def store(self) -> RemoteStoreView[Self]: ...

    def current_state(self, *, is_described: bool = False) -> OpenTopicResponse: ...

    def partition(self, number: int) -> object: ...

    def find_time(self, time_us: int) -> dict[int, int]: ...

    def put(self, body: bytes, *, partition: int | None = None, **fields: Unpack[FieldOptions]) -> Any: ...

    def append(self, parts: Mapping[int, Batch], tag: str) -> dict[int, int]: ...

    def append_arrow(self, partition: int, batch: pyarrow.RecordBatch) -> int: ...
