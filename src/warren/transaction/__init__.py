"""All or nothing across topics: transactions, and producers whose retries are written once."""
