"""How the long run over the network judges a broker that grows."""

from __future__ import annotations

import pytest

pytest.importorskip("confluent_kafka")
pytest.importorskip("kafka")
pytest.importorskip("aiokafka")

from tests.soak.network.hostile import SAMPLES_MIN, Waits, judged_waits
from tests.soak.network.run import PARTS, ROUNDS_MIN, WARM_PARTS, Stretch, judged, steady_growth
from tests.support.broker.watched import Usage

MB = 1 << 20
USUAL = Usage(resident=100 * MB, private=60 * MB, resident_max=100 * MB, files=130, threads=25)


def stretch(number: int, middle: Usage, last: Usage, seconds: float = 72.0) -> Stretch:
    return Stretch(number, seconds, middle, last)


def test_a_broker_that_takes_no_more_memory_than_before_is_not_at_fault() -> None:
    assert judged([stretch(number, USUAL, USUAL) for number in range(3)]) == []


@pytest.mark.parametrize(("name", "by"), [("resident", 41 * MB), ("private", 9 * MB), ("files", 41)])
def test_a_broker_that_grows_within_a_round_or_from_round_to_round_is_at_fault(name: str, by: int) -> None:
    grown = USUAL._replace(**{name: getattr(USUAL, name) + by})

    assert [fault.kind for fault in judged([stretch(0, USUAL, grown)])] == ["grown"]
    # A later round has more topics, whose files the broker opens when it starts.
    expected = [] if name == "files" else ["grown"]
    assert [fault.kind for fault in judged([stretch(0, USUAL, USUAL), stretch(1, grown, grown)])] == expected


def test_one_that_is_watched_for_longer_is_compared_with_itself_alone() -> None:
    grown = USUAL._replace(private=USUAL.private + 9 * MB)

    assert judged([stretch(0, USUAL, USUAL), stretch(1, grown, grown, 1200.0)]) == []


def test_a_measurement_that_was_too_short_proves_nothing() -> None:
    assert judged([stretch(0, USUAL, USUAL._replace(files=1000), 5.0)]) == []


def attacked(*levels_mb: float, seconds: float = 1200.0) -> Stretch:
    """A stretch under attack, with the private memory in each of its parts."""
    levels = [round(level * MB) for level in levels_mb]
    assert len(levels) == PARTS
    middle, last = (
        USUAL._replace(private=level, resident=40 * MB + level) for level in (levels[PARTS // 3], levels[-1])
    )
    return Stretch(0, seconds, middle, last, is_attacked=True, levels=levels)


def test_a_broker_under_attack_may_grow_at_first() -> None:
    assert judged([attacked(60, 70, 80, 90, *[100] * (PARTS - WARM_PARTS))]) == []


def test_a_broker_under_attack_that_leaks_a_megabyte_a_minute_is_at_fault() -> None:
    leaking = attacked(*(60 + part for part in range(PARTS)))

    assert [fault.kind for fault in judged([leaking])] == ["grown"]
    assert judged([leaking._replace(seconds=72.0)]) == []


def test_a_broker_under_attack_whose_heap_steps_up_is_not_at_fault() -> None:
    assert judged([attacked(*[99] * 9, *[117] * 11)]) == []
    assert judged([attacked(*[99] * 6, *[108] * 7, *[126] * 7)]) == []
    assert judged([attacked(*[60] * 9, *[112] * 11)]) == []
    too_far = [fault.kind for fault in judged([attacked(*[99] * 5, *[228] * 15)])]
    assert too_far == ["grown"]


def test_pages_of_files_that_grow_under_attack_are_a_fault() -> None:
    one = attacked(*[60] * PARTS)

    more = one._replace(last=one.last._replace(resident=one.last.resident + 41 * MB))

    assert [fault.kind for fault in judged([more])] == ["grown"]


def test_a_leak_is_found_behind_a_step_and_beneath_memory_that_is_given_back() -> None:
    step = [0] * 10 + [18] * 10
    burst = [0] * 6 + [40, 30] + [0] * 4 + [30] + [0] * 7

    for other in (step, burst):
        leaking = attacked(*(60 + part + more for part, more in enumerate(other)))
        assert [fault.kind for fault in judged([leaking])] == ["grown"]
        assert judged([attacked(*(60 + more for more in other))]) == []


def test_steps_that_are_many_are_growth() -> None:
    assert steady_growth([60 * MB, 64 * MB, 64 * MB, 68 * MB, 72 * MB, 72 * MB]) == 4 * MB


def test_memory_that_all_late_rounds_have_more_of_is_a_fault_under_attack_too() -> None:
    least, more = (attacked(*[level] * PARTS, seconds=72.0) for level in (60, 78))

    assert judged([least, more]) == []
    assert judged([least, more, more] * (ROUNDS_MIN // 3)) == []
    grown = judged([least] * (ROUNDS_MIN - 3) + [more] * 3)
    assert [fault.kind for fault in grown] == ["grown"]


def test_a_witness_that_waits_a_tenth_of_a_second_longer_under_attack_is_a_fault() -> None:
    calm = Waits(SAMPLES_MIN, 0.001, 0.02, 0.3)

    assert judged_waits(calm, calm._replace(p99_s=0.119)) == []
    assert judged_waits(calm, calm._replace(p99_s=0.121)) == ["p99 of the witness: 20.0 ms, and 121.0 ms under attack"]
    assert judged_waits(calm, Waits(SAMPLES_MIN - 1, 1.0, 1.0, 1.0)) == []
