"""Every figure that Warren promises, measured together with what it is compared with."""
