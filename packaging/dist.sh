#!/usr/bin/env bash
# dist.sh DIR: everything that is handed out, from the commit of this clone, or of an archive that git archive made: static binaries for each architecture, as they are, as an archive
# and as a Debian package; manual pages, completions, lists of contents (SBOM), checksums. The same commit gives the same bytes, whoever builds
# it where: no time but the commit's, no path, no name of a user.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:?usage: packaging/dist.sh DIR}")
arches=${ARCHES:-amd64 arm64}
go=${GO:-go}
host=$(mktemp -d)
trap 'rm -rf "$host"' EXIT

# A directory without .git is an archive. packaging/source.txt says of which commit, and when it was made.
if [ -e .git ]; then
	commit= # the go command finds it
	SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
else
	commit=$(sed -n 's/^commit=//p' packaging/source.txt)
	SOURCE_DATE_EPOCH=$(sed -n 's/^time=//p' packaging/source.txt)
	case $commit in *Format*) echo "dist.sh: this directory is neither a clone nor an archive made by git archive: no commit is known for it" >&2 && exit 1 ;; esac
fi
export SOURCE_DATE_EPOCH CGO_ENABLED=0 GOOS=linux TZ=UTC LC_ALL=C
umask 022
rm -rf "$out"
mkdir -p "$out/man" "$out/completions/bash" "$out/completions/zsh" "$out/completions/fish" "$out/sbom"

vcs=$([ -n "$commit" ] && echo false || echo true)
build() { "$go" build -trimpath -buildvcs="$vcs" -ldflags "-s -w -buildid= -X github.com/ndxdp/ndxdp/internal/buildinfo.archived=$commit" "$@" ./cmd/...; }
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
(cd tools && GOWORK=off "$go" build -trimpath -o "$host/sbom" ./sbom)
for binary in "$out/linux-${arches%% *}"/*; do
	"$host/sbom" "$binary" >"$out/sbom/$(basename "$binary").cdx.json"
done

# A commit without a tag comes before the release that it leads to, and behind earlier commits: dpkg compares dates as numbers.
version=$("$host/ndinfo" --version | sed -E 's/^ndinfo v?([^,]+),.*/\1/')
case $version in *-dev) version=$version.$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S) ;; esac
for arch in $arches; do
	packaging/deb.sh "$out" "$arch" "$version"
	tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --transform "s,^linux-$arch,bin," \
		-C "$out" -cf - "linux-$arch" man completions sbom | gzip -9n >"$out/ndxdp-$version-linux-$arch.tar.gz"
done
(cd "$out" && find . -type f -printf '%P\n' | sort | xargs sha256sum) >"$host/SHA256SUMS"
install -m 644 "$host/SHA256SUMS" "$out/"
echo "$out: ndxdp $version for $arches"
