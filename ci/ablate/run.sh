#!/usr/bin/env bash
# Switches one mechanism off at a time and requires the test named in the patch to fail.
# A patch begins with the lines
#   Mechanism: what is switched off
#   Package: Go package of the test, such as ./engine
#   Test: name of the test that must then fail
# Each runs in a copy of the sources. Usage: ci/ablate/run.sh [patch ...]
set -euo pipefail
cd "$(dirname "$0")/../.."
patches=("$@")
[ ${#patches[@]} -gt 0 ] || patches=(ci/ablate/*.patch)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
field() { sed -n "s/^$2: //p" "$1" | head -n 1; }
fresh() {
  rm -rf "${copy:?}/"*
  git ls-files -z --cached --others --exclude-standard -- go.mod go.sum ir engine kernels gpu capi cmd |
    while IFS= read -r -d '' f; do [ ! -f "$f" ] || printf '%s\0' "$f"; done |
    tar --null --files-from=- --create --file=- | tar --extract --directory="$copy" --file=-
}
failed=0
say() {
  printf '%-18s %s\n' "$1" "$2"
  failed=1
}
for p in "${patches[@]}"; do
  name=$(basename "$p" .patch)
  package=$(field "$p" Package) test=$(field "$p" Test)
  if [ -z "$package" ] || [ -z "$test" ]; then
    say "$name" "the patch names no package or test"
    continue
  fi
  fresh
  if ! out=$(cd "$copy" && "${GO:-go}" test -count=1 -run "^$test\$" -v "$package" 2>&1) || ! grep -q "^--- PASS: $test" <<<"$out"; then
    say "$name" "$test does not pass before the patch"
    continue
  fi
  if ! (cd "$copy" && git apply) <"$p"; then
    say "$name" "the patch no longer applies"
    continue
  fi
  if ! (cd "$copy" && "${GO:-go}" test -count=1 -run '^$' "$package" >/dev/null); then
    say "$name" "does not compile with the patch"
    continue
  fi
  if (cd "$copy" && timeout 120 "${GO:-go}" test -count=1 -run "^$test\$" "$package" >/dev/null 2>&1); then
    say "$name" "NOT LOAD-BEARING: $test passes without: $(field "$p" Mechanism)"
  else
    printf '%-18s %s fails without it, as it must\n' "$name" "$test"
  fi
done
exit $failed
