"""The status of a ZooKeeper server: its answer to `srvr`, the only command that shows whether it serves.

A server answers `ruok` with `imok` as soon as it listens, even if it will never serve because it has no quorum, or
because a jar is missing. Only the line `Mode:` of `srvr` shows that it serves.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final

from warren.clock import SYSTEM_CLOCK
from warren.registry.addresses import Address

STATUS_S_DEFAULT: Final = 3.0
"""How long a server may take to show its status."""
STATUS_SIZE_MAX: Final = 64 * 1024
"""The largest answer to a question for the status that is read."""

QUESTION: Final = b"srvr"
FORBIDDEN: Final = "not in the whitelist"
NOT_SERVING: Final = "it answers, but does not serve: it has no quorum, or is still starting"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """The report of a server about itself. `mode` is empty unless it serves; then `reason` says why it does not."""

    address: Address
    mode: str = ""
    version: str = ""
    connections: int | None = None
    nodes: int | None = None
    reason: str = ""

    @property
    def is_serving(self) -> bool:
        """Returns whether it serves clients."""
        return bool(self.mode)

    def to_json(self) -> dict[str, Any]:
        """Returns the status as a JSON object."""
        return {
            "address": str(self.address),
            "serving": self.is_serving,
            "mode": self.mode or None,
            "version": self.version or None,
            "connections": self.connections,
            "nodes": self.nodes,
            "reason": self.reason or None,
        }


def ask_status(
    address: Address, context: ssl.SSLContext | None = None, within_s: float = STATUS_S_DEFAULT
) -> ServerStatus:
    """Requests the status of one server. Returns within `within_s` seconds, even if the server hangs."""
    try:
        return parse_status(address, _answer(address, context, within_s))
    except TimeoutError:
        return ServerStatus(address=address, reason=f"no answer within {within_s:g} s")
    except OSError as error:
        return ServerStatus(address=address, reason=(error.strerror or str(error)).lower())


def ask_statuses(
    addresses: Sequence[Address], context: ssl.SSLContext | None = None, within_s: float = STATUS_S_DEFAULT
) -> list[ServerStatus]:
    """Requests the status of all servers at the same time."""
    with ThreadPoolExecutor(max_workers=len(addresses)) as pool:
        return list(pool.map(lambda address: ask_status(address, context, within_s), addresses))


def parse_status(address: Address, text: str) -> ServerStatus:
    """Parses the answer to `srvr`."""
    facts = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if FORBIDDEN in text:
        reason = "it does not answer `srvr`: add it to 4lw.commands.whitelist in its zoo.cfg"
        return ServerStatus(address=address, reason=reason)
    if "Mode" not in facts:
        return ServerStatus(address=address, reason=NOT_SERVING if text else "it closed the connection")
    return ServerStatus(
        address=address,
        mode=facts["Mode"].strip(),
        version=facts.get("Zookeeper version", "").partition("-")[0],
        connections=_number(facts.get("Connections")),
        nodes=_number(facts.get("Node count")),
    )


def _answer(address: Address, context: ssl.SSLContext | None, within_s: float) -> str:
    deadline_s = SYSTEM_CLOCK.steady_s() + within_s
    received = bytearray()
    with socket.create_connection(address, timeout=within_s) as plain, _secured(plain, address, context) as connection:
        connection.sendall(QUESTION)
        while len(received) < STATUS_SIZE_MAX:
            left_s = deadline_s - SYSTEM_CLOCK.steady_s()
            if left_s <= 0:
                raise TimeoutError
            connection.settimeout(left_s)
            part = connection.recv(4096)
            if not part:
                break
            received += part
    return received.decode(errors="replace")


def _secured(
    plain: socket.socket, address: Address, context: ssl.SSLContext | None
) -> AbstractContextManager[socket.socket]:
    return nullcontext(plain) if context is None else context.wrap_socket(plain, server_hostname=address.host)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdecimal() else None
