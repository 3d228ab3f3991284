"""How many examples Hypothesis tries: as many as a test requests, or few in the profile `quick`."""

from __future__ import annotations

from hypothesis import settings


def examples(count: int) -> int:
    """Returns `count`, or the number of the profile `quick` if that is less and `make quick` has chosen it.

    A number in a test's own settings would override the profile.
    """
    quick = settings.get_profile("quick")
    return min(count, quick.max_examples) if settings.default is quick else count
