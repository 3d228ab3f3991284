"""Python imports this at the start of a process whose path begins with this folder."""

from tests.soak.cluster.machine import install

install()
