"""What the long run over the network says of a broker that grows."""

from __future__ import annotations

import pytest

pytest.importorskip("confluent_kafka")
pytest.importorskip("kafka")
pytest.importorskip("aiokafka")

from tests.soak.network.hostile import SAMPLES_MIN, Waits, judged_waits
from tests.soak.network.run import Stretch, judged
from tests.support.broker.watched import Usage

MB = 1 << 20
USUAL = Usage(resident=100 * MB, private=60 * MB, resident_max=100 * MB, files=130, threads=25)


def stretch(number: int, middle: Usage, last: Usage, seconds: float = 72.0) -> Stretch:
    return Stretch(number, seconds, middle, last)


def test_a_broker_that_takes_no_more_than_before_is_not_at_fault() -> None:
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


def test_a_broker_under_attack_may_grow_at_first_but_not_for_long() -> None:
    grown = USUAL._replace(private=USUAL.private + 9 * MB)

    assert judged([Stretch(0, 72.0, USUAL, grown, is_attacked=True)]) == []
    assert [fault.kind for fault in judged([Stretch(0, 1200.0, USUAL, grown, is_attacked=True)])] == ["grown"]


def test_a_witness_that_waits_a_tenth_of_a_second_longer_under_attack_is_a_fault() -> None:
    calm = Waits(SAMPLES_MIN, 0.001, 0.02, 0.3)

    assert judged_waits(calm, calm._replace(p99_s=0.119)) == []
    assert judged_waits(calm, calm._replace(p99_s=0.121)) == ["p99 of the witness: 20.0 ms, and 121.0 ms under attack"]
    assert judged_waits(calm, Waits(SAMPLES_MIN - 1, 1.0, 1.0, 1.0)) == []
