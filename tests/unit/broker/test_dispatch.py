"""Dispatch: the table of handlers, and the protocol's table of keys."""

from __future__ import annotations

from warren.broker.dispatch import HANDLERS
from warren.protocol.api_keys import APIS


def test_every_api_that_the_broker_advertises_has_a_handler_and_no_other_has_one() -> None:
    assert set(HANDLERS) == set(APIS)
