"""How tests run here, whatever started them."""

import gc
import signal

from hypothesis import HealthCheck, settings

# No deadline, because the disk is slow at times; every failure prints how to repeat it.
settings.register_profile("warren", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
# For `make quick`: enough examples to see a plain mistake.
settings.register_profile("quick", settings.get_profile("warren"), max_examples=10, stateful_step_count=20)
settings.load_profile("warren")

# A shell ignores Ctrl-C for what it runs in the background, and so would every process that a test starts and stops so.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Keeps the garbage collector away from the modules and the thousands of tests, which live until the end.

    A full collection takes 0.2 s with them and nearly no time without, and many tests collect garbage.
    """
    gc.collect()
    gc.freeze()
