"""Our own requests, and how messages travel in them."""
