"""The offline build (``OFFLINE=true``) asks no host for anything, not even for its search.

The theme would fetch a script that lets the search run from a folder. Ours does the same.
"""

from typing import Any

WORKER = "assets/iframe-worker.js"


def on_config(config: Any) -> Any:
    offline = config.plugins.get("material/offline")
    if offline and offline.config.enabled:
        config.extra["polyfills"] = [WORKER]
    return config
