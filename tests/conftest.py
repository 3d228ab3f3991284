"""How tests run, for any way to start them."""

import gc
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

# No deadline, because the disk is sometimes slow; every failure prints how to repeat it.
settings.register_profile("warren", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
# For `make quick`: enough examples to find a simple mistake.
settings.register_profile("quick", settings.get_profile("warren"), max_examples=10, stateful_step_count=20)
settings.load_profile("warren")

# A shell ignores Ctrl-C for background processes, and so would every process that a test starts and stops in that way.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects no garbage while tests are collected: there is hardly any, and the search takes seconds."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Keeps the garbage collector away from the modules and the thousands of tests, which live until the end.

    A full collection takes 0.2 s with them and nearly no time without, and many tests collect garbage.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def heap_stays_small() -> Iterator[None]:
    """Keeps the garbage collector away from what a module of tests leaves behind, such as what its imports loaded.

    Garbage is collected first, so that a resource that was not closed is reported with the module that left it open.
    """
    yield
    gc.collect()
    gc.freeze()
