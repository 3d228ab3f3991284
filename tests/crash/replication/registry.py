"""A simulated registry: one state with a version, and nodes that exist as long as their sessions."""

from __future__ import annotations

from collections.abc import Callable

from warren.replication.shard_state import Identity, Proposal, ProposalOutcome, RegistryView, ShardState


class SimulatedRegistry:
    """The data of the registry. The cluster decides which requests reach it, when, and which answers are lost."""

    def __init__(self, insync: frozenset[Identity], changed: Callable[[], None]) -> None:
        self.state = ShardState(epoch=0, master=None, insync=insync, nonce="")
        self.version = 0
        self.nodes: dict[int, str] = {}
        self.unreached: dict[int, int] = {}
        self.dead: int | None = None
        self._changed = changed

    def view(self) -> RegistryView:
        return RegistryView(
            state=self.state,
            version=self.version,
            nodes=dict(self.nodes),
            unreached=dict(self.unreached),
            dead=self.dead,
        )

    def write(self, proposal: Proposal, own_node: tuple[int, str] | None) -> ProposalOutcome:
        """Applies a compare-and-set. If `own_node` is given, this node must exist."""
        if proposal.version != self.version or (own_node and self.nodes.get(own_node[0]) != own_node[1]):
            return ProposalOutcome.REFUSED
        self.state, self.version = proposal.state, self.version + 1
        self._changed()
        return ProposalOutcome.DONE

    def register(self, replica: int, nonce: str) -> None:
        self.nodes[replica] = nonce
        self._changed()

    def expire(self, replica: int, nonce: str, *, is_dead: bool = False) -> None:
        """Removes what a session has made. `is_dead`: the parent of the process has seen it end, and notes that."""
        if self.nodes.get(replica) != nonce:
            return
        del self.nodes[replica]
        self.unreached.pop(replica, None)
        if is_dead and self.state.master == replica and self.state.nonce == nonce:
            self.dead = self.state.epoch
        self._changed()

    def note_unreached(self, replica: int, epoch: int | None) -> None:
        if epoch is None:
            self.unreached.pop(replica, None)
        else:
            self.unreached[replica] = epoch
        self._changed()
