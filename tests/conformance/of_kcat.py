"""The checks with kcat, the command: it has no transactions, and shows topics without changing them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from typing import Final

from confluent_kafka.admin import AdminClient

from tests.conformance.bodies import COUNT, PARTITIONS, PATIENCE_S, bodies, new_name, until
from tests.conformance.of_confluent import made_topic
from tests.conformance.rows import COMPRESSIONS, Check, Client

COMMAND: Final = "kcat"


def is_installed() -> bool:
    return shutil.which(COMMAND) is not None


def kcat_version() -> str:
    """Returns the version that it prints."""
    text = subprocess.run([COMMAND, "-V"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"Version ([\d.]+).*librdkafka ([\d.]+)", text, re.DOTALL)
    return "" if match is None else f"{match[1]} (librdkafka {match[2]})"


def kcat(address: str, *arguments: str, stdin: bytes = b"") -> bytes:
    completed = subprocess.run(
        [COMMAND, "-b", address, "-q", *arguments], input=stdin, capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert completed.returncode == 0, completed.stderr.decode(errors="replace")
    return completed.stdout


def put(address: str, topic: str, compression: str = "none") -> None:
    kcat(address, "-P", "-t", topic, "-z", compression, stdin=b"\n".join(bodies()) + b"\n")


def produce_and_consume(address: str, compression: str) -> None:
    topic = made_topic(address, "kcat")

    put(address, topic, compression)
    output = kcat(address, "-C", "-t", topic, "-o", "beginning", "-e")

    assert sorted(output.splitlines()) == sorted(bodies())


def groups(address: str, compression: str) -> None:
    topic, group = made_topic(address, "kcat-groups"), new_name("group")
    put(address, topic)
    reset = ("-X", "auto.offset.reset=earliest")
    first = kcat(address, "-G", group, "-c", str(COUNT), *reset, topic)
    put(address, topic)

    second = kcat(address, "-G", group, "-c", str(COUNT), *reset, topic)

    assert sorted(first.splitlines()) == sorted(second.splitlines()) == sorted(bodies())


def rebalancing(address: str, compression: str) -> None:
    topic, group = made_topic(address, "kcat-rebalancing"), new_name("group")
    command = [COMMAND, "-b", address, "-G", group, "-X", "auto.offset.reset=earliest", "-u", topic]
    settings = ["-X", "session.timeout.ms=6000"]
    members = [
        subprocess.Popen([*command[:-1], *settings, topic], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for _ in range(2)
    ]
    try:
        until(lambda: _owners(address, group) == [2, 2])
        last = members.pop()
        last.terminate()
        last.communicate(timeout=PATIENCE_S)
        until(lambda: _owners(address, group) == [PARTITIONS])
        put(address, topic)
        stdout = members[0].stdout
        assert stdout is not None
        lines = [stdout.readline().rstrip(b"\n") for _ in range(COUNT)]
        assert sorted(lines) == sorted(bodies())
    finally:
        for member in members:
            member.kill()
            member.communicate(timeout=PATIENCE_S)


def _owners(address: str, group: str) -> list[int]:
    """Returns how many partitions each member has."""
    client = AdminClient({"log_level": 3, "bootstrap.servers": address})
    description = client.describe_consumer_groups([group])[group].result(PATIENCE_S)
    return [len(member.assignment.topic_partitions) for member in description.members]


def administration(address: str, compression: str) -> None:
    topic = made_topic(address, "kcat-admin")
    put(address, topic)

    metadata = json.loads(kcat(address, "-L", "-J", "-t", topic))
    ends = kcat(address, *(part for number in range(PARTITIONS) for part in ("-Q", "-t", f"{topic}:{number}:-1")))

    assert [len(each["partitions"]) for each in metadata["topics"]] == [PARTITIONS]
    assert sum(int(line.rsplit(b" ", 1)[1]) for line in ends.splitlines()) == COUNT


CHECKS: Final[Mapping[str, Check]] = {
    "produce and consume": produce_and_consume,
    "groups": groups,
    "rebalancing": rebalancing,
    "admin": administration,
}


def client() -> Client:
    """The installed kcat."""
    return Client("kcat", kcat_version(), COMPRESSIONS, CHECKS)
