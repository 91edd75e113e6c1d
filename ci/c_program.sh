#!/bin/sh
# Builds capi/testdata/train.c against torchlette.h and the library alone, and runs it.
set -e
cd "$(dirname "$0")/.."
out=build/c_program
mkdir -p "$out"
"${GO:-go}" build -buildmode=c-shared -trimpath -ldflags='-s -w -extldflags=-Wl,-soname,libtorchlette.so' -o "$out/libtorchlette.so" ./capi
"${CC:-cc}" -std=c11 -O2 -Wall -Wextra -Werror -Icapi -o "$out/train" capi/testdata/train.c -L"$out" -ltorchlette -lm -Wl,-rpath,'$ORIGIN'
"$out/train"
