"""The users of a store: their names, and what their passwords are checked against. No password is ever kept."""

from __future__ import annotations

import hmac
import os
import secrets
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from warren.broker.security.scram import HASHES, Credential, nobody
from warren.clock import SYSTEM_CLOCK, Clock
from warren.config import (
    PASSWORD_SIZE_MAX,
    PASSWORD_SIZE_MIN,
    SCRAM_SALT_SIZE,
    USER_NAME_SIZE_MAX,
    USERS_MAX,
)
from warren.errors import BadInput, BadName, CorruptSettings, NoSuchUser, UserExists
from warren.queue import store_paths
from warren.queue.json_file import read_json, write_json
from warren.queue.shared_lock import SharedLock
from warren.storage.filesystem import SYSTEM_FILE_SYSTEM, FileSystem

PRIVATE: Final = 0o600
SECRET_SIZE: Final = 32
PLAIN_CHECKED_WITH: Final = "SCRAM-SHA-256"


class KeptPassword(NamedTuple):
    """A user's password as it is kept for one mechanism. The salt is another one for each password that is set."""

    user: str
    mechanism: str
    salt: bytes


class Kept(NamedTuple):
    """What the file says. `secret` makes the salts of those who are not there, which must not change with time."""

    users: dict[str, Any]
    secret: str


class Users:
    """Who may connect to brokers of the store at `path`. Any thread and process; each question reads the file."""

    def __init__(self, path: str, filesystem: FileSystem = SYSTEM_FILE_SYSTEM, clock: Clock = SYSTEM_CLOCK) -> None:
        self.path, self._filesystem = store_paths.users_file(path), filesystem
        self._lock = SharedLock(filesystem, store_paths.security_lock(path), clock)
        self._secret = secrets.token_hex(SECRET_SIZE)
        self._last_read: Mapping[str, Any] = {}

    def names(self) -> list[str]:
        """All users, sorted."""
        return sorted(self._read().users)

    def create(self, name: str, password: str, *, replaces: bool = False) -> None:
        """A user with this password. UserExists, unless it `replaces` the password of one who is there."""
        _check(name, password)
        made = {
            mechanism: Credential.of(mechanism, password, secrets.token_bytes(SCRAM_SALT_SIZE)).to_json()
            for mechanism in HASHES
        }
        with self._lock:
            kept = self._read()
            if name in kept.users and not replaces:
                raise UserExists(name)
            if len(kept.users) >= USERS_MAX:
                raise BadInput(f"there are {USERS_MAX} users, and cannot be more")
            self._write(Kept({**kept.users, name: made}, kept.secret))

    def delete(self, name: str) -> None:
        """The user is no more; NoSuchUser where there was none."""
        with self._lock:
            kept = self._read()
            if kept.users.pop(name, None) is None:
                raise NoSuchUser(name)
            self._write(kept)

    def credential(self, name: str, mechanism: str) -> Credential:
        """What a password of the user is checked against; for nobody one that no password fits."""
        kept = self._read()
        # For users who exist, too: it would take them less time otherwise.
        stranger = nobody(mechanism, kept.secret.encode(), name, _iteration_counts(kept, mechanism))
        found = kept.users.get(name)
        if found is None:
            return stranger
        try:
            return Credential.from_json(found[mechanism])
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptSettings(self.path, f"user {name!r}: {error}") from error

    def proven(self, name: str, password: str) -> KeptPassword | None:
        """The user's password as it is kept, if it is this one. It takes as long for a user who does not exist."""
        kept = self.credential(name, PLAIN_CHECKED_WITH)
        given = Credential.of(PLAIN_CHECKED_WITH, password, kept.salt, kept.iterations)
        is_proven = hmac.compare_digest(given.stored_key, kept.stored_key)
        return KeptPassword(name, PLAIN_CHECKED_WITH, kept.salt) if is_proven else None

    def kept_passwords(self) -> frozenset[KeptPassword]:
        """The passwords of all users as they are now. Credentials that cannot be read are left out."""
        found = set()
        for name, credentials in self._read().users.items():
            for mechanism in HASHES:
                with suppress(KeyError, TypeError, ValueError):
                    found.add(KeptPassword(name, mechanism, Credential.from_json(credentials[mechanism]).salt))
        return frozenset(found)

    def is_known(self, name: str) -> bool:
        """Whether the file named this user when it was last read, such as for a password that was just checked."""
        return name in self._last_read

    def _read(self) -> Kept:
        data = read_json(self._filesystem, self.path) or {}
        users, secret = data.get("users", {}), data.get("secret", self._secret)
        if not isinstance(users, dict) or not isinstance(secret, str):
            raise CorruptSettings(self.path, "there are no users in it")
        self._last_read = users
        return Kept(users, secret)

    def _write(self, kept: Kept) -> None:
        new_path = self.path + store_paths.NEW_SUFFIX
        with suppress(FileNotFoundError):
            os.remove(new_path)
        # It is written where nobody else could ever open it.
        os.close(os.open(new_path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))
        write_json(self._filesystem, self.path, kept._asdict())


def _iteration_counts(kept: Kept, mechanism: str) -> Counter[int]:
    """How many users have how many iterations."""
    found: Counter[int] = Counter()
    for credentials in kept.users.values():
        with suppress(KeyError, TypeError, ValueError):
            found[int(credentials[mechanism]["iterations"])] += 1
    return found


def _check(name: str, password: str) -> None:
    if not name or len(name.encode()) > USER_NAME_SIZE_MAX:
        raise BadName("user", name, f"a name has 1 to {USER_NAME_SIZE_MAX} bytes")
    if not name.isprintable() or name != name.strip() or any(each in name for each in ":*,;"):
        raise BadName("user", name, "a name has no control characters, no space at its ends, and none of : * , ;")
    if not PASSWORD_SIZE_MIN <= len(password.encode()) <= PASSWORD_SIZE_MAX:
        raise BadInput(f"a password has {PASSWORD_SIZE_MIN} to {PASSWORD_SIZE_MAX} bytes")
    if "\0" in password:
        raise BadInput("a password has no zero byte")
