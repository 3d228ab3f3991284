"""A batch is split by the keys of its messages, in one way for every caller."""

from __future__ import annotations

from typing import Any

import pytest

from warren.errors import BadInput
from warren.queue.state.routing import partition_of, split_by_partition
from warren.storage.format.columns import Batch

KEYS = [b"a", None, b"b", b"c", None, b"a"]


def batch() -> Batch:
    rows = range(len(KEYS))
    return Batch([b"%d" % row for row in rows], None, KEYS, [f"id-{row}" for row in rows], None, list(rows))


def test_every_row_goes_to_the_partition_of_its_key_with_all_of_its_columns() -> None:
    parts = split_by_partition(batch(), 4, 2)

    assert [part.partition for part in parts] == sorted({2, *(partition_of(key, 4) for key in KEYS if key)})
    assert sorted(row for part in parts for row in part.rows) == list(range(len(KEYS)))
    for partition, rows, part in parts:
        assert all(partition == (2 if KEYS[row] is None else partition_of(KEYS[row] or b"", 4)) for row in rows)
        assert part == Batch(
            [b"%d" % row for row in rows],
            None,
            [KEYS[row] for row in rows],
            [f"id-{row}" for row in rows],
            None,
            list(rows),
        )


@pytest.mark.parametrize("fields", [{"keys": None}, {}])
def test_a_batch_without_keys_or_with_a_named_partition_is_not_split(fields: dict[str, Any]) -> None:
    whole = batch()._replace(**fields)

    ((partition, rows, part),) = split_by_partition(whole, 4, 3, by_key=False)

    assert (partition, list(rows), part) == (3, list(range(len(KEYS))), whole)
    assert (not fields) or split_by_partition(whole, 4, 3) == [(3, range(len(KEYS)), whole)]


@pytest.mark.parametrize("wrong", [{"keys": ["a"] * 6}, {"keys": [b"a"]}, {"tags": ["one"]}])
def test_a_key_that_is_not_bytes_and_a_column_of_another_length_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=r"key|tags"):
        split_by_partition(batch()._replace(**wrong), 4, 0)
