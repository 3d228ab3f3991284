"""What a broker takes at most, of everything."""

from __future__ import annotations

from dataclasses import dataclass

from warren.config import (
    BROKER_CONNECTIONS_MAX,
    BROKER_STOP_S_MAX,
    BROKER_UNSENT_SIZE_MAX,
    BROKER_WAITING_SIZE_MAX,
    BROKER_WAITING_SIZE_MAX_EACH,
    FETCH_SIZE_MAX,
    FETCH_WAIT_S_MAX,
    FRAME_SIZE_MAX,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes in bytes, waits in seconds. `waiting` is what was received and is not answered: each, and in all."""

    connections_max: int = BROKER_CONNECTIONS_MAX
    frame_size_max: int = FRAME_SIZE_MAX
    waiting_size_max: int = BROKER_WAITING_SIZE_MAX_EACH
    waiting_size_max_in_all: int = BROKER_WAITING_SIZE_MAX
    unsent_size_max: int = BROKER_UNSENT_SIZE_MAX
    fetch_size_max: int = FETCH_SIZE_MAX
    fetch_wait_s_max: float = FETCH_WAIT_S_MAX
    stop_s_max: float = BROKER_STOP_S_MAX
