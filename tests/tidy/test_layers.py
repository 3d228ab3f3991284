"""Imports point downwards, and importing a module does nothing else. ARCHITECTURE.md says what is below what."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.tidy.layers import (
    environment_reads,
    misplaced_imports,
    misplaced_packing,
    misplaced_tls,
    module_state,
    parse_layers,
    upward_imports,
    version_branches,
)
from tests.tidy.source import PACKAGE, ROOT, SOURCE, Module, modules

Check = Callable[[Module], list[str]]

LAYERS = parse_layers((ROOT / "ARCHITECTURE.md").read_text())
MODULES = modules(PACKAGE, SOURCE)
EXAMPLE_LAYERS = parse_layers("# A house\n```layers\ncli\nqueue | protocol\nstorage\nerrors\n```\n")


def points_downwards(module: Module) -> list[str]:
    return upward_imports(module, EXAMPLE_LAYERS)


def test_imports_point_downwards_only() -> None:
    assert [complaint for module in MODULES for complaint in upward_imports(module, LAYERS)] == []


@pytest.mark.parametrize(
    "check", [misplaced_imports, misplaced_packing, misplaced_tls, module_state, environment_reads, version_branches]
)
def test_every_module_keeps_the_rules(check: Check) -> None:
    assert [complaint for module in MODULES for complaint in check(module)] == []


def test_the_layers_are_those_of_the_design() -> None:
    assert [sorted(line) for line in LAYERS][-5:] == [
        ["registry", "storage"],
        ["limits"],
        ["api"],
        ["clock", "java", "message", "settings", "tls"],
        ["errors"],
    ]


@pytest.mark.parametrize(
    ("check", "name", "text"),
    [
        (points_downwards, "warren.storage.log", "import warren.queue.topic"),
        (points_downwards, "warren.storage.log", "from warren import queue"),
        (points_downwards, "warren.storage.log", "from warren import Message"),
        (points_downwards, "warren.storage.log", "import warren"),
        (points_downwards, "warren.storage.log", "from ..queue import topic"),
        (points_downwards, "warren.storage.log", "def f():\n    from warren.queue import topic"),
        (points_downwards, "warren.queue.topic", "from warren.protocol import codec"),
        (points_downwards, "warren.errors", "from warren.storage.log import Log"),
        (points_downwards, "warren.attic", "import os"),
        (misplaced_imports, "warren.storage.log", "import asyncio"),
        (misplaced_imports, "warren.queue.topic", "from socket import socket"),
        (misplaced_imports, "warren.protocol.primitives", "import asyncio.streams"),
        (misplaced_imports, "warren.storage.arrow.scan", "import pyspark.sql"),
        (misplaced_imports, "warren.storage.arrow.scan", "from aiokafka.record import memory_records"),
        (misplaced_imports, "warren.broker.server", "import kafka.protocol"),
        (misplaced_imports, "warren.broker.server", "from kio.schema.produce.v9 import request"),
        (misplaced_imports, "warren.registry.local", "from kazoo.client import KazooClient"),
        (misplaced_imports, "warren.storage.append.writer", "from time import time_ns"),
        (misplaced_packing, "warren.storage.format.record", "from struct import Struct\nHEAD = Struct('<Q')"),
        (misplaced_packing, "warren.storage.format.record", "def f():\n    from struct import pack\n    pack('<Q', 1)"),
        (misplaced_packing, "warren.storage.format.record", "import struct\nHEAD = struct.Struct('<Q')"),
        (misplaced_packing, "warren.broker.server", "import struct\nstruct.pack('<Q', 1)"),
        (misplaced_tls, "warren.spark.source", "import ssl\ncontext = ssl.create_default_context()"),
        (misplaced_tls, "warren.gateway.server", "from ssl import SSLContext\ncontext = SSLContext(1)"),
        (module_state, "warren.storage.log", "open_logs = {}"),
        (module_state, "warren.storage.log", "OPEN_LOGS = []"),
        (module_state, "warren.storage.log", "open_logs: Final = set()"),
        (module_state, "warren.storage.log", "open_logs: dict[str, int] = dict()"),
        (module_state, "warren.storage.log", "LOGS = collections.defaultdict(list)"),
        (module_state, "warren.storage.log", "_count = 0\ndef f():\n    global _count\n    _count += 1"),
        (environment_reads, "warren.limits", "import os\nDEBUG = os.environ.get('DEBUG')"),
        (environment_reads, "warren.limits", "import os\nclass A:\n    debug = os.getenv('DEBUG')"),
        (environment_reads, "warren.limits", "import os\ndef f(debug=os.environ): ..."),
        (environment_reads, "warren.limits", "from os import environ\nif environ: ..."),
        (environment_reads, "warren.limits", "import os\n@decorate(os.environ)\ndef f(): ..."),
        (version_branches, "warren.queue.topic", "if log.version == 1: ..."),
        (version_branches, "warren.queue.topic", "is_new = 2 <= self.settings.version"),
        (version_branches, "warren.queue.topic", "if format_version in (1, 2): ..."),
        (version_branches, "warren.queue.topic", "FORMATS[2].pack_single(b'')"),
        (version_branches, "warren.queue.topic", "from warren.storage.format import zbus"),
    ],
)
def test_a_broken_rule_is_found(check: Check, name: str, text: str) -> None:
    assert len(check(Module.of(name, text))) == 1


@pytest.mark.parametrize(
    ("check", "name", "text"),
    [
        (
            points_downwards,
            "warren.cli.main",
            "import warren\nfrom warren.storage import Log\nfrom warren.cli import log",
        ),
        (points_downwards, "warren.storage.log", "from warren.errors import NotALog\nfrom . import index"),
        (points_downwards, "warren", "from warren.queue import open"),
        (misplaced_imports, "warren.broker.server", "import asyncio, socket"),
        (misplaced_imports, "warren.spark.source", "import pyspark"),
        (misplaced_imports, "warren.registry.zookeeper", "import kazoo.client"),
        (misplaced_packing, "warren.storage.format.layout", "from struct import Struct\nHEAD = Struct('<Q')"),
        (misplaced_packing, "warren.storage.disk.index", "from struct import Struct\ndef f(head: Struct): ..."),
        (misplaced_packing, "warren.storage.format.record", "from struct import error"),
        (misplaced_tls, "warren.tls", "import ssl\ncontext = ssl.create_default_context()"),
        (misplaced_tls, "warren.gateway.server", "import ssl\ndef f(context: ssl.SSLContext): ..."),
        (module_state, "warren.states", "TRANSITIONS: Final[dict[int, int]] = {1: 2}\n__all__ = ['A']\nNAMES = ('a',)"),
        (module_state, "warren.states", "class A:\n    def f(self):\n        names = []"),
        (environment_reads, "warren.limits", "import os\ndef f():\n    return os.environ"),
        (environment_reads, "warren.limits", "import os\nf = lambda: os.environ"),
        (version_branches, "warren.storage.log", "if version == 1: ..."),
        (version_branches, "warren.queue.topic", "if log.format.keeps_markers: FORMATS[version]"),
        (version_branches, "warren.broker.kafka.fetch", "if call.version >= TOPIC_IDS_FROM: ..."),
    ],
)
def test_a_kept_rule_is_not_complained_about(check: Check, name: str, text: str) -> None:
    assert check(Module.of(name, text)) == []
