"""What every test shares. Servers are started by tests/settings.py, before anything is imported."""

import os

from hypothesis import settings

# 2 cores for everything: few examples while developing, more where nobody waits (HYPOTHESIS=ci).
settings.register_profile("quick", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=200, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS", "quick"))
