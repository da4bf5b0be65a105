#!/usr/bin/env bash
# check.sh: the BPF objects of the repository are what their sources compile to. Objects differ from one version of clang to the next,
# so the bytes are compared where clang has the version that the repository's objects were made with. With another version the objects
# that it makes are judged by behaviour: the tests run with them in place of the repository's.
set -euo pipefail
cd "$(dirname "$0")/.."
pinned=14 # clang's major version in Debian 12, whose objects are in the repository
go=${GO:-go}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for tool in clang llvm-strip; do
	command -v "$tool" >/dev/null || { echo "bpf/check.sh: $tool is missing: apt-get install clang llvm libbpf-dev linux-libc-dev" >&2; exit 1; }
done
have=$(clang -dumpversion)

packages=$(grep -rl --include=gen.go '^//go:generate go tool bpf2go' . | xargs -n1 dirname)
differ=
replace=
for package in $packages; do
	mkdir -p "$out/$package"
	(cd "$package" && GOPACKAGE=$(basename "$package") sh -e <<<"$("$go" generate -n 2>&1 | sed "s,bpf2go ,bpf2go -output-dir $out/$package ,")") >"$out/log" 2>&1 ||
		{ cat "$out/log" >&2; echo "bpf/check.sh: clang $have does not compile $package" >&2; exit 1; }
	for made in "$out/$package"/*.go; do
		diff -u "$package/$(basename "$made")" "$made" || { echo "bpf/check.sh: $package/$(basename "$made") is not what its source makes: run make generate" >&2; exit 1; }
	done
	for made in "$out/$package"/*.o; do
		cmp -s "$package/$(basename "$made")" "$made" || differ="$differ $package/$(basename "$made")"
		replace="$replace${replace:+,}\"$(realpath "$package/$(basename "$made")")\":\"$made\""
	done
done
[ -n "$differ" ] || exit 0
[ "${have%%.*}" != "$pinned" ] || { echo "bpf/check.sh:$differ: not what the sources make: run make generate" >&2; exit 1; }

echo "{\"Replace\":{$replace}}" >"$out/overlay.json"
if [ "$(id -u)" != 0 ]; then
	echo "bpf/check.sh: clang $have makes other objects than clang $pinned, and only root can load them: not compared"
	exit 0
fi
echo "bpf/check.sh: clang $have makes other objects than clang $pinned: their tests run with them"
# shellcheck disable=SC2086 # a list of packages
"$go" test -count=1 -overlay "$out/overlay.json" $packages
