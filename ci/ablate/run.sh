#!/usr/bin/env bash
# Switches one mechanism off at a time and requires the test named in the patch to fail.
# A patch begins with the lines
#   Mechanism: what is switched off
#   Package: Go package of the test, such as ./engine, or a file of Python tests, such as python/tests/autograd/test_hooks.py
#   Test: name of the test that must then fail
# Python tests run under $PYTHON, with the library and the extension that `make inplace` builds.
# Each runs in a copy of the sources, two at a time. Usage: ci/ablate/run.sh [patch ...]
set -euo pipefail
cd "$(dirname "$0")/../.."
patches=("$@")
[ ${#patches[@]} -gt 0 ] || patches=(ci/ablate/*.patch)
workers=2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export work GO="${GO:-go}" PYTHON="${PYTHON:-python3}"
# With -trimpath the copies share the build cache of the checkout.
export GOFLAGS="${GOFLAGS:--trimpath}"

field() { sed -n "s/^$2: //p" "$1" | head -n 1; }
say() { printf '%-18s %s\n' "$1" "$2"; }

# passes WHERE PACKAGE TEST: whether a test of Go's passes as built in $work, or one of Python's on the sources in WHERE.
passes() {
  case $2 in
  *.py) PYTHONPATH="$1/python" timeout 240 "$PYTHON" -m pytest -q -p no:cacheprovider "$1/$2::$3" >/dev/null 2>&1 ;;
  *) (cd "$1/$2" && timeout 120 "$work/$name.test" -test.run "^$3\$" >/dev/null 2>&1) ;;
  esac
}

# without PATCH: whether the patch's test fails once the patch is applied to this worker's copy.
without() {
  local p=$1 name package test
  name=$(basename "$p" .patch) package=$(field "$p" Package) test=$(field "$p" Test)
  cd "$work/copy$XARGS_SLOT"
  if ! git apply <"$p"; then
    say "$name" "the patch no longer applies"
    return 1
  fi
  local status=0
  if [[ $package != *.py ]] && ! "$GO" test -c -o "$work/$name.test" "$package" >/dev/null; then
    say "$name" "does not compile with the patch"
    status=1
  elif passes . "$package" "$test"; then
    say "$name" "NOT LOAD-BEARING: $test passes without: $(field "$p" Mechanism)"
    status=1
  else
    say "$name" "$test fails without it, as it must"
  fi
  rm -f "$work/$name.test"
  git apply -R <"$p" && return $status
}
export -f field say passes without

# The tests must pass before the patches: all of a package at once.
failed=0
declare -A tests
for p in "${patches[@]}"; do
  package=$(field "$p" Package) test=$(field "$p" Test)
  if [ -z "$package" ] || [ -z "$test" ]; then
    say "$(basename "$p" .patch)" "the patch names no package or test"
    exit 1
  fi
  tests[$package]+="${tests[$package]:+|}$test"
done
for package in "${!tests[@]}"; do
  if [[ $package == *.py ]]; then
    for test in ${tests[$package]//|/ }; do
      if ! passes . "$package" "$test"; then
        say "$test" "does not pass before the patches"
        failed=1
      fi
    done
    continue
  fi
  out=$("$GO" test -count=1 -run "^(${tests[$package]})\$" -v "$package" 2>&1) || true
  for test in ${tests[$package]//|/ }; do
    if ! grep -q "^--- PASS: $test " <<<"$out"; then
      say "$test" "does not pass before the patches"
      failed=1
    fi
  done
done

for slot in $(seq $workers); do
  mkdir "$work/copy$slot"
  git ls-files -z --cached --others --exclude-standard -- go.mod go.sum pyproject.toml ir engine kernels gpu capi cmd python |
    while IFS= read -r -d '' f; do [ ! -f "$f" ] || printf '%s\0' "$f"; done |
    tar --null --files-from=- --create --file=- | tar --extract --directory="$work/copy$slot" --file=-
  for built in python/torchlette/*.so; do
    [ ! -f "$built" ] || ln -s "$PWD/$built" "$work/copy$slot/$built"
  done
done
printf '%s\0' "${patches[@]}" | xargs -0 realpath -z -- |
  xargs -0 -n 1 -P $workers --process-slot-var=SLOT bash -c 'XARGS_SLOT=$((SLOT + 1)) without "$1"' ablate || failed=1
exit $failed
