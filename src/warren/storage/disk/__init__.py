"""Files: the operating system, blocks, the index, and which of them a process keeps open."""
