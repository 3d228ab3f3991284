"""What can happen between a client and a broker."""

from __future__ import annotations

from warren.errors.root import WarrenError


class RemoteError(WarrenError):
    """The broker told of an error that this release does not know. Its code and sentence are those of the broker."""

    code = "remote"

    def __init__(self, remote_code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.remote_code = remote_code


class ConnectionLost(RemoteError, ConnectionError):
    """The broker could not be reached, or went away in mid-call: whether the call was carried out is not known."""

    code = "connection_lost"
    retryable = True

    def __init__(self, address: str, reason: str) -> None:
        WarrenError.__init__(self, f"no answer from the broker at {address}: {reason}")
        self.address, self.reason = address, reason


class CertificateRefused(ConnectionLost):
    """One side does not take the certificate of the other: not trusted, expired, for another name, or not shown."""

    code = "certificate_refused"
    retryable = False


class WrongTransport(ConnectionLost):
    """The broker uses TLS and the client does not, or the reverse. `is_tls` says whether the broker does."""

    code = "wrong_transport"
    retryable = False

    def __init__(self, address: str, *, is_tls: bool) -> None:
        reason = "with TLS, and this client does not use it" if is_tls else "without TLS, and this client uses it"
        WarrenError.__init__(self, f"the broker at {address} answers {reason}")
        self.address, self.reason, self.is_tls = address, f"it answers {reason}", is_tls


class OutcomeUnknown(ConnectionLost):
    """The call may have been carried out, or not: its answer is lost, and with it whoever would know.

    Not `retryable`: whoever tries again looks first whether it was done.
    """

    code = "outcome_unknown"
    retryable = False

    def __init__(self, address: str, reason: str) -> None:
        of = f" by the broker at {address}" if address else ""
        WarrenError.__init__(self, f"whether the call was carried out{of} is not known: {reason}")
        self.address, self.reason = address, reason


class NoSuchHandle(RemoteError):
    """The broker holds nothing by this handle any more: the connection that opened it ended."""

    code = "no_such_handle"
    retryable = True

    def __init__(self, handle: int) -> None:
        WarrenError.__init__(self, f"nothing is open by handle {handle}: the connection that opened it ended")
        self.handle = handle


class LoginFailed(RemoteError):
    """The broker does not take this user and password."""

    code = "login_failed"

    def __init__(self, address: str, user: str, reason: str) -> None:
        WarrenError.__init__(self, f"the broker at {address} does not let {user!r} in: {reason}")
        self.address, self.user, self.reason = address, user, reason


class UserWanted(LoginFailed):
    """The broker wants a login, and the client was given no user."""

    code = "user_wanted"

    def __init__(self, address: str) -> None:
        WarrenError.__init__(self, f"the broker at {address} wants a user, and none was given")
        self.address, self.user, self.reason = address, "", "it wants a user"
