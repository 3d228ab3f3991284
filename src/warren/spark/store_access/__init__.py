"""Access to a store from the driver and from tasks: by its files, or through its broker."""
