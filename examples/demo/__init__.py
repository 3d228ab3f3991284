"""The demo that `warren demo` and `make run` show: orders into a store, revenue and an archive out of it."""
