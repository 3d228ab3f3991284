"""The users of a store: their names, and the credentials that check their passwords. No password is ever stored."""

from __future__ import annotations

import hmac
import os
import secrets
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from warren.broker.security.replica_user import REPLICA_USER, ReplicaUser
from warren.broker.security.scram import HASHES, SCRAM_SALT_SIZE, Credential, unknown_user
from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import BadInput, BadName, CorruptSettings, NoSuchUser, UserExists
from warren.queue.state import paths
from warren.queue.state.json_file import read_json, write_json
from warren.queue.state.shared_lock import SharedLock
from warren.storage.disk.filesystem import SYSTEM_FILE_SYSTEM, FileSystem

USERS_MAX: Final = 10_000
USER_NAME_SIZE_MAX: Final = 200

PASSWORD_SIZE_MIN: Final = 8
PASSWORD_SIZE_MAX: Final = 1024
PRIVATE: Final = 0o600
SECRET_SIZE: Final = 32
PLAIN_CHECKED_WITH: Final = "SCRAM-SHA-256"


class KeptPassword(NamedTuple):
    """A user's stored password for one mechanism. Every password that is set gets a new salt."""

    user: str
    mechanism: str
    salt: bytes


class Kept(NamedTuple):
    """The content of the file. `secret` makes the salts of users who do not exist, which must not change over time."""

    users: dict[str, Any]
    secret: str


class Users:
    """The users who may connect to brokers of the store at `path`. Any thread and process; each call reads the file.

    In a cluster there is one user more, that of the other `replicas`, which is in no file.
    """

    def __init__(
        self,
        path: str,
        filesystem: FileSystem = SYSTEM_FILE_SYSTEM,
        clock: Clock = SYSTEM_CLOCK,
        replicas: ReplicaUser | None = None,
    ) -> None:
        self.path, self._filesystem, self._replicas = paths.users_file(path), filesystem, replicas
        self._lock = SharedLock(filesystem, paths.security_lock(path), clock)
        self._secret = secrets.token_hex(SECRET_SIZE)
        self._last_read: Mapping[str, Any] = {}

    def names(self) -> list[str]:
        """Returns the names of all users, sorted."""
        return sorted(self._read().users)

    def create(self, name: str, password: str, *, replaces: bool = False) -> None:
        """Makes a user. If it exists, sets the password if `replaces` is true, and otherwise raises UserExists."""
        _check(name, password)
        made = {
            mechanism: Credential.of(mechanism, password, secrets.token_bytes(SCRAM_SALT_SIZE)).to_json()
            for mechanism in HASHES
        }
        with self._lock:
            contents = self._read()
            if name in contents.users and not replaces:
                raise UserExists(name)
            if len(contents.users) >= USERS_MAX:
                raise BadInput(f"there are {USERS_MAX} users, and cannot be more")
            self._write(Kept({**contents.users, name: made}, contents.secret))

    def delete(self, name: str) -> None:
        """Removes a user. Raises NoSuchUser if there is none."""
        with self._lock:
            contents = self._read()
            if contents.users.pop(name, None) is None:
                raise NoSuchUser(name)
            self._write(contents)

    def scram_credential(self, name: str, mechanism: str) -> Credential:
        """Returns the credential that checks a login by SCRAM: of a user, or of a replica."""
        if self._replicas is not None and name == REPLICA_USER and mechanism in self._replicas.credentials:
            return self._replicas.credentials[mechanism]
        return self.credential(name, mechanism)

    def credential(self, name: str, mechanism: str) -> Credential:
        """Returns the credential that checks a user's password. If the user does not exist, no password fits it."""
        contents = self._read()
        # Also made for users who exist, because the time of an answer would otherwise show which users do.
        stranger = unknown_user(mechanism, contents.secret.encode(), name, _iteration_counts(contents, mechanism))
        credentials = contents.users.get(name)
        if credentials is None:
            return stranger
        try:
            return Credential.from_json(credentials[mechanism])
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptSettings(self.path, f"user {name!r}: {error}") from error

    def proven(self, name: str, password: str) -> KeptPassword | None:
        """Returns the stored password if `password` is right; otherwise None.

        Takes the same time if the user does not exist.
        """
        credential = self.credential(name, PLAIN_CHECKED_WITH)
        candidate = Credential.of(PLAIN_CHECKED_WITH, password, credential.salt, credential.iterations)
        is_proven = hmac.compare_digest(candidate.stored_key, credential.stored_key)
        return KeptPassword(name, PLAIN_CHECKED_WITH, credential.salt) if is_proven else None

    def kept_passwords(self) -> frozenset[KeptPassword]:
        """Returns the stored passwords of all users, without credentials that cannot be read."""
        of_replicas = {} if self._replicas is None else self._replicas.credentials
        passwords = {KeptPassword(REPLICA_USER, name, each.salt) for name, each in of_replicas.items()}
        for name, credentials in self._read().users.items():
            for mechanism in HASHES:
                with suppress(KeyError, TypeError, ValueError):
                    passwords.add(KeptPassword(name, mechanism, Credential.from_json(credentials[mechanism]).salt))
        return frozenset(passwords)

    def is_known(self, name: str) -> bool:
        """Returns whether the file had this user when it was last read, for example to check a password."""
        return name in self._last_read or name == REPLICA_USER

    def _read(self) -> Kept:
        data = read_json(self._filesystem, self.path) or {}
        users, secret = data.get("users", {}), data.get("secret", self._secret)
        if not isinstance(users, dict) or not isinstance(secret, str):
            raise CorruptSettings(self.path, "there are no users in it")
        self._last_read = users
        return Kept(users, secret)

    def _write(self, contents: Kept) -> None:
        new_path = self.path + paths.NEW_SUFFIX
        with suppress(FileNotFoundError):
            os.remove(new_path)
        # The new file is private from its creation on, so that no other user can open it at any time.
        os.close(os.open(new_path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))
        write_json(self._filesystem, self.path, contents._asdict())


def _iteration_counts(contents: Kept, mechanism: str) -> Counter[int]:
    """Returns the number of users for each number of iterations."""
    counts: Counter[int] = Counter()
    for credentials in contents.users.values():
        with suppress(KeyError, TypeError, ValueError):
            counts[int(credentials[mechanism]["iterations"])] += 1
    return counts


def _check(name: str, password: str) -> None:
    if not name or len(name.encode()) > USER_NAME_SIZE_MAX:
        raise BadName("user", name, f"a name has 1 to {USER_NAME_SIZE_MAX} bytes")
    if not name.isprintable() or name != name.strip() or any(each in name for each in ":*,;"):
        raise BadName("user", name, "a name has no control characters, no space at its ends, and none of : * , ;")
    if not PASSWORD_SIZE_MIN <= len(password.encode()) <= PASSWORD_SIZE_MAX:
        raise BadInput(f"a password has {PASSWORD_SIZE_MIN} to {PASSWORD_SIZE_MAX} bytes")
    if "\0" in password:
        raise BadInput("a password has no zero byte")
