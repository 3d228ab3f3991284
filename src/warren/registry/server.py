"""One ZooKeeper server as a supervised child of this process: started, watched, restarted, stopped."""

from __future__ import annotations

import errno
import os
import random
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from warren.clock import SYSTEM_CLOCK, Clock
from warren.errors import CannotListen, RegistryUnreached, ServerFailed
from warren.java import find_java
from warren.registry.addresses import Address
from warren.registry.java_process import java_command, start_java, stop_java
from warren.registry.server_files import ServerSettings, directory_lock, write_files
from warren.registry.status import ServerStatus, ask_status

START_S_MAX: Final = 60.0
"""How long a standalone server may take until it serves. A server of an ensemble waits for the
others without a limit.
"""
QUORUM_NOTICE_S: Final = 10.0
"""After this time a server of an ensemble reports that it still waits for the others."""
STOP_S_MAX: Final = 10.0
"""How long a server may take to stop before it is killed."""
POLL_S: Final = 0.05
STATUS_S: Final = 1.0
RESTART_S_MIN: Final = 0.2
RESTART_S_MAX: Final = 10.0
"""The first and the longest pause before a server that died is started again."""
RESTARTS_MAX: Final = 8
"""How often in a row a server may die before it has served for STEADY_S."""
STEADY_S: Final = 60.0
LOG_TAIL_SIZE: Final = 4096
FREE_PORTS: Final = range(20_000, 32_000)
"""Ports that neither Linux nor macOS gives to outgoing connections, or to a server that asks for any port. So another
program does not take such a port between `free_port` and the start of the server.
"""
FREE_PORT_TRIES_MAX: Final = 100
ANY_HOST: Final[Mapping[str, str]] = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""The address by which the own machine reaches a server that listens on all addresses."""

Event = Callable[[str], None]


@dataclass(slots=True)
class Restarts:
    """Computes how long to wait before a server that died is started again. The pauses grow while it keeps dying."""

    count: int = 0

    def next_pause_s(self, served_s: float) -> float | None:
        """Returns the pause after a server that served for `served_s`; None if it has died too often in a row."""
        if served_s >= STEADY_S:
            self.count = 0
        self.count += 1
        if self.count > RESTARTS_MAX:
            return None
        return float(min(RESTART_S_MAX, RESTART_S_MIN * 2 ** (self.count - 1)))


class Server:
    """Runs a server until `stop` is called. One thread calls `run`; any thread or signal handler may call `stop`.

    The child dies with the thread that is in `run`, even if this process is killed.
    """

    def __init__(
        self,
        settings: ServerSettings,
        jars: Sequence[str],
        environment: Mapping[str, str],
        *,
        clock: Clock = SYSTEM_CLOCK,
        serves: Callable[[ServerStatus], None] = lambda status: None,
        says: Event = lambda sentence: None,
    ) -> None:
        settings.check()
        self.settings = settings
        self._jars = jars
        self._environment = environment
        self._clock = clock
        self._serves = serves
        self._says = says
        self._is_stopping = False
        self._process: subprocess.Popen[bytes] | None = None
        self._exit_code = 0
        self._context = None if settings.tls is None else settings.tls.of_own_server().context()

    @property
    def pid(self) -> int | None:
        """Returns the process id of the running Java, or None."""
        return None if self._process is None else self._process.pid

    def stop(self) -> None:
        """Makes `run` end the server and return."""
        self._is_stopping = True

    def run(self) -> None:
        """Starts the server, calls `serves` each time it begins to serve, and restarts it when it dies.

        Raises an error with advice if the directory, a port or Java cannot be used, and ServerFailed if the server dies
        too often.
        """
        java = find_java(self._environment, program="ZooKeeper", extra="cluster")
        with directory_lock(self.settings):
            self._check_ports()
            write_files(self.settings)
            configuration, log_settings = self.settings.path("zoo.cfg"), self.settings.path("log4j2.properties")
            command = java_command(java.executable, self._jars, log_settings, configuration)
            restarts = Restarts()
            while not self._is_stopping:
                served_s = self._run_once(command)
                pause_s = restarts.next_pause_s(served_s)
                if self._is_stopping:
                    return
                reason = self._last_words()
                if pause_s is None:
                    raise self._failed(f"died {restarts.count} times in a row ({reason})")
                self._says(f"the ZooKeeper server died ({reason}); it is started again in {pause_s:g} s")
                self._pause(pause_s)

    def _run_once(self, command: Sequence[str]) -> float:
        """Runs one child until it ends, or until `stop`. Returns for how long it served."""
        process = self._process = start_java(command, self.settings.java_log)
        try:
            if not self._wait_until_serving(process):
                return 0.0
            begun_s = self._clock.steady_s()
            while process.poll() is None and not self._is_stopping:
                self._clock.sleep(POLL_S)
            return self._clock.steady_s() - begun_s
        finally:
            self._process = None
            if process.poll() is None:
                stop_java(process, STOP_S_MAX)
            self._exit_code = process.returncode

    def _wait_until_serving(self, process: subprocess.Popen[bytes]) -> bool:
        """Returns True when the server serves; False if it died, or `stop` was called, before it did."""
        begun_s = self._clock.steady_s()
        is_noticed = False
        while process.poll() is None and not self._is_stopping:
            status = self.status()
            if status.is_serving and self._is_announced(status):
                return True
            waited_s = self._clock.steady_s() - begun_s
            if self.settings.id is None and waited_s > START_S_MAX:
                raise self._failed(f"does not serve after {START_S_MAX:g} s: {status.reason}")
            if self.settings.id is not None and waited_s > QUORUM_NOTICE_S and not is_noticed:
                is_noticed = True
                self._says(f"server {self.settings.id} waits until a majority of the ensemble runs")
            self._clock.sleep(POLL_S)
        return False

    def _is_announced(self, status: ServerStatus) -> bool:
        """Calls `serves`.

        Returns False if the server stopped serving in the meantime; then its status is requested again.
        """
        try:
            self._serves(status)
        except RegistryUnreached as error:
            self._says(str(error))
            return False
        return True

    def status(self) -> ServerStatus:
        """Requests the status of the server."""
        return ask_status(self.near_address, self._context, STATUS_S)

    @property
    def near_address(self) -> Address:
        """Returns the address by which this machine reaches the server."""
        host, port = self.settings.address
        return Address(ANY_HOST.get(host, host), port)

    def _check_ports(self) -> None:
        """Raises CannotListen if a port is in use. Java would only report it in its log."""
        check_port(self.settings.address)
        member = self.settings.own_member
        if member is not None:
            check_port(Address(member.host, member.peer_port))
            check_port(Address(member.host, member.election_port))

    def _pause(self, pause_s: float) -> None:
        end_s = self._clock.steady_s() + pause_s
        while not self._is_stopping and self._clock.steady_s() < end_s:
            self._clock.sleep(POLL_S)

    def _failed(self, reason: str) -> ServerFailed:
        return ServerFailed(str(self.settings.address), reason, self.settings.log)

    def _last_words(self) -> str:
        """Returns how the server ended: the signal, or the last line with an error in the output of
        Java or the server.
        """
        if self._exit_code < 0:
            return f"killed by {signal.Signals(-self._exit_code).name}"
        for path in (self.settings.java_log, self.settings.log):
            lines = [line for line in tail(path).splitlines() if "ERROR" in line or "Exception" in line]
            if lines:
                return lines[-1].strip()[:200]
        return f"exit code {self._exit_code}"


def check_port(address: Address) -> None:
    """Raises CannotListen if no server can listen on the address now."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # As Java does: a port whose last connections have just ended counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
            probe.listen(1)
    except OSError as error:
        reason = "the port is in use" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        raise CannotListen(address.host, address.port, reason) from None


def free_port(host: str, ports: Sequence[int] = FREE_PORTS) -> int:
    """Returns one of the `ports` on which no server listens now. Raises CannotListen if it finds none."""
    for _ in range(FREE_PORT_TRIES_MAX):
        port = random.choice(ports)
        with suppress(CannotListen):
            check_port(Address(host, port))
            return port
    raise CannotListen(host, ports[0], f"none of {FREE_PORT_TRIES_MAX} ports that were tried from there on is free")


def tail(path: str) -> str:
    """Returns the end of a file, or nothing if it cannot be read."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_TAIL_SIZE))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
