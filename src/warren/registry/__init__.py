"""The registry of a cluster: a tree of small nodes that all brokers see, and a ZooKeeper server that pip can install.

`registry.py` is the contract. `local.py` implements it inside one process, with faults, for simulations and tests.
`zookeeper.py` implements it with a ZooKeeper. The other modules run and watch ZooKeeper servers.
"""
