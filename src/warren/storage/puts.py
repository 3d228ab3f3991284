"""Puts of what was packed elsewhere: one record with its receipt, or several puts in one commit."""

from __future__ import annotations

from collections.abc import Sequence

from warren.errors import UnsupportedByVersion
from warren.message import Receipt
from warren.storage.group_commit import Ticket
from warren.storage.log import Log
from warren.storage.record import Packed


def append_record(log: Log, packed: Packed) -> Receipt:
    """Append one record that was packed before; the receipt of its first message."""
    if log.version == 1:
        raise UnsupportedByVersion("a packed record", 1)
    log.check_writable()
    return log.put_record(packed)


def append_puts(log: Log, puts: Sequence[Sequence[Packed]]) -> list[range | BaseException]:
    """Append what several puts bring, as `settle_puts` does; of each the numbers, or what went wrong with it."""
    outcomes = settle_puts(log, puts)
    return [
        numbers_of(found, put) if isinstance(found, Receipt) else found
        for found, put in zip(outcomes, puts, strict=True)
    ]


def numbers_of(receipt: Receipt, records: Sequence[Packed]) -> range:
    """The numbers that the messages of a put got, whose first one has this receipt."""
    return range(receipt.number, receipt.number + sum(packed.message_count for packed in records))


def settle_puts(log: Log, puts: Sequence[Sequence[Packed]]) -> list[Receipt | BaseException]:
    """Append what several puts bring, each at least one record, with one sync for all of them.

    Of each the receipt of its first message, or what went wrong with it: one that fails does not take the others with
    it.
    """
    if log.version == 1:
        raise UnsupportedByVersion("a packed record", 1)
    log.check_writable()
    tickets = [Ticket(records) for records in puts]
    if tickets:
        log.settle(tickets)
    # A ticket that was settled has a receipt, or an error.
    return [ticket.receipt if ticket.error is None else ticket.error for ticket in tickets]  # type: ignore[misc]
