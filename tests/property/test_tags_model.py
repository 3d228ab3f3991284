"""Tag filters against a naive recursive model, over a small alphabet in which matches are likely."""

from hypothesis import example, given
from hypothesis import strategies as st

from warren.errors import MalformedFilter
from warren.storage.format.tags import TagFilter

LEVELS = st.sampled_from(["a", "b", "ab", "é", "+"])
PATTERN_LEVELS = LEVELS | st.just("*")
TAGS = st.lists(LEVELS | st.just(""), max_size=4).map(".".join)


@st.composite
def alternatives(draw: st.DrawFn) -> str:
    levels = draw(st.lists(PATTERN_LEVELS, max_size=4))
    if not levels or draw(st.booleans()):
        levels.append("#")
    return ".".join(levels)


FILTERS = st.lists(alternatives(), min_size=1, max_size=3).map(";".join)


def model_matches(pattern: list[str], levels: list[str]) -> bool:
    if pattern == ["#"]:
        return True
    if not pattern or not levels:
        return not pattern and not levels
    return pattern[0] in ("*", levels[0]) and model_matches(pattern[1:], levels[1:])


def model(text: str, tag: str) -> bool:
    return tag != "" and any(model_matches(each.split("."), tag.split(".")) for each in text.split(";"))


@given(FILTERS, TAGS)
@example("a.#", "a")
@example("*", "")
def test_a_filter_matches_the_tags_that_the_model_matches(text: str, tag: str) -> None:
    assert TagFilter.parse(text).matches(tag) == model(text, tag)


@given(st.text(alphabet="ab.*#;", max_size=8))
def test_any_text_is_a_filter_or_is_refused_as_malformed(text: str) -> None:
    levels = [alternative.split(".") for alternative in text.split(";")]
    is_well_formed = all(
        all(level and (len(level) == 1 or not set(level) & {"*", "#"}) for level in each) and "#" not in each[:-1]
        for each in levels
    )

    try:
        TagFilter.parse(text)
    except MalformedFilter:
        assert not is_well_formed
    else:
        assert is_well_formed
