"""Remembered: while a site is served, what was made of a page that did not change is known."""

import functools

remembered = functools.lru_cache(maxsize=1000)
