"""Addresses as a person writes them."""

from __future__ import annotations

import pytest

from warren.errors import BadInput
from warren.registry.addresses import SERVERS_MAX, Address, EnsembleMember, parse_addresses, parse_members


def test_addresses_have_the_port_of_zookeeper_unless_they_name_one() -> None:
    addresses = parse_addresses("a, b.example:2182,127.0.0.1,[::1]:9")

    assert addresses == [Address("a", 2181), Address("b.example", 2182), Address("127.0.0.1", 2181), Address("::1", 9)]
    assert ",".join(map(str, addresses)) == "a:2181,b.example:2182,127.0.0.1:2181,[::1]:9"


@pytest.mark.parametrize("text", ["", "a,,b", "a:", "a:0", "a:65536", "a:1:2", "::1", "a b", "a/b", "zk://a"])
def test_text_that_is_no_list_of_addresses_is_bad_input(text: str) -> None:
    with pytest.raises(BadInput):
        parse_addresses(text)


def test_members_have_the_usual_ports_unless_they_name_theirs() -> None:
    members = parse_members("a,127.0.0.1:2889:3889,[::1]:1:2")

    assert members == [EnsembleMember("a"), EnsembleMember("127.0.0.1", 2889, 3889), EnsembleMember("::1", 1, 2)]
    assert list(map(str, members)) == ["a:2888:3888", "127.0.0.1:2889:3889", "[::1]:1:2"]


@pytest.mark.parametrize("text", ["", "a:1", "a:1:2:3", "a:0:1", "a,a", "a:1:2,a:3:1", "a:5:5"])
def test_text_that_is_no_ensemble_is_bad_input(text: str) -> None:
    with pytest.raises(BadInput):
        parse_members(text)


def test_more_servers_than_the_limit_are_refused() -> None:
    names = [f"host{number}" for number in range(SERVERS_MAX + 1)]

    assert len(parse_members(",".join(names[1:]))) == SERVERS_MAX
    with pytest.raises(BadInput, match="expected at most 15"):
        parse_addresses(",".join(names))
