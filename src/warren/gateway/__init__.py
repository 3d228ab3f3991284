"""HTTP beside the broker: health, metrics, and a small REST face for scripts and browsers."""
