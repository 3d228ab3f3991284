"""A network of Linux network namespaces, one for each host of a cluster, behind a router. It needs root and iproute2.

A host has the address 10.77.N.2, and the router 10.77.N.1 in the host's own network. Nothing leads from the router to
the network of the machine.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.soak.cluster.network import Link

PREFIX: Final = "warren-soak"
ROUTER: Final = "router"
OWN: Final = "run"
"""The host of the process of the run."""
NAMES: Final = Path("/run/netns")
SMALL_PIECE: Final = 4 << 10
"""The bytes that take the delay of a slow link."""
BURST: Final = 16 << 10
COMMAND_S_MAX: Final = 20.0
CLONE_NEWNET: Final = 0x40000000
COMMANDS: Final = ("ip", "tc")


class NoNamespaces(Exception):
    """This machine or this user cannot make network namespaces; the text says why."""


class Namespaces:
    """Namespaces of the hosts `names`. While it is open, the thread that made it is in one more of them.

    A link is cut by a rule of the router that drops what comes from one host and goes to another: without an answer,
    as if the cable were cut. A slow link has a small rate, so that what is sent waits in its queue.
    """

    kind = "namespaces"
    connections = 0

    def __init__(self, names: Sequence[str]) -> None:
        reason = reason_against()
        if reason:
            raise NoNamespaces(reason)
        remove_leftovers()
        self._prefix = f"{PREFIX}-{os.getpid()}-"
        self._numbers = {name: number for number, name in enumerate((*names, OWN), 1)}
        self._cut: set[Link] = set()
        self._slow: set[str] = set()
        self._lock = threading.Lock()
        self._home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            self._build()
            self._enter(OWN)
        except BaseException:
            self.close()
            raise

    def _build(self) -> None:
        run("ip", "netns", "add", self._name(ROUTER))
        settings = "/proc/sys/net/ipv4"
        # The check of the way back would drop both directions if one is cut.
        script = f"echo 0 > {settings}/conf/all/rp_filter; echo 0 > {settings}/conf/default/rp_filter"
        run("ip", "netns", "exec", self._name(ROUTER), "sh", "-c", f"{script}; echo 1 > {settings}/ip_forward")
        for name, number in self._numbers.items():
            run("ip", "netns", "add", self._name(name))
            self._batch(
                ROUTER,
                f"link add h{number} type veth peer name eth0 netns {self._name(name)}",
                f"addr add 10.77.{number}.1/24 dev h{number}",
                f"link set h{number} up",
            )
            self._batch(
                name,
                "link set lo up",
                f"addr add {self.host(name)}/24 dev eth0",
                "link set eth0 up",
                f"route add default via 10.77.{number}.1",
            )

    @contextmanager
    def place(self, name: str) -> Iterator[None]:
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            self._enter(name)
            yield
        finally:
            set_namespace(before)
            os.close(before)

    def host(self, name: str) -> str:
        return f"10.77.{self._numbers[name]}.2"

    def address(self, target: str, port: int, source: str | None = None) -> str:
        return f"{self.host(target)}:{port}"

    def cut(self, links: Set[Link]) -> None:
        with self._lock:
            self._batch(ROUTER, *(f"rule add {self._rule(each)}" for each in sorted(links - self._cut)))
            self._cut |= links

    def join(self, links: Set[Link]) -> None:
        with self._lock:
            self._batch(ROUTER, *(f"rule del {self._rule(each)}" for each in sorted(links & self._cut)))
            self._cut -= links

    def slow(self, links: Mapping[Link, float]) -> None:
        with self._lock:
            for target in sorted({target for _, target in links}):
                device = f"h{self._numbers[target]}"
                self._slow.add(device)
                # What no filter finds passes at full rate.
                lines = [f"qdisc replace dev {device} root handle 1: htb"]
                for source, delay_s in [(each[0], links[each]) for each in sorted(links) if each[1] == target]:
                    queue, rate = f"1:{self._numbers[source]}", round(SMALL_PIECE * 8 / delay_s)
                    matches = f"u32 match ip src {self.host(source)}/32"
                    lines += [
                        f"class add dev {device} parent 1: classid {queue} htb rate {rate}bit burst {BURST}b",
                        f"filter add dev {device} parent 1: protocol ip prio 1 {matches} flowid {queue}",
                    ]
                self._batch(ROUTER, *lines, program="tc")

    def heal(self) -> None:
        self.join(set(self._cut))
        with self._lock:
            self._batch(ROUTER, *(f"qdisc del dev {each} root" for each in sorted(self._slow)), program="tc")
            self._slow.clear()

    def close(self) -> None:
        """Leaves the namespaces and removes them. Their devices, rules and queues end with them."""
        set_namespace(self._home)
        os.close(self._home)
        for name in (ROUTER, *self._numbers):
            remove(self._name(name))

    def _name(self, host: str) -> str:
        return f"{self._prefix}{host}"

    def _rule(self, link: Link) -> str:
        source, target = link
        return f"iif h{self._numbers[source]} to {self.host(target)}/32 pref 100 type blackhole"

    def _enter(self, host: str) -> None:
        namespace = os.open(NAMES / self._name(host), os.O_RDONLY)
        try:
            set_namespace(namespace)
        finally:
            os.close(namespace)

    def _batch(self, host: str, *lines: str, program: str = "ip") -> None:
        if lines:
            run(program, "-n", self._name(host), "-batch", "-", stdin="\n".join(lines) + "\n")


def reason_against() -> str:
    """Returns why there can be no namespaces here, or nothing if there can."""
    if sys.platform != "linux":
        return "network namespaces exist on Linux only"
    if os.geteuid() != 0:
        return "network namespaces need root"
    for command in COMMANDS:
        if shutil.which(command) is None:
            return f"there is no command {command}: install iproute2"
    name = f"{PREFIX}-{os.getpid()}-probe"
    try:
        run("ip", "netns", "add", name)
        try:
            run("ip", "-n", name, "link", "add", "probe-1", "type", "veth", "peer", "name", "probe-2")
            run("ip", "-n", name, "rule", "add", "iif", "probe-1", "to", "10.77.0.2/32", "type", "blackhole")
            run("tc", "-n", name, "qdisc", "add", "dev", "probe-1", "root", "handle", "1:", "htb")
        finally:
            remove(name)
    except NoNamespaces as error:
        return str(error)
    return ""


def remove_leftovers() -> None:
    """Removes the namespaces of runs that were killed."""
    for path in NAMES.glob(f"{PREFIX}-*"):
        pid = path.name.removeprefix(f"{PREFIX}-").partition("-")[0]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            remove(path.name)


def remove(name: str) -> None:
    with suppress(NoNamespaces):
        run("ip", "netns", "del", name)


def set_namespace(descriptor: int) -> None:
    """Moves the calling thread into a network namespace. Threads and processes that it makes later begin there."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def run(*command: str, stdin: str | None = None) -> None:
    """Runs a command. Raises NoNamespaces with its error output if it fails."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=COMMAND_S_MAX, check=False)
    if done.returncode != 0:
        raise NoNamespaces(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()}")
