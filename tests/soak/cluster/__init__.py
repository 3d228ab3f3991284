"""The long run of a cluster: replicas and a ZooKeeper that are killed, paused and cut off, and clients that go on."""
