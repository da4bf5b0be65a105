#!/usr/bin/env bash
# deb.sh DIR ARCH VERSION: a Debian package of what dist.sh put into DIR, with dpkg-deb.
set -euo pipefail
out=$1 arch=$2 version=$3
here=$(cd "$(dirname "$0")" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
umask 022

# A pseudo-version comes before the release that it leads to; hyphens would begin Debian's own revision.
version=${version//-/\~}
install -D -t "$root/usr/bin" "$out/linux-$arch"/*
install -D -m 644 -t "$root/usr/share/man/man1" "$out/man"/*
gzip -9n "$root/usr/share/man/man1"/*
install -D -m 644 -t "$root/usr/share/bash-completion/completions" "$out/completions/bash"/*
install -D -m 644 -t "$root/usr/share/zsh/vendor-completions" "$out/completions/zsh"/*
install -D -m 644 -t "$root/usr/share/fish/vendor_completions.d" "$out/completions/fish"/*
install -D -m 644 -t "$root/lib/systemd/system" "$here/systemd"/*
install -D -m 644 -t "$root/usr/share/doc/ndxdp" "$here/debian/copyright" "$here/../README.md" "$here/../SUPPORT.md"
install -D -m 644 "$here/../CHANGELOG.md" "$root/usr/share/doc/ndxdp/changelog"
gzip -9n "$root/usr/share/doc/ndxdp/changelog"
install -D -m 644 -t "$root/usr/share/doc/ndxdp/sbom" "$out/sbom"/*
install -D -t "$root/DEBIAN" "$here/debian/prerm" "$here/debian/postrm"
sed -e "s/@VERSION@/$version/" -e "s/@ARCH@/$arch/" \
	-e "s/@SIZE@/$(du -sk --apparent-size --exclude=DEBIAN "$root" | cut -f1)/" "$here/debian/control" >"$root/DEBIAN/control"
(cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\n' | sort | xargs md5sum >DEBIAN/md5sums)
dpkg-deb --root-owner-group -Zxz --build "$root" "$out/ndxdp_${version}_$arch.deb" >/dev/null
