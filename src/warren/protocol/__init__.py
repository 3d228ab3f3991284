"""The wire, free of I/O: bytes in, requests out; responses in, bytes out."""
