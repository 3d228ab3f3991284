"""The results: one row for each client, feature and compression."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

PASSED: Final = "passed"
FAILED: Final = "failed"
NOT_OFFERED: Final = "not offered by the client"
NOT_SERVED: Final = "not served by the broker"
LEFT_OUT: Final = "left out by its makers"
NOT_INSTALLED: Final = "not installed"
COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
PRODUCE_AND_CONSUME: Final = "produce and consume"
FEATURES: Final = (PRODUCE_AND_CONSUME, "groups", "rebalancing", "transactions", "admin")


class Row(NamedTuple):
    """One check with one client; `note` has the fault or the error that the client got."""

    client: str
    version: str
    feature: str
    compression: str
    outcome: str
    note: str = ""


Check = Callable[[str, str], None]
"""Checks something against the broker at an address, with a compression. Raises an error if the result is wrong."""


class Client(NamedTuple):
    """A client: its features, and their checks."""

    name: str
    version: str
    compressions: Sequence[str]
    checks: Mapping[str, Check]


def rows_of(client: Client, address: str) -> list[Row]:
    """Returns every feature in every compression that it is checked in."""
    rows = []
    for feature in FEATURES:
        check = client.checks.get(feature)
        for compression in COMPRESSIONS if feature == PRODUCE_AND_CONSUME else ("none",):
            if check is None or compression not in client.compressions:
                rows.append(Row(client.name, client.version, feature, compression, NOT_OFFERED))
                continue
            outcome, note = tried(check, address, compression)
            rows.append(Row(client.name, client.version, feature, compression, outcome, note))
    return rows


def tried(check: Check, address: str, compression: str) -> tuple[str, str]:
    """Returns the result, and the fault."""
    try:
        check(address, compression)
    except Exception:  # noqa: BLE001  # Any error of a client is the result of a row.
        return FAILED, traceback.format_exc(limit=-3)
    return PASSED, ""
