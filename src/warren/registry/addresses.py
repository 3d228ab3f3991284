"""Addresses of ZooKeeper servers as a person writes them: `a,b:2182,[::1]` for clients, `a:2888:3888` for ensembles."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from warren.errors import BadInput

SERVERS_MAX: Final = 15
"""The servers of one ensemble, and the addresses that a client is given."""

CLIENT_PORT: Final = 2181
PEER_PORT: Final = 2888
ELECTION_PORT: Final = 3888
PORT_MAX: Final = 65_535
HOST: Final = r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)"
ADDRESS: Final = re.compile(rf"{HOST}(?::(?P<port>\d{{1,5}}))?")
MEMBER: Final = re.compile(rf"{HOST}(?::(?P<peer>\d{{1,5}}):(?P<election>\d{{1,5}}))?")


class Address(NamedTuple):
    """The address on which a server listens for clients. `host` has no brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{bracketed(self.host)}:{self.port}"


class EnsembleMember(NamedTuple):
    """A server of an ensemble: its host, its port for the other servers, and its port for elections."""

    host: str
    peer_port: int = PEER_PORT
    election_port: int = ELECTION_PORT

    def __str__(self) -> str:
        return f"{bracketed(self.host)}:{self.peer_port}:{self.election_port}"


def parse_addresses(text: str) -> list[Address]:
    """Returns the addresses of a comma-separated list. Raises BadInput if it is not valid."""
    addresses = []
    for part in _parts(text):
        match = ADDRESS.fullmatch(part)
        if match is None:
            raise BadInput(f"address {part[:200]!r}: expected HOST or HOST:PORT, such as 127.0.0.1:{CLIENT_PORT}")
        addresses.append(Address(match["host"].strip("[]"), checked_port(match["port"] or CLIENT_PORT, part)))
    return addresses


def parse_members(text: str) -> list[EnsembleMember]:
    """Returns the servers of an ensemble from a comma-separated list. Raises BadInput if it is not valid."""
    members = []
    for part in _parts(text):
        match = MEMBER.fullmatch(part)
        if match is None:
            raise BadInput(
                f"--servers: {part[:200]!r} is not HOST or HOST:PEER_PORT:ELECTION_PORT, such as "
                f"127.0.0.1:{PEER_PORT}:{ELECTION_PORT}"
            )
        ports = (match["peer"] or PEER_PORT, match["election"] or ELECTION_PORT)
        members.append(EnsembleMember(match["host"].strip("[]"), *(checked_port(port, part) for port in ports)))
    places = [place for member in members for place in ((member.host, member.peer_port), (member.host, member[2]))]
    if len(set(places)) < len(places):
        raise BadInput(
            "--servers: two servers have the same host and port; on one machine each needs its own ports, such as "
            "127.0.0.1:2888:3888,127.0.0.1:2889:3889,127.0.0.1:2890:3890"
        )
    return members


def checked_port(port: str | int, where: str) -> int:
    """Returns `port` as a number. Raises BadInput if it is not from 1 to PORT_MAX."""
    if not 1 <= int(port) <= PORT_MAX:
        raise BadInput(f"{where}: the port {port} is not from 1 to {PORT_MAX}")
    return int(port)


def bracketed(host: str) -> str:
    """Returns a host in the form that precedes a port: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def _parts(text: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > SERVERS_MAX:
        raise BadInput(f"{len(parts)} servers are named; expected at most {SERVERS_MAX}")
    return parts
