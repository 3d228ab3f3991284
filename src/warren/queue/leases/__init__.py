"""Queue groups: their messages are leased (visibility timeout), acknowledged, retried, or become dead letters."""
