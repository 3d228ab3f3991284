"""The integration tests that kafka-python ships in its source package, run unchanged against the broker.

They read the address of a broker from the environment. Two files that they import are not in the package: they are
added. The source packages of aiokafka and confluent-kafka have no tests, and that of kafkajs has none of this kind.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.conformance.rows import FAILED, LEFT_OUT, NOT_SERVED, PASSED, Row

PACKAGE: Final = "kafka-python"
KAFKA_VERSION: Final = "4.1"
"""The broker version that the tests are configured for: what they request depends on it."""
SUITE_S_MAX: Final = 900.0
TEST_S_MAX: Final = 90
SERVICE: Final = '''"""What the tests import to talk to a broker that is not theirs."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass


class SpawnedService:
    def __init__(self, *arguments, **named):
        raise NotImplementedError("no Java broker is started here")
'''
OTHERWISE: Final[Mapping[str, str]] = {
    "test_elect_leaders": "there is one broker",
    "test_describe_log_dirs": "DescribeLogDirs",
    "test_alter_replica_log_dirs": "AlterReplicaLogDirs",
    "test_describe_metadata_quorum": "DescribeQuorum",
    "test_alter_partition_reassignments": "AlterPartitionReassignments",
    "test_list_partition_reassignments": "ListPartitionReassignments",
    "test_describe_topic_partitions": "DescribeTopicPartitions",
    "test_describe_topic_partitions_pagination": "DescribeTopicPartitions",
    "test_list_config_resources": "ListConfigResources",
    "test_describe_configs_broker_resource_returns_configs": "the broker has no setting advertised.listeners",
}
"""Tests of features that are not served, or that differ from Kafka, and the difference."""
OF_JAVA: Final = ("test_ssl_handshake", "test_legacy_kafka_client_ssl")
"""Tests that take no address, and start their own broker."""


def rows_of_kafka_python(address: str, version: str, directory: Path) -> list[Row]:
    """Yields each test of the suite as a row."""
    suite = _unpacked(version, directory)
    report = directory / "report.xml"
    host, _, port = address.rpartition(":")
    environment = os.environ | {
        "KAFKA_URI": f"kafka://{host}:{port}",
        "KAFKA_VERSION": KAFKA_VERSION,
        "KAFKA_ROOT": str(directory),
        "PROJECT_ROOT": str(suite),
        "PYTHONPATH": str(suite),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--timeout={TEST_S_MAX}"]
    # Not our own configuration, because theirs does not configure warnings.
    subprocess.run(
        [*command, "-c", os.devnull, f"--rootdir={suite}", f"--junit-xml={report}", str(suite / "test/integration")],
        env=environment,
        cwd=suite,
        capture_output=True,
        timeout=SUITE_S_MAX,
        check=False,
    )
    return [_row(case, version) for case in ElementTree.parse(report).getroot().iter("testcase")]


def _unpacked(version: str, directory: Path) -> Path:
    """Returns the directory of the source package, and downloads it if it does not exist yet."""
    directory.mkdir(parents=True, exist_ok=True)
    root = directory / f"kafka_python-{version}"
    if not root.exists():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", PACKAGE]
        subprocess.run([*command, "-d", str(directory), f"{PACKAGE}=={version}"], check=True, capture_output=True)
        with tarfile.open(directory / f"kafka_python-{version}.tar.gz") as archive:
            _unpack_tests(archive, directory)
    (root / "test" / "__init__.py").touch()
    (root / "test" / "service.py").write_text(SERVICE)
    return root


def _unpack_tests(archive: tarfile.TarFile, directory: Path) -> None:
    """File by file, and nothing outside the directory: the filters of tarfile came with Python 3.11.4."""
    for member in archive.getmembers():
        path, file = directory / member.name, archive.extractfile(member)
        if file is not None and "/test/" in member.name and path.resolve().is_relative_to(directory.resolve()):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.read())


def _row(case: ElementTree.Element, version: str) -> Row:
    name = case.get("name", "")
    test, _, parameter = name.partition("[")
    place = case.get("classname", "").rpartition(".")[2].removesuffix("_integration").removeprefix("test_")
    wrong = case.find("failure") if case.find("failure") is not None else case.find("error")
    skipped = case.find("skipped")
    outcome, note = PASSED, ""
    if skipped is not None:
        outcome, note = LEFT_OUT, skipped.get("message", "")
    elif wrong is not None and test in OF_JAVA:
        outcome, note = LEFT_OUT, "starts a Java broker"
    elif wrong is not None and test in OTHERWISE:
        outcome, note = NOT_SERVED, OTHERWISE[test]
    elif wrong is not None:
        outcome, note = FAILED, wrong.get("message", "")
    compression = (
        parameter.removesuffix("]") if parameter.removesuffix("]") in ("gzip", "snappy", "lz4", "zstd") else "none"
    )
    return Row(f"{PACKAGE}'s own tests", version, f"{place}: {name}", compression, outcome, note)
