"""What a tag filter matches, and which filters are refused."""

import pytest

from warren.errors import MalformedFilter
from warren.storage.format.limits import FILTER_SIZE_MAX
from warren.storage.format.tags import TagFilter


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("eu", "eu"),
        ("eu.de", "eu.de"),
        ("*", "eu"),
        ("eu.*", "eu.de"),
        ("*.de", "eu.de"),
        ("eu.*.berlin", "eu.de.berlin"),
        ("#", "eu"),
        ("#", "eu.de.berlin"),
        ("eu.#", "eu"),
        ("eu.#", "eu.de"),
        ("eu.#", "eu.de.berlin"),
        ("*.#", "eu"),
        ("us;eu", "eu"),
        ("us.*;eu.#", "eu.de.berlin"),
        ("übersee.*", "übersee.öl"),
        ("eu.*", "eu.two\nlines"),
        ("eu.*", "eu."),
        ("a+b.(c", "a+b.(c"),
    ],
)
def test_a_filter_matches_the_tags_it_spells(text: str, tag: str) -> None:
    assert TagFilter.parse(text).matches(tag)


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("eu", "eur"),
        ("eu", "eu.de"),
        ("eu", "EU"),
        ("eu.de", "eu-de"),
        ("*", "eu.de"),
        ("eu.*", "eu"),
        ("eu.*", "eu.de.berlin"),
        ("eu.#", "eur"),
        ("eu.#", "eur.de"),
        ("us;eu", "us;eu"),
        ("us;eu.*", "us.de"),
        ("eu", "eu\n"),
    ],
)
def test_a_filter_matches_no_other_tag(text: str, tag: str) -> None:
    assert not TagFilter.parse(text).matches(tag)


@pytest.mark.parametrize("text", ["#", "*", "*.#", "eu;#"])
def test_a_filter_never_matches_an_untagged_message(text: str) -> None:
    assert not TagFilter.parse(text).matches("")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is empty"),
        ("eu;", "an alternative is empty"),
        (";eu", "an alternative is empty"),
        ("eu..de", "a level is empty"),
        (".eu", "a level is empty"),
        ("eu.", "a level is empty"),
        ("#.eu", "may only be the last level"),
        ("eu.#.de", "may only be the last level"),
        ("#.#", "may only be the last level"),
        ("eu*", "whole levels"),
        ("eu.d#", "whole levels"),
        ("**", "whole levels"),
        ("eu.##", "whole levels"),
        ("\ud800", "not valid Unicode"),
        ("x" * (FILTER_SIZE_MAX + 1), "over the limit"),
        ("ü" * (FILTER_SIZE_MAX // 2 + 1), "over the limit"),
    ],
)
def test_a_malformed_filter_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(MalformedFilter, match=reason) as caught:
        TagFilter.parse(text)

    assert caught.value.text == text


def test_a_filter_of_the_largest_size_is_taken() -> None:
    text = "x" * FILTER_SIZE_MAX

    assert TagFilter.parse(text).matches(text)


def test_filters_with_the_same_text_are_equal_and_show_it() -> None:
    assert TagFilter.parse("eu.*") == TagFilter.parse("eu.*")
    assert len({TagFilter.parse("eu.*"), TagFilter.parse("eu.*"), TagFilter.parse("eu.#")}) == 2
    assert repr(TagFilter.parse("eu.*")) == "TagFilter('eu.*')"
