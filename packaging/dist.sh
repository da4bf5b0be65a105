#!/usr/bin/env bash
# dist.sh DIR: everything that is handed out, from the commit of this clone: static binaries for each architecture, as they are, as an archive
# and as a Debian package; manual pages, completions, lists of contents (SBOM), checksums. The same commit gives the same bytes, whoever builds
# it where: no time but the commit's, no path, no name of a user.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:?usage: packaging/dist.sh DIR}")
arches=${ARCHES:-amd64 arm64}
go=${GO:-go}
host=$(mktemp -d)
trap 'rm -rf "$host"' EXIT

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CGO_ENABLED=0 GOOS=linux TZ=UTC LC_ALL=C
umask 022
rm -rf "$out"
mkdir -p "$out/man" "$out/completions/bash" "$out/completions/zsh" "$out/completions/fish" "$out/sbom"

build() { "$go" build -trimpath -buildvcs=true -ldflags '-s -w -buildid=' "$@" ./cmd/...; }
for arch in $arches; do
	mkdir -p "$out/linux-$arch"
	GOARCH=$arch build -o "$out/linux-$arch/"
done

# What the commands say of themselves is the same on every architecture; it is asked of those that run here.
GOARCH=$("$go" env GOHOSTARCH) build -tags manpages -o "$host/"
for command in "$host"/*; do
	name=$(basename "$command")
	"$command" manual "$out/man"
	"$command" completion bash >"$out/completions/bash/$name"
	"$command" completion zsh >"$out/completions/zsh/_$name"
	"$command" completion fish >"$out/completions/fish/$name.fish"
done
# This one may be given any binary: that of the first architecture. The modules are those of all.
(cd tools && "$go" build -trimpath -o "$host/sbom" ./sbom)
for binary in "$out/linux-${arches%% *}"/*; do
	"$host/sbom" "$binary" >"$out/sbom/$(basename "$binary").cdx.json"
done

version=$("$host/ndinfo" --version | sed -E 's/^ndinfo v?([^,]+),.*/\1/')
case $version in
unknown) echo "dist.sh: the build knows no version: is this a clone of the repository, with its .git directory?" >&2 && exit 1 ;;
esac
for arch in $arches; do
	packaging/deb.sh "$out" "$arch" "$version"
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --transform "s,^linux-$arch,bin," \
		-C "$out" -cf - "linux-$arch" man completions sbom | gzip -9n >"$out/ndxdp-$version-linux-$arch.tar.gz"
done
(cd "$out" && find . -type f -printf '%P\n' | sort | xargs sha256sum) >"$host/SHA256SUMS"
install -m 644 "$host/SHA256SUMS" "$out/"
echo "$out: ndxdp $version for $arches"
