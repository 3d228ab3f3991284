"""The options of a Spark query that reads: each is checked, and a bad one is an error with advice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.simulated_clock import START_NS, SimulatedClock
from warren.errors import BadOption, MalformedFilter
from warren.spark.read.bounds import EARLIEST, LATEST
from warren.spark.read.options import ReadOptions
from warren.spark.store_access.files import FileAccess
from warren.spark.store_access.options import STORE_OPTIONS, access_of
from warren.spark.store_access.raw_options import RawOptions
from warren.spark.store_access.through_broker import BrokerAccess
from warren.spark.write.options import WRITE_OPTIONS

NOW_US = START_NS // 1000


def parsed(is_stream: bool = False, /, **options: str) -> ReadOptions:
    values = {"path": "data", "topics": "orders", **options}
    return ReadOptions.parse(
        {name.lower(): value for name, value in values.items() if value}, is_stream=is_stream, clock=SimulatedClock()
    )


def test_a_batch_reads_all_messages_and_a_stream_new_ones() -> None:
    batch, stream = parsed(), parsed(True)

    assert (batch.start.everywhere, batch.end.everywhere) == (EARLIEST, LATEST)
    assert stream.start.everywhere == LATEST
    assert batch.fail_on_data_loss
    assert not batch.include_headers
    assert (batch.value_format, batch.mode, batch.corrupt_column) == ("binary", "PERMISSIVE", "_corrupt_record")
    assert (batch.group, batch.tag, batch.partitions_min, batch.archive) == (None, None, None, None)


@pytest.mark.parametrize(
    ("option", "nearest"),
    [("topic", "topics"), ("startingOffset", "startingOffsets"), ("maxOffsetPerTrigger", "maxOffsetsPerTrigger")],
)
def test_an_unknown_option_is_refused_with_the_nearest_known_one(option: str, nearest: str) -> None:
    with pytest.raises(BadOption, match=f"did you mean '{nearest}'"):
        parsed(**{option: "x"})


def test_an_option_like_no_other_is_refused_with_all_there_are() -> None:
    with pytest.raises(BadOption, match=r"there are .*topics.*valueFormat"):
        parsed(zzzzzz="x")


@pytest.mark.parametrize(
    "option", ["kafka.bootstrap.servers", "kafka.group.id", "groupIdPrefix", "spark.x", "provider", "option.topics"]
)
def test_options_of_kafka_or_spark_are_accepted_and_have_no_effect(option: str) -> None:
    assert parsed(**{option: "x"}) == parsed()


def test_impossible_options_are_refused_with_the_reason() -> None:
    with pytest.raises(BadOption, match="interval of the trigger"):
        parsed(minOffsetsPerTrigger="x")


def test_the_sink_checks_its_options_in_the_same_way() -> None:
    RawOptions.of(WRITE_OPTIONS, {"txnappid": "x"}).check_names()

    with pytest.raises(BadOption, match="did you mean 'txnAppId'"):
        RawOptions.of(WRITE_OPTIONS, {"txnapid": "x"}).check_names()


@pytest.mark.parametrize(("path", "directory"), [("data", "data"), ("/a b", "/a b"), ("file:/a%20b", "/a b")])
def test_the_path_is_a_directory(path: str, directory: str) -> None:
    assert access_of(RawOptions.of(STORE_OPTIONS, {"path": path})) == FileAccess(directory)


@pytest.mark.parametrize(("path", "reason"), [("", "it is missing"), ("s3://bucket/data", "mounted")])
def test_a_bad_path_is_refused(path: str, reason: str) -> None:
    with pytest.raises(BadOption, match=reason):
        access_of(RawOptions.of(STORE_OPTIONS, {"path": path}))


@pytest.mark.parametrize("option", ["servers", "kafka.bootstrap.servers"])
def test_instead_of_a_path_a_broker_is_named_as_a_query_for_kafka_does(option: str) -> None:
    access = access_of(RawOptions.of(STORE_OPTIONS, {option: " host:9092 "}))

    assert access == BrokerAccess(servers="host:9092")


def test_options_name_the_user_and_a_password_is_never_shown(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("open sesame \n")
    values = {"servers": "h", "user": "spark", "tls": "true", "tlsca": "ca.pem", "timeout": "2.5"}

    access = access_of(RawOptions.of(STORE_OPTIONS, {**values, "passwordfile": str(tmp_path / "secret")}))

    assert access == access_of(RawOptions.of(STORE_OPTIONS, {**values, "password": "open sesame "}))
    assert isinstance(access, BrokerAccess)
    assert (access.password, access.is_tls, access.authority, access.timeout_s) == ("open sesame ", True, "ca.pem", 2.5)
    assert "sesame" not in f"{access!r} {access}"


def test_options_name_some_brokers_of_a_cluster_and_a_rack() -> None:
    access = access_of(RawOptions.of(STORE_OPTIONS, {"servers": "a:9092, b:9092", "rack": " b "}))

    assert access == BrokerAccess(servers="a:9092, b:9092", rack="b")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"path": "data", "servers": "h"}, "'servers': path is also set"),
        ({}, "'path': it is missing: .* or its broker with servers"),
        ({"servers": "host:port"}, "'servers': address 'host:port'"),
        ({"servers": "a:1,host:port"}, "'servers': address 'host:port'"),
        ({"servers": "a:1,"}, "'servers': address ''"),
        ({"path": "data", "rack": "b"}, "'rack': it needs the option servers"),
        ({"servers": "h", "rack": "r" * 256}, "'rack': it has 256 characters; the limit is 255"),
        ({"path": "data", "user": "u"}, "'user': it needs the option servers"),
        ({"servers": "h", "user": "u"}, "'password': it is missing"),
        ({"servers": "h", "password": "p"}, "'user': it is missing"),
        ({"servers": "h", "user": "u", "passwordfile": "/no/such"}, "'passwordFile': '/no/such': No such file"),
        ({"servers": "h", "user": "u", "password": "p", "passwordfile": "f"}, "'passwordFile': password is also set"),
        ({"servers": "h", "timeout": "0"}, "'timeout'"),
    ],
)
def test_a_store_that_is_not_named_well_is_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(BadOption, match=reason):
        access_of(RawOptions.of(STORE_OPTIONS, options))


@pytest.mark.parametrize(("content", "reason"), [(None, "cannot be read"), ("not a certificate", "NO_CERTIFICATE")])
def test_a_ca_file_that_cannot_be_used_is_refused_with_the_name_of_the_host(
    content: str | None, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)

    with pytest.raises(BadOption, match=rf"'tlsCa': .*ca\.pem.*{reason}.*, on the host ."):
        BrokerAccess(servers="127.0.0.1:1", authority=str(path)).connect()


# --- Topics ---


@pytest.mark.parametrize("option", ["topics", "subscribe"])
def test_topics_are_named(option: str) -> None:
    choice = parsed(**{"topics": "", option: " orders, payments,orders "}).choice

    assert choice.names == ("orders", "payments")


@pytest.mark.parametrize("option", ["topicsPattern", "subscribePattern"])
def test_topics_are_matched_by_a_pattern(option: str) -> None:
    assert parsed(**{"topics": "", option: "order.*"}).choice.pattern == "order.*"


def test_partitions_are_assigned() -> None:
    assert parsed(topics="", assign='{"orders": [2, 0, 2]}').choice.assigned == {"orders": (0, 2)}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"topics": ""}, "no topic is named"),
        ({"subscribe": "payments"}, "topics and subscribe are both set"),
        ({"topics": "", "topicsPattern": "("}, "not a regular expression"),
        ({"topics": "a/b"}, "topic name 'a/b'"),
        ({"topics": "", "assign": "orders"}, "expected JSON"),
        ({"topics": "", "assign": '{"orders": ["0"]}'}, "expected JSON"),
        ({"topics": "", "assign": '{"orders": [-1]}'}, "expected JSON"),
        ({"topics": "", "assign": '["orders"]'}, "expected JSON"),
    ],
)
def test_invalid_topics_are_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(BadOption, match=reason):
        parsed(**options)


# --- Starts and ends ---


def test_offsets_are_words_or_numbers_for_each_partition() -> None:
    named = parsed(startingOffsets='{"orders": {"0": 23, "1": -2}}', endingOffsets='{"orders": {"0": -1, "1": 7}}')

    assert [named.start.of("orders", 0), named.start.of("orders", 1)] == [23, EARLIEST]
    assert [named.end.of("orders", 0), named.end.of("orders", 1)] == [LATEST, 7]
    assert parsed(startingOffsets="EARLIEST").start.of("orders", 3) == EARLIEST


def test_a_missing_partition_is_requested() -> None:
    bound = parsed(startingOffsets='{"orders": {"0": 23}}').start

    with pytest.raises(BadOption, match="does not name partition 1 of topic 'orders'"):
        bound.of("orders", 1)


@pytest.mark.parametrize(
    ("text", "expected_us"),
    [
        ("1700000000123", 1_700_000_000_123_000),
        ("2023-11-14T22:13:20", START_NS // 1000),
        ("2023-11-14T23:13:20+01:00", START_NS // 1000),
        ("2023-11-14", 1_699_920_000_000_000),
        ("-10 minutes", NOW_US - 600_000_000),
        ("- 1.5 Hours", NOW_US - 5_400_000_000),
        ("-1 day", NOW_US - 86_400_000_000),
    ],
)
def test_times_are_iso_or_milliseconds_or_so_long_ago(text: str, expected_us: int) -> None:
    options = parsed(startingTimestamp=text, endingOffsetsByTimestamp=f'{{"orders": {{"0": "{text}"}}}}')

    assert (options.start.is_time, options.start.of("orders", 5)) == (True, expected_us)
    assert (options.end.is_time, options.end.of("orders", 0)) == (True, expected_us)


def test_a_time_goes_before_a_time_for_each_partition_and_that_before_offsets_as_in_kafka() -> None:
    each = '{"orders": {"0": 1000}}'

    assert parsed(startingOffsets="earliest", startingOffsetsByTimestamp=each).start.of("orders", 0) == 1_000_000
    assert parsed(startingTimestamp="2000", startingOffsetsByTimestamp=each).start.of("orders", 0) == 2_000_000


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"startingOffsets": "latest"}, "would read nothing"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "would read nothing"),
        ({"endingOffsets": "earliest"}, "would read nothing"),
        ({"startingOffsets": "first"}, "expected earliest, latest or JSON"),
        ({"startingOffsets": '{"orders": {"a": 1}}'}, "expected earliest, latest or JSON"),
        ({"startingOffsets": '{"orders": {"0": "x"}}'}, "expected a number"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "expected a number"),
        ({"startingTimestamp": "yesterday"}, "expected a time such as"),
        ({"startingTimestamp": "1969-01-01"}, "after 1970"),
        ({"startingOffsetsByTimestamp": "1000"}, "expected JSON"),
    ],
)
def test_invalid_starts_and_ends_are_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(BadOption, match=reason):
        parsed(**options)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(BadOption, match="a stream has no end"):
        parsed(True, endingOffsets="latest")


# --- The others ---


def test_the_other_options() -> None:
    options = parsed(
        tag="eu.#",
        failOnDataLoss="False",
        maxOffsetsPerTrigger="10",
        maxBytesPerTrigger="1000",
        minPartitions="4",
        group="billing",
        includeHeaders="true",
        valueFormat="JSON",
        mode="failfast",
        columnNameOfCorruptRecord="bad",
        messageColumns="offset, id",
        archive="old",
        sep=";",
    )

    assert (options.tag, options.fail_on_data_loss, options.group) == ("eu.#", False, "billing")
    assert (options.offsets_per_trigger_max, options.bytes_per_trigger_max, options.partitions_min) == (10, 1000, 4)
    assert (options.include_headers, options.value_format, options.mode) == (True, "json", "FAILFAST")
    assert (options.corrupt_column, options.message_columns, options.separator) == ("bad", ("offset", "id"), ";")
    assert options.archive == "old"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"failOnDataLoss": "yes"}, "expected true or false"),
        ({"maxOffsetsPerTrigger": "0"}, "whole number above 0"),
        ({"minPartitions": "1000000"}, "whole number from 1 to 100000"),
        ({"valueFormat": "xml"}, "one of binary, json, csv, text"),
        ({"group": "a/b"}, "group name"),
    ],
)
def test_invalid_values_are_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(BadOption, match=reason):
        parsed(**options)


def test_a_malformed_tag_filter_is_refused_immediately() -> None:
    with pytest.raises(MalformedFilter):
        parsed(tag="a..b")
