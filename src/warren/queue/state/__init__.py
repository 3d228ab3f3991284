"""What topics, groups and processes store in the store's directory, and the settings of topics and groups."""
