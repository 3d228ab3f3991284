"""What Warren's broker does over loopback, beside Redis Streams and NATS JetStream."""
