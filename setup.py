"""Builds the Go engine as a shared library, and the extension module against it.

The library goes into the package beside the extension, which finds it by a run path of its own directory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
PACKAGE = "torchlette"
SOURCES = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "python" / "csrc").glob("*.c"))
MODULE = "github.com/torchlette/torchlette"
RUN_ONCE = (
    "engine/compile",
    "engine/lower",
    "engine/op/composite",
    "engine/op/prim",
    "engine/saved",
    "engine/simplify",
    "kernels/gpucode",
    "kernels/gpuir",
    "kernels/loopir",
    "kernels/machine",
    "kernels/reference",
    "kernels/wgsl",
)
STARTUP = "torchlette-as-torch.pth"
LIBRARY = {"darwin": "libtorchlette.dylib", "win32": "torchlette.dll"}.get(sys.platform, "libtorchlette.so")


def find_go() -> str | None:
    """Return the Go tool: $GO, that on PATH, or the one of Go's own installer."""
    for candidate in (os.environ.get("GO"), "go", "/usr/local/go/bin/go"):
        found = shutil.which(candidate) if candidate else None
        if found:
            return found
    return None


def link_flags(import_library: Path) -> list[str]:
    """Return the linker flags that give the library its name and, where the linker can, drop what it does not show.

    On Windows the linker also writes the import library, by an absolute path: Go's linker runs in a directory of its
        own.
    """
    if sys.platform == "darwin":
        return [f"-Wl,-install_name,@rpath/{LIBRARY}"]
    if sys.platform == "win32":
        return ["-static-libgcc", f'"-Wl,--out-implib={import_library.as_posix()}"']
    return [f"-Wl,-soname,{LIBRARY}", f'"-Wl,--version-script={ROOT / "capi" / "exports.map"}"', "-Wl,--gc-sections"]


class BuildWithEngine(build_ext):
    """build_ext that builds the engine first."""

    def run(self) -> None:
        """Build the library where the extension will be, then the extension."""
        self.build_engine(self.package_directory())
        super().run()

    def package_directory(self) -> Path:
        """Return the directory that the extension is written to."""
        if self.inplace:
            return ROOT / "python" / PACKAGE
        return Path(self.build_lib).resolve() / PACKAGE

    def build_engine(self, directory: Path) -> None:
        """Run the Go tool."""
        go = find_go()
        if go is None:
            raise SystemExit(
                "torchlette: building from source needs Go 1.25 or later (https://go.dev/dl); it was found neither in "
                "$GO nor on PATH"
            )
        directory.mkdir(parents=True, exist_ok=True)
        target = directory / LIBRARY
        import_library = Path(self.build_temp).resolve() / "torchlette.lib"
        import_library.parent.mkdir(parents=True, exist_ok=True)
        flags = " ".join(link_flags(import_library))
        command = [
            go,
            "build",
            "-buildmode=c-shared",
            "-trimpath",
            # What recording calls and finding plans run, from "make profile": the compiler inlines more there.
            f"-pgo={ROOT / 'capi' / 'profile.pgo'}",
            # Without the operators' samples, which generators and tests read.
            "-tags=wheel",
            # What runs until its results are cached is not inlined: that buys little time for 8 % of the wheel.
            *(f"-gcflags={MODULE}/{package}=-l" for package in RUN_ONCE),
            f"-ldflags=-s -w -extldflags '{flags}'",
            "-o",
            str(target),
            "./capi",
        ]
        environment = {**os.environ, "CGO_ENABLED": "1"}
        print(" ".join(command), flush=True)
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
        # cgo's own header is no part of the interface: capi/torchlette.h is.
        target.with_suffix(".h").unlink(missing_ok=True)
        self.extensions[0].library_dirs = [str(import_library.parent if sys.platform == "win32" else directory)]

    def get_outputs(self) -> list[str]:
        """List the library too, so that it is installed."""
        return [*super().get_outputs(), str(self.package_directory() / LIBRARY)]


class BuildWithStartup(build_py):
    """Adds the line that Python runs at its start, for TORCHLETTE_AS_TORCH=1."""

    def run(self) -> None:
        """Build, then copy the file beside the package."""
        super().run()
        shutil.copy(ROOT / "python" / STARTUP, Path(self.build_lib) / STARTUP)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """List the file too, so that it is installed."""
        return [*super().get_outputs(include_bytecode), str(Path(self.build_lib) / STARTUP)]


def extension() -> Extension:
    """Return the extension module, for the stable ABI of Python 3.11."""
    compile_flags, link_flags = (
        ["-std=c11", "-O2", "-flto=auto", "-Wall", "-Wextra", "-fvisibility=hidden", "-g0"],
        ["-O2", "-flto=auto"],
    )
    if sys.platform == "win32":
        compile_flags, link_flags = ["/std:c11", "/O2"], []
    elif sys.platform == "darwin":
        link_flags.append("-Wl,-rpath,@loader_path")
    else:
        link_flags.append("-Wl,-rpath,$ORIGIN")
    return Extension(
        f"{PACKAGE}._C",
        SOURCES,
        include_dirs=["python/csrc", "capi", "kernels/cpu/vector"],
        depends=[
            *(str(p.relative_to(ROOT)) for p in (ROOT / "python" / "csrc").glob("*.[hi]*")),
            "capi/torchlette.h",
            "kernels/cpu/vector/half.h",
        ],
        define_macros=[("Py_LIMITED_API", "0x030b0000")],
        libraries=["torchlette"],
        extra_compile_args=compile_flags,
        extra_link_args=link_flags,
        py_limited_api=True,
    )


setup(
    ext_modules=[extension()],
    cmdclass={"build_ext": BuildWithEngine, "build_py": BuildWithStartup},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
