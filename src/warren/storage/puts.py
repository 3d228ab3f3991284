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
    return log.put_packed((packed,))


def append_puts(log: Log, puts: Sequence[Sequence[Packed]]) -> list[range | BaseException]:
    """Append what several puts bring, each at least one record, with one sync for all of them.

    Of each the numbers, or what went wrong with it: one that fails does not take the others with it.
    """
    if log.version == 1:
        raise UnsupportedByVersion("a packed record", 1)
    log.check_writable()
    tickets = [Ticket(records) for records in puts]
    if tickets:
        log.settle(tickets)
    return [_outcome(ticket) for ticket in tickets]


def _outcome(ticket: Ticket) -> range | BaseException:
    if ticket.receipt is None or ticket.error is not None:
        assert ticket.error is not None, "a ticket that was settled has a receipt, or an error"
        return ticket.error
    number = ticket.receipt.number
    return range(number, number + sum(packed.message_count for packed in ticket.batch))
