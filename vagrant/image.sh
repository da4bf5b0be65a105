#!/usr/bin/env bash
# Builds the guests' disk image and boot files from Debian's packages: image.sh DIRECTORY. Needs root, mmdebstrap and
# mke2fs. What it makes is kept: a second run with unchanged scripts does nothing. TMPDIR is on the same file system.
set -euo pipefail
out=${1:?usage: image.sh DIRECTORY}
here=$(cd "$(dirname "$0")" && pwd)
build_limit=${NDXDP_LAB_BUILD_LIMIT:-1200} # seconds
image_size=3G                              # sparse; the packages need about 1.3 GB

stamp=$(cat "$here/image.sh" "$here/provision.sh" "$here/mirror.sh" | sha256sum | cut -d' ' -f1)
if [ "$(cat "$out/stamp" 2>/dev/null || true)" = "$stamp" ]; then
	exit 0
fi
for tool in mmdebstrap mke2fs ssh-keygen; do
	command -v "$tool" >/dev/null || {
		echo "image.sh: $tool is missing: apt-get install mmdebstrap e2fsprogs openssh-client" >&2
		exit 1
	}
done
mirror=${NDXDP_LAB_MIRROR:-$("$here/mirror.sh")}
mkdir -p "$out"
work=$(mktemp -d -p "${TMPDIR:-$out}")
trap 'rm -rf --one-file-system "$work"' EXIT

ssh-keygen -q -t ed25519 -N '' -C ndxdp-lab -f "$work/key"
mkdir "$work/files"
# Two network cards: the first is for ssh, over QEMU's user networking; the measured one gets its address from guests.sh.
cat >"$work/files/ssh.network" <<'END'
[Match]
Name=eth0
[Network]
Address=10.0.2.15/24
LinkLocalAddressing=no
END
# Only what the guests boot from: the initial RAM disk is unpacked by a slow CPU.
cat >"$work/files/modules" <<'END'
virtio_pci
virtio_blk
ext4
END

echo "image.sh: building the guests' image in $out, about two minutes" >&2
# Expanded by mmdebstrap's shell, where $1 is the new system.
# shellcheck disable=SC2016
timeout "$build_limit" mmdebstrap --mode=root --variant=minbase --format=directory \
	--include=systemd-sysv,udev,dbus,openssh-server,ca-certificates,initramfs-tools \
	--essential-hook='mkdir -p "$1/etc/initramfs-tools/conf.d"; echo MODULES=list >"$1/etc/initramfs-tools/conf.d/lab"' \
	--essential-hook="cp '$work/files/modules' \"\$1/etc/initramfs-tools/modules\"" \
	--customize-hook="cp '$here/provision.sh' '$here/mirror.sh' \"\$1/root/\"" \
	--customize-hook="chroot \"\$1\" bash /root/provision.sh" \
	--customize-hook="mkdir -p -m 700 \"\$1/root/.ssh\"; cp '$work/key.pub' \"\$1/root/.ssh/authorized_keys\"" \
	--customize-hook="cp '$work/files/ssh.network' \"\$1/etc/systemd/network/\"" \
	--customize-hook='chroot "$1" systemctl enable systemd-networkd ssh' \
	--customize-hook='chroot "$1" systemctl mask systemd-networkd-wait-online apt-daily.timer apt-daily-upgrade.timer' \
	--customize-hook='echo ndlab >"$1/etc/hostname"; rm -f "$1/etc/machine-id"; touch "$1/etc/machine-id"' \
	bookworm "$work/root" "deb $mirror bookworm main" >"$work/log" 2>&1 || {
	tail -n 30 "$work/log" >&2
	exit 1
}

cp "$(readlink -f "$work"/root/boot/vmlinuz-*)" "$work/vmlinuz"
cp "$(readlink -f "$work"/root/boot/initrd.img-*)" "$work/initrd"
mke2fs -q -t ext4 -d "$work/root" "$work/root.img" "$image_size"
mv -f "$work/key" "$work/key.pub" "$work/vmlinuz" "$work/initrd" "$work/root.img" "$out/"
echo "$stamp" >"$out/stamp"
