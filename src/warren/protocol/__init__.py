"""The wire protocol, without I/O: bytes in, requests out; responses in, bytes out."""
