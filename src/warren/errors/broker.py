"""Errors that keep a broker from serving, or users from using it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from warren.errors.root import BadInput, WarrenError

VERBS: Final[Mapping[str, str]] = MappingProxyType(
    {"all": "do everything to", "describe_configs": "see the settings of", "alter_configs": "change the settings of"}
)
"""Operations as verbs, if the name of the operation is not a verb itself."""
FLAGS: Final[Mapping[str, str]] = MappingProxyType(
    {"topic": "--topic", "group": "--group", "transactional_id": "--transaction"}
)
"""The flag of `warren acl` for each kind of thing."""


class ServingError(WarrenError):
    """An error of a broker as a service: its address, its configuration, its users and their rights."""

    code = "serving"


class BrokerMissing(ServingError):
    """Packages that the broker needs are not installed. `packages` names them."""

    code = "broker_missing"

    def __init__(self, packages: Sequence[str]) -> None:
        super().__init__(
            f"the broker needs packages that are not installed ({', '.join(packages)}): "
            "`pip install 'warren[broker]'` installs them"
        )
        self.packages = packages


class BadConfiguration(ServingError, BadInput):
    """A key that does not exist, or a value that is not valid. `where` names the file, variable or flag."""

    code = "bad_configuration"

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where, self.reason = where, reason


class StoreServed(ServingError):
    """Another broker serves the store."""

    code = "store_served"

    def __init__(self, path: str, pid: int) -> None:
        super().__init__(f"another broker serves {path}: process {pid or 'unknown'}")
        self.path, self.pid = path, pid


class CannotListen(ServingError):
    """The broker cannot listen on the address."""

    code = "cannot_listen"

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(f"cannot listen on {host}:{port}: {reason}")
        self.host, self.port, self.reason = host, port, reason


class OpenToAll(ServingError, BadInput):
    """Every program that reaches the address could read and write everything, and the operator did not allow it."""

    code = "open_to_all"

    def __init__(self, host: str) -> None:
        super().__init__(
            f"{host} can be reached from other machines, and clients need no login: "
            "set [security] sasl = true, or pass --insecure"
        )
        self.host = host


class AuthenticationFailed(ServingError):
    """A login failed. The error does not say why, nor whether the user exists."""

    code = "authentication_failed"

    def __init__(self) -> None:
        super().__init__("authentication failed: unknown user or wrong password")


class TooManyLogins(ServingError):
    """Too many logins before this one failed, so it was refused without a check."""

    code = "too_many_logins"
    retryable = True

    def __init__(self) -> None:
        super().__init__("too many logins from this address or of this user have failed; try again later")


class NoRight(ServingError):
    """The user has no right (ACL) to do this. The sentence names the command by which an administrator grants it.

    The error is the same whether the resource exists or not. If several operations are needed, `more` has the others.
    """

    code = "no_right"

    def __init__(self, user: str, operation: str, kind: str, name: str, more: Sequence[str] = ()) -> None:
        thing = f"{kind.replace('_', ' ')} {name!r}" if kind in FLAGS else f"the {kind}"
        operations = (operation, *more)
        flag = f"{FLAGS[kind]} {shlex.quote(name)}" if kind in FLAGS else f"--{kind}"
        super().__init__(
            f"user {user!r} may not {' or '.join(VERBS.get(each, each) for each in operations)} {thing}; "
            f"an admin grants it with: warren acl add --user {shlex.quote(user)} {flag} "
            + " ".join(f"--operation {each}" for each in operations)
        )
        self.user, self.operation, self.kind, self.name, self.more = user, operation, kind, name, list(more)


class QuotaExceeded(ServingError):
    """The user has used more than its quota. Nothing was done."""

    code = "quota_exceeded"
    retryable = True

    def __init__(self, user: str, keys: str, wait_s: float) -> None:
        super().__init__(f"user {user!r} has used up its quota ({keys}); try again in {wait_s:.3g} s")
        self.user, self.keys, self.wait_s = user, keys, wait_s


class LimitReached(ServingError):
    """The limit of the broker, or of one user, is reached."""

    code = "limit_reached"

    def __init__(self, whose: str, what: str, limit: int, key: str) -> None:
        super().__init__(f"{whose} may have {limit} {what} ({key}), and this would be more")
        self.whose, self.what, self.limit, self.key = whose, what, limit, key


class UserExists(ServingError, BadInput):
    """A user with this name exists."""

    code = "user_exists"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is a user {name!r} already")
        self.name = name


class NoSuchUser(ServingError):
    """The user does not exist."""

    code = "no_such_user"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no user {name!r}; `warren user list` shows the existing ones")
        self.name = name
