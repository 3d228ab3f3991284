"""Warren's broker over loopback, compared with Redis Streams and NATS JetStream."""
