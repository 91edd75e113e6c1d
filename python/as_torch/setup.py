"""Builds torchlette-as-torch: refuses beside PyTorch, and adds the metadata of a distribution ``torch``."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel

HERE = Path(__file__).resolve().parent
OWN = "torchlette-as-torch"


def names() -> tuple[str, str]:
    """Return this library's version and that of PyTorch whose names it follows, from torchlette's sources."""
    sources = HERE.parent / "torchlette"
    text = {f: (sources / f).read_text() for f in ("_version.py", "torch/version.py")}
    own = re.search(r'__version__ = "([^"]+)"', text["_version.py"])
    followed = re.search(r'"([0-9.]+)\+torchlette', text["torch/version.py"])
    if own is None or followed is None:
        raise SystemExit(f"{OWN}: expected the versions in {sources}")
    return own[1], followed[1]


def refuse_beside_pytorch() -> None:
    """Exit if the environment that is built for has PyTorch."""
    site = Path(sysconfig.get_paths()["purelib"])
    for metadata in site.glob("torch-*.dist-info"):
        installer = metadata / "INSTALLER"
        if "+torchlette" not in metadata.name and not (installer.exists() and installer.read_text().strip() == OWN):
            raise SystemExit(
                f"{OWN}: PyTorch is installed in {site} ({metadata.name}): both provide the package torch. Run "
                f"'pip uninstall torch' first, or run programs with 'python -m torchlette.as_torch' instead."
            )


VERSION, FOLLOWED = names()


class WheelWithMetadata(bdist_wheel):
    """Adds ``torch-X.Y.Z+torchlette.dist-info``, so that installers and programs find a distribution ``torch``.

    A wheel has one such folder of its own. Files for the same place may lie in its ``.data/purelib``.
    """

    def write_wheelfile(self, wheelfile_base: str, *args: Any, **kwargs: Any) -> None:
        """Write the description of the wheel, and the metadata of ``torch``."""
        super().write_wheelfile(wheelfile_base, *args, **kwargs)
        name = f"torch-{FOLLOWED}+torchlette{VERSION}.dist-info"
        folder = Path(self.bdist_dir) / self.data_dir / "purelib" / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "INSTALLER").write_text(OWN + "\n")
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: torch\nVersion: {FOLLOWED}+torchlette{VERSION}\n"
            f"Summary: torchlette under PyTorch's name, by {OWN}\n"
        )


refuse_beside_pytorch()
setup(version=VERSION, cmdclass={"bdist_wheel": WheelWithMetadata})
