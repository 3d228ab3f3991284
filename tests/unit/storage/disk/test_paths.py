"""Every file name of a log, made and parsed."""

from __future__ import annotations

import pytest

from warren.storage.disk import paths


def test_the_files_of_a_log_have_these_names() -> None:
    assert paths.index_path("log") == "log/index"
    assert paths.new_index_path("log") == "log/index.new"
    assert paths.lock_path("log") == "log/writer.lock"
    assert paths.readers_directory("log") == "log/readers"
    assert paths.reader_path("log", "billing") == "log/readers/billing.reader"


@pytest.mark.parametrize(
    ("base_offset", "version", "name"),
    [
        (0, 2, "00000000000000000000.block"),
        (67_108_864, 2, "00000000000067108864.block"),
        (0, 1, "00000000000000000000.zbus"),
        (2**63, 1, "09223372036854775808.zbus"),
    ],
)
def test_a_block_is_named_by_its_base_offset(base_offset: int, version: int, name: str) -> None:
    assert paths.block_path("log", base_offset, version) == f"log/{name}"
    assert paths.block_base_offset(name, version) == base_offset
    assert paths.block_base_offset(name, 3 - version) is None


@pytest.mark.parametrize(
    "name",
    ["index", "0.block", "00000000000000000000.block.cut", "x00000000000000000000.block", "0000000000000000000a.block"],
)
def test_other_names_are_no_blocks(name: str) -> None:
    assert paths.block_base_offset(name, 2) is None


def test_a_reader_is_identified_by_its_file() -> None:
    assert paths.reader_name("eu.billing.reader") == "eu.billing"
    assert paths.reader_name("billing.reader.new") is None
    assert paths.reader_name("index") is None
