"""The registry of a cluster: a tree of small nodes that all brokers see, and the ZooKeeper server that pip brings.

`registry.py` is the contract. `local.py` keeps it inside one process, with faults, for simulations and tests.
`zookeeper.py` keeps it at a ZooKeeper. The other modules run and watch ZooKeeper servers.
"""
