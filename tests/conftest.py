"""How tests run here, whatever started them."""

import signal

from hypothesis import HealthCheck, settings

# No deadline, because the disk is slow at times; every failure prints how to repeat it.
settings.register_profile("warren", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("warren")

# A shell ignores Ctrl-C for what it runs in the background, and so would every process that a test starts and stops so.
signal.signal(signal.SIGINT, signal.default_int_handler)
