"""Files that the real BunnyMQ wrote: each opens, has the content of its manifest, and is written
again byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.simulated_clock import SimulatedClock
from warren.queue.standalone.file_queue import FileQueue, open_file

FIXTURES: Final = Path(__file__).parents[2] / "fixtures" / "bunny"
NAMES: Final = sorted(path.name.removesuffix(".manifest.json") for path in FIXTURES.glob("*.manifest.json"))
NS_PER_MS: Final = 1_000_000
LATER_MS: Final = 10_000_000
DELAYS_MS: Final = {"delayed5.bin": (0, 5000, 1000, 60000, 0)}

Manifest = dict[str, Any]


def manifest_of(name: str) -> Manifest:
    manifest: Manifest = json.loads((FIXTURES / f"{name}.manifest.json").read_text())
    return manifest


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def clock_at(manifest: Manifest, after_ms: int) -> SimulatedClock:
    """`after_ms` after the first message of the fixture was pushed."""
    entries = manifest["entries"]
    return SimulatedClock(((entries[0]["expire_ms"] if entries else 0) + after_ms) * NS_PER_MS)


def opened(name: str, folder: Path, *, after_ms: int = LATER_MS, **options: Any) -> FileQueue:
    """A copy of the fixture, opened when all of its messages are due, or `after_ms` after its first push."""
    path = folder / name
    shutil.copy(FIXTURES / name, path)
    return open_file(path, clock=clock_at(manifest_of(name), after_ms), **options)


def test_all_fixtures_are_here() -> None:
    assert len(NAMES) == 7
    assert all(sha256((FIXTURES / name).read_bytes()) == manifest_of(name)["file_sha256"] for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_fixture_has_the_messages_of_its_manifest(name: str, tmp_path: Path) -> None:
    manifest = manifest_of(name)
    live = [entry for entry in manifest["entries"] if entry["live"]]

    with opened(name, tmp_path) as queue:
        pointers = queue.pull_pointer, queue.push_pointer
        records, bodies, count = queue.records(), queue.messages(), queue.qsize()

    assert pointers == (manifest["pull_pointer"], manifest["push_pointer"])
    assert count == manifest["live_records"]
    assert [(record.position, record.expires_ms, len(record.body), sha256(record.body)) for record in records] == [
        (entry["offset"], entry["expire_ms"], entry["data_length"], entry["data_sha256"]) for entry in live
    ]
    assert [body.decode() for body, entry in zip(bodies, live, strict=True) if entry["text"] is not None] == [
        entry["text"] for entry in live if entry["text"] is not None
    ]


@pytest.mark.parametrize("name", NAMES)
def test_opening_and_reading_change_no_byte(name: str, tmp_path: Path) -> None:
    with opened(name, tmp_path) as queue:
        queue.messages()

    assert (tmp_path / name).read_bytes() == (FIXTURES / name).read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_pulling_moves_the_pull_pointer_from_entry_to_entry(name: str, tmp_path: Path) -> None:
    manifest = manifest_of(name)

    with opened(name, tmp_path) as queue:
        for entry in manifest["entries"]:
            if entry["live"]:
                assert queue.pull_pointer == entry["offset"]
                assert sha256(queue.pull() or b"") == entry["data_sha256"]

        assert queue.pull() is None
        assert queue.pull_pointer == queue.push_pointer == manifest["push_pointer"]


@pytest.mark.parametrize("name", NAMES)
def test_without_delays_the_expiry_is_the_start_of_the_payload(name: str, tmp_path: Path) -> None:
    with opened(name, tmp_path, delayed=False) as queue:
        payloads = queue.messages()

    assert [sha256(payload) for payload in payloads] == [
        entry["payload_sha256"] for entry in manifest_of(name)["entries"] if entry["live"]
    ]


@pytest.mark.parametrize("name", [name for name in NAMES if "SPEC" not in name])
def test_the_same_pushes_and_pulls_write_the_same_bytes(name: str, tmp_path: Path) -> None:
    manifest, data = manifest_of(name), (FIXTURES / name).read_bytes()
    delays_ms = DELAYS_MS.get(name, (0,) * manifest["records"])
    clock = SimulatedClock(0)

    with open_file(tmp_path / "ours.bunny", clock=clock) as queue:
        for entry, delay_ms in zip(manifest["entries"], delays_ms, strict=True):
            clock.pass_ns((entry["expire_ms"] - delay_ms) * NS_PER_MS - clock.now_ns())
            end = entry["offset"] + entry["record_bytes"]
            queue.push(data[end - entry["data_length"] : end], delay=delay_ms / 1000)
        for _ in range(manifest["records"] - manifest["live_records"]):
            queue.pull()

    assert (tmp_path / "ours.bunny").read_bytes() == data


def test_optimising_gives_the_file_that_the_document_describes(tmp_path: Path) -> None:
    with opened("optimisation-due-max256.bin", tmp_path) as queue:
        queue.optimise()

    assert (tmp_path / "optimisation-due-max256.bin").read_bytes() == (
        FIXTURES / "optimised-SPEC-DERIVED.bin"
    ).read_bytes()


def test_the_push_that_finds_the_file_over_its_limit_optimises_it(tmp_path: Path) -> None:
    with opened("optimisation-due-max256.bin", tmp_path, optimise_above=256) as queue:
        queue.push(b"order-0020")

        assert (queue.pull_pointer, queue.push_pointer) == (8, 118 + 22)
        assert queue.messages()[0] == b"order-0015"
        assert queue.messages()[-1] == b"order-0020"


@pytest.mark.parametrize(
    ("after_ms", "numbers"), [(-1, ""), (0, "0"), (1, "0"), (2, "04"), (1001, "024"), (5000, "0124"), (60001, "01234")]
)
def test_a_delayed_message_is_returned_when_it_is_due_and_blocks_no_other(
    after_ms: int, numbers: str, tmp_path: Path
) -> None:
    texts = {str(number): entry["text"] for number, entry in enumerate(manifest_of("delayed5.bin")["entries"])}

    with opened("delayed5.bin", tmp_path, after_ms=after_ms) as queue:
        pulled = [(queue.pull() or b"").decode() for _ in numbers]

        assert pulled == [texts[number] for number in numbers]
        assert queue.pull() is None
        assert [body.decode() for body in queue.messages()] == [texts[key] for key in texts if key not in numbers]
