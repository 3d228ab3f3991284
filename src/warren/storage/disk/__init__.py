"""Files: the operating system, blocks, the index, and the limit on how many of them a process keeps open."""
