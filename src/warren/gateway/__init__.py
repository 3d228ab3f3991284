"""The HTTP side port of the broker: health checks, metrics, and a REST API for scripts and browsers."""
