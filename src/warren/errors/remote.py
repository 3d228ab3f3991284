"""Errors between a client and a broker."""

from __future__ import annotations

from warren.errors.root import WarrenError


class RemoteError(WarrenError):
    """The broker answered with an error that this release does not know. Code and sentence are the broker's."""

    code = "remote"

    def __init__(self, remote_code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.remote_code = remote_code


class ConnectionLost(RemoteError, ConnectionError):
    """The broker could not be reached, or the connection broke during a call, whose outcome is then unknown."""

    code = "connection_lost"
    retryable = True

    def __init__(self, address: str, reason: str) -> None:
        WarrenError.__init__(self, f"no answer from the broker at {address}: {reason}")
        self.address, self.reason = address, reason


class CertificateRefused(ConnectionLost):
    """One side refuses the other side's certificate: not trusted, expired, for another name, or missing."""

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
    """The call may or may not have been carried out: its answer is lost, and the broker no longer knows the outcome.

    Not `retryable`: check whether it was done before you try again.
    """

    code = "outcome_unknown"
    retryable = False

    def __init__(self, address: str, reason: str) -> None:
        of = f" by the broker at {address}" if address else ""
        WarrenError.__init__(self, f"it is not known whether the call was carried out{of}: {reason}")
        self.address, self.reason = address, reason


class NoSuchHandle(RemoteError):
    """The broker has nothing open under this handle any more, because the connection that opened it has ended."""

    code = "no_such_handle"
    retryable = True

    def __init__(self, handle: int) -> None:
        WarrenError.__init__(self, f"nothing is open under handle {handle}: the connection that opened it has ended")
        self.handle = handle


class LoginFailed(RemoteError):
    """The broker refuses this user or password."""

    code = "login_failed"

    def __init__(self, address: str, user: str, reason: str) -> None:
        WarrenError.__init__(self, f"the broker at {address} refuses user {user!r}: {reason}")
        self.address, self.user, self.reason = address, user, reason


class UserWanted(LoginFailed):
    """The broker requires a login, and the client has no user."""

    code = "user_wanted"

    def __init__(self, address: str) -> None:
        WarrenError.__init__(self, f"the broker at {address} requires a login, but no user was given")
        self.address, self.user, self.reason = address, "", "it requires a login"
