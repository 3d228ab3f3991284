"""Epochs: their file, and where a slave cuts its logs."""

from __future__ import annotations

import pytest

from warren.errors import MalformedState
from warren.replication.epochs import EPOCHS_MAX, Epoch, Epochs, cuts


def epochs_of(*entries: tuple[int, int]) -> Epochs:
    """Returns a list of epochs, each with the tail of log `a`."""
    return Epochs(tuple(Epoch(epoch=epoch, master=0, began="", tails={"a": tail}) for epoch, tail in entries))


def cut(mine: Epochs, masters: Epochs, my_tail: int, masters_tail: int) -> int | None:
    agreed = cuts(mine, masters, {"a": my_tail}, {"a": masters_tail})
    return None if agreed is None else agreed["a"]


def test_a_list_comes_back_from_its_file() -> None:
    epochs = Epochs((Epoch(epoch=8, master=1, began="2026-11-18T06:00:00Z", tails={"topics/orders/0@7": 1234}),))

    assert Epochs.from_json(epochs.to_json()) == epochs
    assert epochs.last == 8
    assert Epochs().last == 0


def test_the_latest_epochs_are_kept() -> None:
    epochs = Epochs()
    for number in range(1, EPOCHS_MAX + 3):
        epochs = epochs.begun(Epoch(epoch=number, master=0, began="", tails={}))

    assert [entry.epoch for entry in epochs.entries] == list(range(3, EPOCHS_MAX + 3))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"{}", "not a list"),
        (b"[1]", "an entry needs"),
        (b'[{"epoch":1,"master":0,"began":""}]', "an entry needs"),
        (b'[{"epoch":-1,"master":0,"began":"","tails":{}}]', "wrong type"),
        (b'[{"epoch":true,"master":0,"began":"","tails":{}}]', "wrong type"),
        (b'[{"epoch":1,"master":"0","began":"","tails":{}}]', "wrong type"),
        (b'[{"epoch":1,"master":0,"began":5,"tails":{}}]', "wrong type"),
        (b'[{"epoch":1,"master":0,"began":"","tails":{"a":-1}}]', "not ends of logs"),
        (b'[{"epoch":1,"master":0,"began":"","tails":[]}]', "not ends of logs"),
        (
            b'[{"epoch":2,"master":0,"began":"","tails":{}},{"epoch":2,"master":0,"began":"","tails":{}}]',
            "do not grow",
        ),
        (b"[" + b",".join([b"{}"] * 17) + b"]", "more than 16"),
    ],
)
def test_a_malformed_file_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedState, match=reason):
        Epochs.from_json(data)


@pytest.mark.parametrize(
    ("mine", "masters", "my_tail", "masters_tail", "expected"),
    [
        pytest.param(epochs_of((1, 0)), epochs_of((1, 0)), 5, 9, 5, id="a slave that is behind keeps all"),
        pytest.param(epochs_of((1, 0)), epochs_of((1, 0)), 9, 5, 5, id="a slave never has more than the master"),
        pytest.param(epochs_of((1, 0)), epochs_of((1, 0), (2, 5)), 9, 7, 5, id="a deposed master loses its tail"),
        pytest.param(epochs_of((1, 0)), epochs_of((1, 0), (2, 5)), 3, 7, 3, id="a slave that was behind keeps all"),
        pytest.param(
            epochs_of((1, 0), (2, 4)), epochs_of((1, 0), (3, 6)), 9, 9, 4, id="both continued alone from epoch 1"
        ),
        pytest.param(
            epochs_of((1, 0), (2, 8)), epochs_of((1, 0), (3, 6)), 9, 9, 6, id="the master's epoch ended earlier"
        ),
        pytest.param(
            epochs_of((1, 0)), epochs_of((1, 0), (2, 5), (3, 4)), 5, 4, 4, id="a later epoch began with a shorter log"
        ),
        pytest.param(
            epochs_of((1, 0), (2, 5), (3, 4)), epochs_of((1, 0), (4, 6)), 7, 6, 4, id="the same on the slave's side"
        ),
        pytest.param(epochs_of((1, 0), (2, 8)), epochs_of((1, 0), (3, 8)), 6, 9, 6, id="never after its own tail"),
        pytest.param(epochs_of((1, 0)), epochs_of((2, 0)), 5, 5, None, id="no epoch in common"),
        pytest.param(Epochs(), epochs_of((2, 0)), 5, 5, None, id="records without an epoch"),
        pytest.param(Epochs(), epochs_of((2, 0)), 0, 5, 0, id="an empty store has nothing to lose"),
        pytest.param(Epochs.founded(""), epochs_of((2, 0)), 0, 5, 0, id="a new store has nothing to lose"),
        pytest.param(Epochs.founded(""), epochs_of((2, 0)), 5, 5, None, id="records of epoch 0"),
        pytest.param(
            Epochs.founded("").begun(epochs_of((1, 0)).entries[0]),
            Epochs.founded("").begun(epochs_of((2, 0)).entries[0]),
            4,
            5,
            0,
            id="masters of the first two epochs that did not meet",
        ),
    ],
)
def test_a_slave_cuts_where_it_agrees_with_the_master(
    mine: Epochs, masters: Epochs, my_tail: int, masters_tail: int, expected: int | None
) -> None:
    assert cut(mine, masters, my_tail, masters_tail) == expected


def test_a_log_that_was_made_after_the_common_epoch_is_emptied() -> None:
    mine = Epochs((Epoch(epoch=1, master=0, began="", tails={}), Epoch(epoch=2, master=0, began="", tails={})))
    masters = Epochs((Epoch(epoch=1, master=0, began="", tails={}), Epoch(epoch=3, master=0, began="", tails={})))

    assert cuts(mine, masters, {"b": 7}, {"b": 9}) == {"b": 0}


def test_logs_that_the_master_does_not_have_are_not_named() -> None:
    assert cuts(epochs_of((1, 0)), epochs_of((1, 0)), {"a": 1, "b": 1}, {"a": 1, "c": 1}) == {"a": 1}
