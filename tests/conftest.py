"""How Hypothesis runs here: no deadline, because the disk is slow at times; every failure prints how to repeat it."""

from hypothesis import HealthCheck, settings

settings.register_profile("warren", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("warren")
