"""Writing to a store from Spark."""
