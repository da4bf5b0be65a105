#!/usr/bin/env bash
# Makes a Debian 12 system a guest of the lab: what is measured beside ndperf, and a kernel that has multi-buffer AF_XDP
# (6.6 or newer; Debian 12 has 6.1, its backports 6.12). Run as root; a second run changes nothing. ndperf is not built
# here: bench.sh brings it.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
mirror=${1:-http://deb.debian.org/debian}

packages=(
	iproute2 iputils-ping ethtool tcpdump procps kmod
	iperf3 sockperf
	rdma-core ibverbs-utils ibverbs-providers rdmacm-utils perftest
)

echo "deb $mirror bookworm-backports main" >/etc/apt/sources.list.d/ndxdp-lab.list
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${packages[@]}"
# The kernel's own package, not the one for clouds: that one lacks rdma_rxe, siw and netem.
apt-get install -y -qq --no-install-recommends -t bookworm-backports linux-image-amd64

# iperf3 and perftest are started by bench.sh, for one run each.
systemctl disable --quiet iperf3.service 2>/dev/null || true
