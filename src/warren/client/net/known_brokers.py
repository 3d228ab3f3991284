"""KnownBrokers: the addresses that a client was given, and how it finds the broker that leads."""

from __future__ import annotations

from collections.abc import Callable

from warren.client.net.connection import Connection, parse_address
from warren.errors import ConnectionLost, NotMaster


class KnownBrokers:
    """The brokers of a client. The one that leads is the last one that took a connection, or one that a broker named.

    A client of a cluster needs only one address that lives. The connections to a replica that a client reads from
    follow no master: `addresses` is that of the replica, and only that is tried.
    """

    def __init__(self, addresses: str, *, follows_master: bool = True) -> None:
        self._addresses = [each.strip() for each in addresses.split(",")]
        for each in self._addresses:
            parse_address(each)
        self._follows_master = follows_master
        self.leader = self._addresses[0]
        """The address of the broker that led last."""
        self._hint = ""
        """The address of the master, as the last broker named it that does not lead."""
        self._silent: set[str] = set()
        """The addresses that gave no answer in time when they were asked last."""

    @property
    def is_one(self) -> bool:
        """Whether no other broker can be asked."""
        return len(self._addresses) == 1 and self._follows_master

    def note_leader(self, address: str) -> None:
        """A broker that does not lead named this one, or none."""
        if self._follows_master:
            self._hint = address or self._hint

    def note_failure(self, address: str, error: Exception) -> None:
        """A broker lost a connection. If it gave no answer in time, others are asked before it."""
        if isinstance(error.__cause__, TimeoutError) and not self.is_one:
            self._silent.add(address)

    def connect(self, open_at: Callable[[str], Connection]) -> Connection:
        """Returns a new connection to the master, made by `open_at`. Tries all addresses, and those that brokers name.

        An address that was silent comes last. It is not tried if another broker answers and does not name it, because
        each try may take CLIENT_SILENT_S_MAX, in which another broker takes the lead.
        """
        hint, self._hint = self._hint, ""
        named = {hint}
        waiting = [each for each in (hint,) if each]
        waiting += sorted((self.leader, *self._addresses), key=lambda each: each in self._silent)
        tried: set[str] = set()
        failure: NotMaster | ConnectionLost | None = None
        while waiting:
            address = waiting.pop(0)
            is_left_out = address in self._silent and address not in named and isinstance(failure, NotMaster)
            if address in tried or is_left_out:
                continue
            tried.add(address)
            try:
                connection = open_at(address)
            except NotMaster as error:
                failure = error
                if error.address and self._follows_master:
                    named.add(error.address)
                    waiting.insert(0, error.address)
            except ConnectionLost as error:
                self.note_failure(address, error)
                failure = failure or error
            else:
                self.leader = address
                self._silent.discard(address)
                return connection
        assert failure is not None
        raise failure
