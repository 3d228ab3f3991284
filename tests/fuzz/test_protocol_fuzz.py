"""Bytes from a stranger: the decoders return a request or raise one of their own errors, and take memory in proportion.

Everything is drawn from a seed, which a failure prints.
"""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import pytest

from tests.fuzz.batches import wounded
from tests.support.kafka_batches import batch_of
from tests.support.message_values import decode_request, encode_request
from tests.support.protocol_values import every_version, made_up, message_named
from warren.errors import BadBatch, BadFrame, MalformedRequest, ProtocolError, UnsupportedRequest
from warren.protocol.api_keys import APIS, ApiKey
from warren.protocol.frames import FrameReader
from warren.protocol.headers import read_request
from warren.protocol.kafka.fetch import decode_fetch
from warren.protocol.kafka.produce import decode_produce
from warren.protocol.kafka.record_batch import check_records, split
from warren.storage.format.checksum import crc32c
from warren.storage.format.layout import KAFKA_BATCH_HEAD, KAFKA_CHECKED_AT, KafkaBatchHead

ROUNDS: Final = 40
MEMORY_A_BYTE_MAX: Final = 400
MEMORY_FREE: Final = 256 << 10
VERSIONS: Final = list(every_version())

Decoder = Callable[[memoryview], object]


def peak_of(decode: Decoder, body: bytes) -> int:
    """Returns how much memory decoding takes at most. Only the decoders' own errors are accepted."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    with suppress(MalformedRequest, UnsupportedRequest, BadBatch):
        decode(memoryview(body))
    _, peak = tracemalloc.get_traced_memory()
    return peak - before


@pytest.fixture(autouse=True)
def _traced() -> object:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def decoder_of(api_key: int, version: int) -> Decoder:
    if api_key == ApiKey.PRODUCE:
        return lambda body: decode_produce(version, body)
    if api_key == ApiKey.FETCH:
        return lambda body: decode_fetch(version, body)
    return lambda body: decode_request(api_key, version, body)


@pytest.mark.parametrize("seed", range(4))
def test_requests_of_every_version_that_were_tampered_with(seed: int) -> None:
    for api, version in VERSIONS:
        chance = random.Random(f"{seed} {api.name} {version}")
        body = encode_request(api.key, version, made_up(message_named(f"{api.name}Request").fields, version, seed))
        decode = decoder_of(api.key, version)
        decode(memoryview(body))
        for round_number in range(ROUNDS // 4):
            data = wounded(body, chance)

            peak = peak_of(decode, data)

            assert peak <= MEMORY_FREE + MEMORY_A_BYTE_MAX * len(data), (seed, api.name, version, round_number)


@pytest.mark.parametrize("seed", range(3))
def test_bytes_at_random_as_requests(seed: int) -> None:
    chance = random.Random(seed)
    for api, version in VERSIONS:
        decode = decoder_of(api.key, version)
        for size in (0, 1, 7, 60, 500):
            data = bytes(chance.choices([0, 1, 2, 3, 5, 127, 128, 255], k=size)) if seed else chance.randbytes(size)

            assert peak_of(decode, data) <= MEMORY_FREE + MEMORY_A_BYTE_MAX * size, (seed, api.name, version)


@pytest.mark.parametrize("filler", [b"\xff", b"\x80", b"\x01", b"\x00", b"\x02", b"\x7f"])
def test_a_megabyte_of_one_byte_is_decoded_or_refused_in_proportion(filler: bytes) -> None:
    for api in APIS.values():
        for version in {api.first, api.last}:
            decode = decoder_of(api.key, version)

            assert peak_of(decode, filler * (1 << 20)) <= MEMORY_A_BYTE_MAX << 20, (api.name, version)


@pytest.mark.parametrize("seed", range(20))
def test_a_stream_of_frames_that_was_tampered_with(seed: int) -> None:
    chance = random.Random(seed)
    bodies = [chance.randbytes(chance.choice([0, 3, 100, 5000])) for _ in range(20)]
    stream = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    if seed:
        stream = wounded(stream, chance)
    reader = FrameReader(size_max=10_000, buffer_size=512)
    frames = []

    with suppress(BadFrame):
        while stream:
            size = chance.choice([1, 3, 50, 3000])
            frames += reader.feed(stream[:size])
            stream = stream[size:]

    assert all(len(frame) <= 10_000 for frame in frames)
    assert seed or [bytes(frame) for frame in frames] == bodies
    for frame in frames:
        with suppress(ProtocolError):
            request = read_request(frame)
            decode_request(request.api_key, request.version, request.body)


def test_a_peer_that_announces_much_and_sends_little_costs_little() -> None:
    readers = [FrameReader() for _ in range(20)]

    for reader in readers:
        reader.feed(struct.pack(">i", 90 << 20) + b"x")

    # Announced memory is not touched before it is received. Only touched memory counts.
    with open("/proc/self/statm") as statm:
        resident = int(statm.read().split()[1]) * 4096
    assert resident < 20 * 90 << 20


@pytest.mark.parametrize("seed", range(60))
def test_batches_with_false_counts_sizes_and_checksums(seed: int) -> None:
    chance = random.Random(seed)
    records = [
        (b"k", chance.randbytes(chance.choice([0, 5, 300])), [("h", b"v")]) for _ in range(chance.choice([1, 80]))
    ]
    batch = bytearray(batch_of(records, compression=seed % 5))
    head = KafkaBatchHead._make(KAFKA_BATCH_HEAD.unpack_from(batch))
    for _ in range(ROUNDS):
        data = bytearray(wounded(bytes(batch), chance))
        if len(data) > KAFKA_BATCH_HEAD.size and chance.random() < 0.8:
            count = chance.choice([head.record_count, 1, 79, 1 << 30])
            lying = head._replace(
                batch_length=len(data) - 12,
                record_count=count,
                last_offset_delta=count - 1,
                attributes=chance.choice([head.attributes, head.attributes, 1, 2, 3, 4]),
            )
            data[: KAFKA_BATCH_HEAD.size] = KAFKA_BATCH_HEAD.pack(*lying)
            # Its maker computed the checksum of its content, valid or not.
            lying = lying._replace(checksum=crc32c(bytes(data[KAFKA_CHECKED_AT:])))
            data[: KAFKA_BATCH_HEAD.size] = KAFKA_BATCH_HEAD.pack(*lying)

        peak = peak_of(check_all, bytes(data))

        assert peak <= 64 << 20, seed


def check_all(data: memoryview) -> None:
    for batch in split(data):
        check_records(batch)
