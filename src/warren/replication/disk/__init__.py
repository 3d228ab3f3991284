"""The files of one replica: which of them are shipped, how a master ships them, and how a slave writes them."""
