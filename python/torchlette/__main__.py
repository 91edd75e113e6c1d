"""``python -m torchlette``: the version, the devices, and what is missing; commands on saved programs and models."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from typing import Any

import torchlette
from torchlette import _C
from torchlette.export.command import add_commands

_SHOWN_LIMITS = (
    "maxBufferSize",
    "maxStorageBufferBindingSize",
    "maxComputeWorkgroupStorageSize",
    "maxStorageBuffersPerShaderStage",
)

_NO_ADAPTER = {
    "linux": "Vulkan: install your GPU's driver and the loader (Debian: libvulkan1 and nvidia-driver or "
    "mesa-vulkan-drivers)",
    "darwin": "Metal is part of macOS: a GPU should have been found; please report this",
    "win32": "Direct3D 12: install the current driver of your GPU",
}


def _size(value: int) -> str:
    """Return a number of bytes in the largest unit that divides it well."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            return f"{value:g} {unit}"
        value = value / 1024 if value % 1024 else value // 1024
    raise AssertionError("unreachable")


def _describe(device: dict[str, Any]) -> list[str]:
    """Return the lines about one device."""
    title = device["Name"] + ("" if not device.get("Adapter") else f": {device['Adapter']}")
    lines = [f"  {title}{' (software)' if device.get('Software') else ''}"]
    driver = " ".join(part for part in (device.get("Backend"), device.get("Driver")) if part)
    if driver:
        lines.append(f"    driver    {driver}")
    if device.get("Features"):
        lines.append(f"    features  {', '.join(device['Features'])}")
    limits = device.get("Limits") or {}
    shown = [
        f"{name} {_size(limits[name]) if 'Size' in name else limits[name]}" for name in _SHOWN_LIMITS if name in limits
    ]
    if shown:
        lines.append(f"    limits    {', '.join(shown)}")
    return lines


def report() -> str:
    """Return the text that the command prints."""
    devices: list[dict[str, Any]] = json.loads(_C._info("devices")) or []
    lines = [
        f"torchlette {torchlette.__version__}, Python {platform.python_version()}, {platform.system()} "
        f"{platform.machine()}",
        f"default device: {torchlette.get_default_device()}",
        "devices:",
    ]
    for device in devices:
        lines += _describe(device)
    gpus = [d for d in devices if d["Name"] != "cpu"]
    if not gpus:
        lines.append("No WebGPU adapter was found; the CPU works. For a GPU:")
        lines.append(f"  {_NO_ADAPTER.get(sys.platform, 'install a Vulkan driver for your GPU')}.")
    elif all(d.get("Software") for d in gpus):
        lines.append("Only a software adapter was found; it is used when it is named. For a GPU:")
        lines.append(f"  {_NO_ADAPTER.get(sys.platform, 'install a Vulkan driver for your GPU')}.")
    return "\n".join(lines)


def main() -> None:
    """Print the report, or the devices as JSON, or do a command."""
    if sys.argv[1:2] == ["generate"]:
        from torchlette.generation.command import main as generate

        generate(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(
        prog="python -m torchlette",
        description="Show the version and the devices of torchlette, or run or show a saved program.",
        epilog="python -m torchlette generate FOLDER PROMPT continues a text; --help after generate says how.",
    )
    parser.add_argument("--json", action="store_true", help="print what the engine knows of the devices as JSON")
    add_commands(parser.add_subparsers(title="commands", metavar="COMMAND"))
    options = parser.parse_args()
    if hasattr(options, "command"):
        try:
            options.command(options)
        except (OSError, ValueError, TypeError, RuntimeError) as exc:
            sys.exit(f"{parser.prog}: {exc}")
    elif options.json:
        print(json.dumps(json.loads(_C._info("devices")), indent=2))
    else:
        print(report())


if __name__ == "__main__":
    main()
