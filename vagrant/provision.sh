#!/usr/bin/env bash
# Makes a Debian 12 system a guest of the lab: what is measured beside ndperf, and a kernel that has multi-buffer AF_XDP
# (6.6 or newer; Debian 12 has 6.1, its backports 6.12). Run as root; a second run changes nothing. ndperf is not built
# here: bench.sh brings it.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive

packages=(
	iproute2 iputils-ping ethtool tcpdump procps kmod
	iperf3 sockperf
	rdma-core ibverbs-utils ibverbs-providers rdmacm-utils perftest
)

apt-get update -qq
mirror=$(bash "$(dirname "$0")/mirror.sh")
echo "deb $mirror bookworm-backports main" >/etc/apt/sources.list.d/ndxdp-lab.list
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${packages[@]}"
# The kernel's own package, not the one for clouds: that one lacks rdma_rxe.
apt-get install -y -qq --no-install-recommends -t bookworm-backports linux-image-amd64
release=$(find /boot -name 'vmlinuz-6.12.*' -printf '%f\n' | sort -V | tail -n 1)
release=${release#vmlinuz-}

# No kernel of Debian's has soft-iWARP (CONFIG_RDMA_SIW is not set), but its source package has the driver: siw is built
# from it for the kernel just installed, and what that needs is removed again.
build_siw() {
	local tree=linux-source-6.12/drivers/infiniband/sw/siw tools=() work p
	for p in linux-source-6.12 "linux-headers-$release" make xz-utils; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] || tools+=("$p")
	done
	apt-get install -y -qq --no-install-recommends -t bookworm-backports "${tools[@]}"
	work=$(mktemp -d)
	tar -xJf /usr/src/linux-source-6.12.tar.xz -C "$work" "$tree"
	make -s -C "/lib/modules/$release/build" M="$work/$tree" CONFIG_RDMA_SIW=m modules
	install -D -m 644 "$work/$tree/siw.ko" "/lib/modules/$release/updates/siw.ko"
	rm -rf "$work"
	depmod "$release"
	apt-get purge -y -qq --autoremove "${tools[@]}"
}
modinfo -k "$release" siw >/dev/null 2>&1 || build_siw
apt-get clean

# iperf3 and perftest are started by bench.sh, for one run each.
systemctl disable --quiet iperf3.service 2>/dev/null || true
