"""What one request or answer may hold: sizes in bytes, counts, waits in seconds."""

from __future__ import annotations

from typing import Final

from warren.storage.format.limits import BODY_SIZE_MAX

FRAME_SIZE_MAX: Final = 100 << 20
"""The largest request that is taken: Kafka's own default."""
ANSWER_SIZE_MAX: Final = BODY_SIZE_MAX + (1 << 20)
"""The largest answer of our own calls that a client takes: a message of the largest size, and all that is with it."""
FRAME_BUFFER_SIZE: Final = 64 << 10
"""What each connection receives small frames into; larger ones get a buffer of their own."""
REQUEST_ARRAY_COUNT_MAX: Final = 10_000
"""The most elements of one array of a request, unless the array has a limit of its own: topics, keys, partitions."""
PRODUCE_PARTITIONS_MAX: Final = 10_000
FETCH_PARTITIONS_MAX: Final = 10_000
"""The most partitions, over all topics, that one Produce or one Fetch names."""
PRODUCE_BATCHES_MAX: Final = 100
"""The most batches that one Produce may have for one partition. Kafka's clients send one."""
SCRAM_NONCE_SIZE: Final = 24
NATIVE_LIMIT_MAX: Final = 65_536
"""How many messages one answer of our own calls holds."""
NATIVE_WAIT_S_MAX: Final = 20.0
"""How long one request of our own calls waits at the broker; clients that wait longer ask again."""
KAFKA_BATCH_COUNT_MAX: Final = 1 << 20
"""Records in a batch of a Kafka client: as many as librdkafka can be configured to put there."""
