"""Connections of users who have logged in: closed when the user is deleted, or gets another password."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, NoReturn

from warren.broker.security.users import KeptPassword, Users
from warren.errors import WarrenError

USERS_LOOK_S: Final = 0.5
"""How soon the connections of a deleted user, or of a changed password, are closed."""

LOGGER: Final = logging.getLogger("warren.broker")


class LoggedInConnection(NamedTuple):
    """The password that proved a login, and how to close its connection."""

    password: KeptPassword
    close: Callable[[], None]


class LoggedIn:
    """Closes connections whose login is no longer valid. For the event loop's thread alone.

    Every process may change the users, so their file is checked every USERS_LOOK_S. It is read if it has changed, or if
    a user has logged in since, because the file may have changed while the password was checked.
    """

    def __init__(self, users: Users) -> None:
        self._users = users
        self._entries: dict[object, LoggedInConnection] = {}
        self._stamp: tuple[int, int] | None = None
        self._has_new = False

    def add(self, connection: object, password: KeptPassword, close: Callable[[], None]) -> None:
        """Adds a connection on which a user has logged in, instead of an earlier login on it."""
        self._entries[connection] = LoggedInConnection(password, close)
        self._has_new = True

    def discard(self, connection: object) -> None:
        """Forgets a connection that has ended."""
        self._entries.pop(connection, None)

    async def watch(self) -> NoReturn:
        """Checks the logins every USERS_LOOK_S, until cancelled."""
        while True:
            await asyncio.sleep(USERS_LOOK_S)
            stamp = self._state_of_file()
            if stamp == self._stamp and not self._has_new:
                continue
            # Reset before the file is read, so that later changes and logins are left to the next check.
            self._stamp, self._has_new = stamp, False
            entries = dict(self._entries)
            try:
                self._close_others(entries, await asyncio.to_thread(self._users.kept_passwords))
            except WarrenError as error:
                LOGGER.error("users cannot be read: %s", error)

    def _state_of_file(self) -> tuple[int, int]:
        try:
            status = os.stat(self._users.path)
        except FileNotFoundError:
            return 0, 0
        return status.st_mtime_ns, status.st_ino

    def _close_others(self, entries: Mapping[object, LoggedInConnection], passwords: frozenset[KeptPassword]) -> None:
        for key, entry in entries.items():
            if entry.password not in passwords and self._entries.get(key) is entry:
                del self._entries[key]
                LOGGER.info(
                    "a connection of user %r closed: the user was deleted or has another password", entry.password.user
                )
                entry.close()
