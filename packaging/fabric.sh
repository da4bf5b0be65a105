#!/usr/bin/env bash
# fabric.sh DIR: the Debian package of the libfabric provider for this machine's architecture, from what `make fabric` built. It installs into a
# directory of its own: libfabric's default directory would put the provider before a user's usual transport in every MPI job.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:?usage: packaging/fabric.sh DIR}")
arch=$(dpkg --print-architecture)
dir=/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || gcc -print-multiarch)/ndxdp
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
umask 022
chmod 755 "$root"

# The newest version of glibc that the objects need.
libc=$(objdump -T bin/libndxdp-fi.so bin/libndxdp.so | grep -oP 'GLIBC_\K[0-9.]+' | sort -V | tail -n 1)
version=$(go run ./cmd/ndinfo --version | sed -E 's/^ndinfo v?([^,]+),.*/\1/')
case $version in *-dev) version=$version.$(date -u -d "@$(git log -1 --format=%ct)" +%Y%m%d%H%M%S) ;; esac
version=${version//-/\~}
install -D -m 644 -t "$root$dir" bin/libndxdp-fi.so
install -D -m 644 bin/libndxdp.so "$root$dir/libndxdp.so.1"
strip --strip-unneeded "$root$dir"/*
install -D -m 644 -t "$root/usr/share/doc/libfabric-ndxdp" packaging/debian/copyright docs/LIBFABRIC.md
mkdir "$root/DEBIAN"
sed -e "s/@VERSION@/$version/" -e "s/@ARCH@/$arch/" -e "s/@LIBC@/$libc/" -e "s,@DIR@,$dir," \
	-e "s/@SIZE@/$(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f1)/" packaging/debian/fabric.control >"$root/DEBIAN/control"
(cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\n' | sort | xargs md5sum >DEBIAN/md5sums)
mkdir -p "$out"
dpkg-deb --root-owner-group -Zxz --build "$root" "$out/libfabric-ndxdp_${version}_$arch.deb" >/dev/null
echo "$out/libfabric-ndxdp_${version}_$arch.deb"
