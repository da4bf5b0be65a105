#!/usr/bin/env bash
# check.sh: what is handed out is complete, works, and can be built again: from two clones at different paths, the second one with nothing
# cached, come the same bytes. The package is installed into a throw-away root, its commands run, and removing it leaves nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
step() { printf '%s\n' "-- $*"; }
die() { printf 'packaging/check.sh: %s\n' "$*" >&2; exit 1; }
native=$(dpkg --print-architecture)

git clone -q . "$work/one"
git clone -q . "$work/another-name-of-another-length"
step "build"
"$work/one/packaging/dist.sh" "$work/dist"
step "build $native again, with nothing cached"
GOCACHE=$work/cache ARCHES=$native "$work/another-name-of-another-length/packaging/dist.sh" "$work/again"
(cd "$work/again" && find . -type f ! -name SHA256SUMS) | while read -r file; do
	case $file in ./sbom/*) [ "$native" = amd64 ] || continue ;; esac # of the first architecture of each build
	cmp "$work/dist/$file" "$work/again/$file" || die "$file differs between two builds of one commit"
done
(cd "$work/dist" && sha256sum -c --quiet SHA256SUMS)

step "build $native from an archive"
mkdir "$work/archive"
git archive HEAD | tar -xC "$work/archive"
ARCHES=$native "$work/archive/packaging/dist.sh" "$work/fromarchive" || die "an archive does not build"
commit=$(git rev-parse --short=12 HEAD)
said=$("$work/fromarchive/linux-$native/ndinfo" --version)
case $said in *"commit $commit,"*) ;; *) die "a build from an archive of $commit says: $said" ;; esac

step "binaries"
for binary in "$work/dist"/linux-*/*; do
	! readelf -ld "$binary" | grep -qE 'INTERP|NEEDED' || die "$binary is not static"
	! grep -qaF "$work" "$binary" || die "$binary has the path of its build in it"
done
# A command with the name of a directory is one that has no manual page.
for directory in cmd/nd*/; do
	name=$(basename "$directory")
	[ -s "$work/dist/man/$name.1" ] || die "$name has no manual page"
	[ -s "$work/dist/linux-$native/$name" ] || die "$name was not built"
done
mandoc -T lint -W error "$work/dist/man"/*.1 || die "a manual page has errors"

step "package"
root=$work/root
mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates"
touch "$root/var/lib/dpkg/status" "$root/var/lib/dpkg/available"
dpkg_in() { dpkg --root="$root" --log="$work/dpkg.log" --force-not-root --force-script-chrootless "$@" >"$work/dpkg.out" 2>&1 || { cat "$work/dpkg.out"; die "dpkg $*"; }; }
before=$(cd "$root" && find . ! -path './var/lib/dpkg*' | sort)
dpkg_in --install "$work"/dist/ndxdp_*_"$native".deb
for directory in cmd/nd*/; do
	name=$(basename "$directory")
	"$root/usr/bin/$name" --version | grep -qE "^$name v?[0-9].*commit [0-9a-f]{12}, " || die "$name --version: $("$root/usr/bin/$name" --version)"
	man --warnings -l "$root/usr/share/man/man1/$name.1.gz" >"$work/page" 2>/dev/null || die "man $name"
	bash --norc -ec "source '$root/usr/share/bash-completion/completions/$name'; complete -p $name" >/dev/null || die "completion of $name"
done
(cd "$root" && md5sum -c --quiet var/lib/dpkg/info/ndxdp.md5sums)
sed "s,/usr/bin/,$root/usr/bin/," "$root/lib/systemd/system/ndbroker@.service" >"$work/ndbroker@.service"
cp "$root/lib/systemd/system/ndbroker@.socket" "$work"
systemd-analyze verify --man=no --recursive-errors=no "$work/ndbroker@.service" "$work/ndbroker@.socket" || die "the units are not valid"
dpkg_in --purge ndxdp
after=$(cd "$root" && find . ! -path './var/lib/dpkg*' | sort)
[ "$before" = "$after" ] || die "removing the package leaves $(comm -13 <(echo "$before") <(echo "$after") | tr '\n' ' ')"

step "image"
grep -oP '^COPY \K\S+' packaging/container/Containerfile | while read -r source; do
	for arch in amd64 arm64; do
		[ -d "$work/dist/${source//\$\{TARGETARCH\}/$arch}" ] || die "the image's $source is not in what was built"
	done
done
step "everything is as it should be"
