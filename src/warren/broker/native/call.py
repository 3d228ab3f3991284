"""Call: a request of Warren's own protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from warren.broker.net.request import ServedCall, Services

if TYPE_CHECKING:
    from warren.broker.native.append_tries import Appends
    from warren.broker.native.poll_sharing import PollSharing
    from warren.broker.native.sessions import Sessions
    from warren.broker.services.kept_memory import KeptMemory
    from warren.transaction.transaction import Transaction


class NativeServices(Services, Protocol):
    """The services of every handler, and those for clients of Warren's own protocol."""

    @property
    def sessions(self) -> Sessions: ...

    @property
    def appends(self) -> Appends: ...

    @property
    def poll_sharing(self) -> PollSharing: ...

    @property
    def transaction_memory(self) -> KeptMemory[Transaction]: ...


Call = ServedCall[NativeServices]
