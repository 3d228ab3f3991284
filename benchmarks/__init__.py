"""Every figure that Warren promises, measured beside what it is compared with."""
