"""A Chromium to look at the site with: the system's own, Debian's, or Playwright's."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
APPS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
)
HELP = (
    "The site's tests need a Chromium and found none. Install one (on Debian: apt-get install "
    "chromium), or let Playwright fetch its own (python -m playwright install chromium), or set "
    "the variable CHROMIUM to the path of one."
)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


def find(playwrights: str) -> str:
    """The path of a Chromium that starts; ``playwrights`` is where Playwright keeps its own."""
    for offer in (_named, _installed, _debian, lambda: _playwright(playwrights)):
        path = offer()
        if path and _starts(path):
            return path
    raise RuntimeError(HELP)


def _named() -> str | None:
    path = os.environ.get("CHROMIUM")
    if path and not _starts(path):
        raise RuntimeError(f"CHROMIUM is {path!r}, which does not start. {HELP}")
    return path


def _installed() -> str | None:
    found = [path for path in map(shutil.which, NAMES) if path]
    return next(iter([*found, *(app for app in APPS if Path(app).exists())]), None)


def _debian() -> str | None:
    if not Path("/etc/debian_version").exists() or os.geteuid() != 0:
        return None
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["install", "-y", "-qq", "--no-install-recommends", "chromium"]
    for arguments in (["update", "-qq"], install):
        command = ["apt-get", *arguments]
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL)
    return shutil.which("chromium")


def _playwright(path: str) -> str | None:
    if not Path(path).exists():
        command = [sys.executable, "-m", "playwright", "install", "chromium"]
        subprocess.run(command, stdout=subprocess.DEVNULL)
    return path if Path(path).exists() else None


def _starts(path: str) -> bool:
    try:
        subprocess.run([path, "--version"], check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return False
    return True
