"""Which files hold examples: see tests/checker/sybils.py."""

from checker.sybils import sybils

pytest_collect_file = sybils().pytest()
