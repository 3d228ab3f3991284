"""`python -m tests.conformance`: a broker, every client, and one table; exits with 1 if something failed."""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.conformance.rows import FAILED, NOT_INSTALLED, PASSED, Client, Row, rows_of
from tests.support.broker.watched import watched_broker

CONSOLE: Final = Console(highlight=False)
TOOLS: Final = Path(sys.prefix) / "conformance"
SETTINGS: Final = {
    "WARREN_TOPICS_PARTITIONS": "4",
    # The tests of rights need a broker that checks some, but here every user may do everything.
    "WARREN_SECURITY_RIGHTS": "true",
    "WARREN_SECURITY_SUPER_USERS": "ANONYMOUS",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--json", type=Path, default=TOOLS / "rows.json", help="where the rows are written")
    parser.add_argument("--tools", type=Path, default=TOOLS, help="where packages and other people's tests are kept")
    parser.add_argument("--only", default="", help="one client alone")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="warren-conformance-") as directory,
        watched_broker(Path(directory) / "data", "--durability", "os", variables=SETTINGS) as broker,
    ):
        rows = tried_all(f"127.0.0.1:{broker.port}", arguments.tools, arguments.only)
        errors = broker.errors()
    CONSOLE.print(table_of(rows))
    for row in rows:
        if row.outcome in (FAILED, NOT_INSTALLED):
            CONSOLE.print(f"{row.client}, {row.feature}, {row.compression}: {row.note}", markup=False)
    for line in errors:
        CONSOLE.print(line, markup=False)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps([row._asdict() for row in rows], indent=2) + "\n")
    count = {outcome: sum(row.outcome == outcome for row in rows) for outcome in sorted({row.outcome for row in rows})}
    CONSOLE.print(
        ", ".join(f"{number} {outcome}" for outcome, number in count.items()), f"written to {arguments.json}", sep="; "
    )
    return 1 if errors or FAILED in count else 0


def tried_all(address: str, tools: Path, only: str) -> list[Row]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # They warn about deprecated features of Python as soon as they are imported.
        from tests.conformance import (
            of_aiokafka,
            of_confluent,
            of_franz_go,
            of_kafka_python,
            of_kafkajs,
            of_kcat,
            suites,
        )
    install_kcat()
    clients: list[Client] = [of_confluent.CLIENT, of_kafka_python.CLIENT, of_aiokafka.CLIENT]
    rows: list[Row] = []
    if of_kcat.is_installed():
        clients.append(of_kcat.client())
    else:
        rows.append(Row("kcat", "", "all", "", NOT_INSTALLED, "apt-get install kcat"))
    try:
        clients.append(of_kafkajs.installed(tools / "node"))
    except of_kafkajs.NotInstalled as error:
        rows.append(Row("kafkajs", "", "all", "", NOT_INSTALLED, str(error)))
    try:
        clients.append(of_franz_go.installed(tools / "franz-go"))
    except of_franz_go.NotInstalled as error:
        rows.append(Row("franz-go", "", "all", "", NOT_INSTALLED, str(error)))
    for noisy in ("aiokafka", "kafka"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL + 1)
    for client in clients:
        if only in ("", client.name):
            CONSOLE.print(f"{client.name} {client.version}")
            rows += rows_of(client, address)
    if only in ("", "suites"):
        CONSOLE.print(f"kafka-python {of_kafka_python.CLIENT.version}, its own tests")
        rows += suites.rows_of_kafka_python(address, of_kafka_python.CLIENT.version, tools / "suites")
    return rows


def install_kcat() -> None:
    """Installs it if it is missing and available: Debian has a package."""
    if shutil.which("kcat") is None and shutil.which("apt-get") is not None and os.geteuid() == 0:
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "kcat"]
        subprocess.run(command, check=False, capture_output=True)


def table_of(rows: list[Row]) -> Table:
    table = Table(title="Kafka's clients and the broker")
    for name in ("client", "version", "feature", "compression", "outcome"):
        table.add_column(name)
    for row in rows:
        outcome = f"[green]{row.outcome}[/]" if row.outcome == PASSED else row.outcome
        table.add_row(row.client, row.version, row.feature, row.compression, outcome)
    return table


if __name__ == "__main__":
    sys.exit(main())
