"""Kinds of settings and tables of settings: what they accept, and the sentence for what they refuse."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.tidy.source import SOURCE
from warren.broker.configuration import KEYS
from warren.errors import BadInput, BadName
from warren.queue.state.group_settings import GROUP_SETTINGS
from warren.queue.state.settings import TOPIC_SETTINGS
from warren.settings import (
    Count,
    Either,
    Flag,
    Kind,
    ListOf,
    Number,
    OneOf,
    OrNone,
    Parsed,
    Seconds,
    Setting,
    Size,
    Table,
    Text,
    matching,
    nearest,
    regular_expression,
    setting,
    unknown,
)
from warren.spark.pipelines.definition import SECTIONS
from warren.spark.read.options import READ_OPTIONS
from warren.spark.store_access.options import STORE_OPTIONS
from warren.spark.write.options import WRITE_OPTIONS

TABLES: Final[dict[str, Table]] = {
    "topic": TOPIC_SETTINGS,
    "group": GROUP_SETTINGS,
    "broker": KEYS,
    "Spark, store": STORE_OPTIONS,
    "Spark, reading": READ_OPTIONS,
    "Spark, writing": WRITE_OPTIONS,
    **{f"pipeline, {section}": table for section, table in SECTIONS.items()},
}
UNTERMINATED: Final = "missing ), unterminated subpattern at position 0"
CONVERTED: Final = ("assign", "watermark", "python")
"""Settings whose values are of another type than their texts."""
KINDS: Final[dict[str, Kind[Any]]] = {
    "count": Count(1, 1000),
    "count without end": Count(1),
    "size": Size(4096, 1 << 29),
    "number": Number(0, 1 << 53),
    "seconds": Seconds(0.05, 60),
    "seconds above": Seconds(0, 60, is_above=True),
    "flag": Flag(),
    "yes or no": Flag("yes", "no"),
    "one of": OneOf(("none", "zstd")),
    "one of, any case": OneOf(("PERMISSIVE", "FAILFAST"), ignores_case=True),
    "text": Text(is_required=True),
    "matching": matching(r"[a-z]+", "letters"),
    "list": ListOf(Count(0, 9), "numbers", least=1),
    "either": Either(OneOf(("start", "end")), Count(), "start, end or a time"),
    "or none": OrNone(Count(1, 5)),
    **{f"{table}: {each.name}": each.kind for table, settings in TABLES.items() for each in settings.values()},
}
SENTENCE_SIZE_MAX: Final = 2000
JUNK: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(st.characters()),
    st.binary(),
    st.datetimes(),
    st.recursive(
        st.integers() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3) | st.tuples(inner),
        max_leaves=6,
    ),
)


@pytest.mark.parametrize("name", KINDS)
@given(value=JUNK)
@example(10**5000)
@example([10**5000])
@example(math.nan)
@example(math.inf)
@example("\ud800")
@example("9" * 5000)
def test_every_kind_accepts_a_value_or_raises_bad_input(name: str, value: object) -> None:
    kind = KINDS[name]

    try:
        accepted = kind.check(value)
    except BadInput as error:
        size = len(str(error))
    else:
        size = 1
        assert name.endswith(CONVERTED) or kind.check(accepted) == accepted

    assert 0 < size < SENTENCE_SIZE_MAX


@pytest.mark.parametrize("name", KINDS)
@given(text=st.text(st.characters()) | st.from_regex(r"[-+]?[0-9.]{1,5}([kmgt]i?b|ms|[smhdw])?", fullmatch=True))
@example("")
@example("nan")
@example("inf")
@example("1e999")
@example("9" * 5000)
@example("٣")
@example("²")
@example("\ud800")
@example(",")
def test_every_kind_parses_a_text_or_raises_bad_input(name: str, text: str) -> None:
    kind = KINDS[name]

    try:
        parsed = kind.parse(text)
    except BadInput as error:
        size = len(str(error))
    else:
        size = 1
        assert name.endswith(CONVERTED) or kind.check(parsed) == parsed

    assert 0 < size < SENTENCE_SIZE_MAX


@pytest.mark.parametrize(
    ("kind", "value", "accepted"),
    [
        (Count(1, 9), 9, 9),
        (Seconds(0, 9), 3, 3.0),
        (Flag(), False, False),
        (OneOf(("a", "b")), "b", "b"),
        (OneOf(("JSON",), ignores_case=True), "json", "JSON"),
        (ListOf(Count(0, 9), "numbers"), [1, 2], (1, 2)),
        (ListOf(Text(), "a list of text"), (), ()),
        (Either(OneOf(("start", "end")), Count(), "start, end or a time"), "end", "end"),
        (Either(OneOf(("start", "end")), Count(), "start, end or a time"), 5, 5),
        (ListOf(Text(), "words", accepts_one=True), "a", ("a",)),
        (OrNone(Count(1, 9)), None, None),
        (matching("[a-z]+", "letters"), " abc ", "abc"),
    ],
)
def test_a_value_of_the_kind_is_accepted(kind: Kind[Any], value: object, accepted: object) -> None:
    assert kind.check(value) == accepted


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Count(0, 99), " 42 ", 42),
        (Size(0, 1 << 30), "64KiB", 64 << 10),
        (Size(0, 1 << 30), "1000", 1000),
        (Seconds(0, 9999), "2.5", 2.5),
        (Seconds(0, 9999), "1h30m", 5400.0),
        (Flag(), "True", True),
        (Flag("yes", "no"), "no", False),
        (ListOf(Text(), "a list of text"), " a, b ,", ("a", "b")),
        (OrNone(Size(1, 9), "-1"), "-1", None),
        (OrNone(OneOf(("none", "all")), "default"), "none", "none"),
    ],
)
def test_a_text_is_parsed(kind: Kind[Any], text: str, value: object) -> None:
    assert kind.parse(text) == value


@pytest.mark.parametrize(
    ("kind", "value", "sentence"),
    [
        (Count(1, 9), 10, "expected a whole number from 1 to 9, not 10"),
        (Count(1, 9), True, "expected a whole number from 1 to 9, not True"),
        (Count(1), 0, "expected a whole number above 0, not 0"),
        (Count(0), -1, "expected a whole number from 0 on, not -1"),
        (Seconds(0.05, 60), 0, "expected seconds from 0.05 to 60, not 0"),
        (Seconds(0, 60, is_above=True), 0.0, "expected seconds above 0, at most 60, not 0.0"),
        (Number(0, 5), 6, "expected a number from 0 to 5, not 6"),
        (Flag(), 1, "expected true or false, not 1"),
        (OneOf(("json", "csv")), "jsno", "expected one of json, csv, not 'jsno'; did you mean 'json'?"),
        (OneOf(("json", "csv")), "xml!", "expected one of json, csv, not 'xml!'"),
        (Text(is_required=True), " ", "expected text that is not empty, not ' '"),
        (ListOf(Text(), "words", least=1), [], "expected words, not []"),
        (ListOf(Count(0, 9), "numbers"), [1, "x"], "expected a whole number from 0 to 9, not 'x'"),
        (ListOf(Text(), "words"), "a", "expected words, not 'a'"),
        (Either(OneOf(("start", "end")), Count(), "start or a time"), "now", "expected start or a time, not 'now'"),
        (OrNone(Count(1, 9)), 0, "expected a whole number from 1 to 9, not 0 (None is allowed too)"),
        (
            regular_expression(),
            "(",
            f"'(' is not a regular expression: {UNTERMINATED}",
        ),
        (Text(), b"x" * 200, f"expected text, not b'{'x' * 78}…"),
    ],
)
def test_an_error_names_the_expected_and_the_actual_value(kind: Kind[Any], value: object, sentence: str) -> None:
    with pytest.raises(BadInput) as error:
        kind.check(value)

    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("kind", "text", "sentence"),
    [
        (Size(1, 9), "big", "expected a size from 1 to 9 bytes, such as 1000, 64KiB, 8MiB or 2GiB, not 'big'"),
        (Size(1, 9), "1k", "expected a size from 1 to 9 bytes, such as 1000, 64KiB, 8MiB or 2GiB, not '1k'"),
        (Number(0, 60), "30s", "expected a number from 0 to 60, not '30s'"),
        (Seconds(0, 60), "soon", "expected seconds from 0 to 60, such as 2.5 or 30s, not 'soon'"),
        (Seconds(0, 60), "2h", "expected seconds from 0 to 60, such as 2.5 or 30s, not '2h'"),
        (OrNone(Count(1, 9), "-1"), "0", "expected a whole number from 1 to 9, not '0' (-1 is allowed too)"),
        (ListOf(Text(), "words", least=1), " , ", "expected words, not ' , '"),
    ],
)
def test_an_error_about_a_text_says_how_it_is_written(kind: Kind[Any], text: str, sentence: str) -> None:
    with pytest.raises(BadInput) as error:
        kind.parse(text)

    assert str(error.value) == sentence


def test_an_error_of_another_class_passes_unchanged() -> None:
    def convert(text: str) -> str:
        raise BadName("topic", text, "no")

    table = Table("setting", [Setting("topic", OrNone(Parsed("a topic", convert)), None, "a topic")])

    with pytest.raises(BadName, match=r"^topic name 'a/b': no$"):
        table.check("topic", "a/b")


# --- Tables ---


@dataclass(frozen=True, kw_only=True)
class Sample:
    size: int = setting(Size(1, 100), "how large it is", 10)
    text: str = setting(Text(), "what it says", "hello", name="word")


SAMPLE: Final = Table.of("setting", Sample)


def test_a_table_is_made_from_the_fields_of_a_dataclass() -> None:
    assert list(SAMPLE.values()) == [
        Setting("size", Size(1, 100), 10, "how large it is", "size"),
        Setting("word", Text(), "hello", "what it says", "text"),
    ]
    assert Sample() == Sample(size=10, text="hello")


def test_a_table_names_the_setting_in_its_errors() -> None:
    with pytest.raises(BadInput, match=r"^size: expected a whole number from 1 to 100, not 0$"):
        SAMPLE.check("size", 0)
    with pytest.raises(BadInput, match=r"^size: expected a size from 1 to 100 bytes, such as .*, not '0'$"):
        SAMPLE.parse("size", "0")
    with pytest.raises(BadInput, match=r"^size: "):
        SAMPLE.check_fields(Sample(size=0))
    with pytest.raises(BadInput, match=r"^word: expected text, not 5$"):
        SAMPLE.check_fields(Sample(text=5))  # type: ignore[arg-type]


def test_a_table_can_be_cut_down() -> None:
    assert list(SAMPLE.without("size")) == ["word"]


def test_a_file_may_write_any_value_as_text() -> None:
    assert (SAMPLE.read("size", "5"), SAMPLE.read("size", 5), SAMPLE.read("word", "5")) == (5, 5, "5")


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    SAMPLE.check_names(["size", "word"])

    with pytest.raises(BadInput, match=r"^there is no setting 'sise'; did you mean 'size'\?$"):
        SAMPLE.check_names(["word", "sise"])
    with pytest.raises(BadInput, match=r"^there is no setting 'colour'; there are size, word$"):
        SAMPLE.check_names(["colour"])


def test_the_most_similar_name_is_found_ignoring_case() -> None:
    assert nearest("STARTINGOFFSET", ["startingOffsets", "topics"]) == "startingOffsets"
    assert nearest("x", ["startingOffsets"]) == ""
    assert unknown("key", "k" * 1000, []) == f"there is no key '{'k' * 50}'; there are none"


def test_there_is_one_implementation_of_the_hint() -> None:
    users = [path for path in SOURCE.rglob("*.py") if "difflib" in path.read_text()]

    assert users == [SOURCE / "warren/settings.py"]


def test_the_list_of_tables_is_complete() -> None:
    used = re.compile(r"^(?:[A-Z_]+: Final = |    \"\w+\": )(?:Table|Table\.of|option_table)\(", re.MULTILINE)

    names = [name for path in SOURCE.rglob("*.py") for name in used.findall(path.read_text())]

    # The keys of the broker are those of four tables.
    assert len(names) == len(TABLES) + 3


@pytest.mark.parametrize("table", TABLES)
def test_every_default_is_a_value_of_its_setting_and_every_description_part_of_a_sentence(table: str) -> None:
    for name, each in TABLES[table].items():
        # An empty default stands for a setting that is missing.
        if each.default not in (None, "", ()):
            assert TABLES[table].check(name, each.default) == each.default
        assert each.description, name
        assert not each.description.endswith("."), name
