#!/usr/bin/env bash
# Runs in a guest, as root: sets up the measured link and what impairs it.
#
#   link.sh plain ADDRESS/PREFIX MTU               the address is on the network card
#   link.sh wire  ADDRESS/PREFIX MTU [NETEM ...]   the address is on a veth, and the card behind a bridge with netem
#
# netem is a queueing discipline, and AF_XDP sends past those of its own device and receives before the kernel does: netem on
# the card would impair TCP and leave ndperf alone. So for impaired runs the card moves into a network namespace, where a
# bridge joins it to a veth pair whose other end has the address. Whatever was sent on that end, by whom ever, leaves the
# card through its queueing discipline.
set -euo pipefail
kind=${1:?} address=${2:?} mtu=${3:?}
shift 3

state=/run/ndxdp-lab.card
[ -s "$state" ] || ip -o -4 addr show to "${address%/*}" | awk '{print $2}' >"$state"
card=$(cat "$state")
[ -n "$card" ] || {
	echo "link.sh: no network card has ${address%/*}" >&2
	exit 1
}

# Back to the beginning, whatever was before.
for l in $(rdma link show | awk '$2 ~ /^(rxe|siw)0\// {sub("/.*", "", $2); print $2}'); do rdma link delete "$l"; done
if ip netns list | grep -qw wire; then
	ip -n wire link set "$card" nomaster
	ip -n wire link set "$card" netns 1
	ip netns delete wire
	ip link delete nd0 2>/dev/null || true
fi

if [ "$kind" = plain ]; then
	device=$card
	ip link set "$card" mtu "$mtu" up
else
	device=nd0
	ip addr flush dev "$card"
	ip netns add wire
	ip link add nd0 mtu "$mtu" type veth peer name nd0w mtu "$mtu" netns wire
	ip link set "$card" netns wire
	ip -n wire link add bridge mtu "$mtu" type bridge mcast_snooping 0
	for port in nd0w "$card"; do
		ip -n wire link set "$port" mtu "$mtu" master bridge up
	done
	ip -n wire link set bridge up
	# One loss is one packet lost, for TCP as for all: no segments of 64 KiB on the wire.
	for offload in tso gso gro; do
		ethtool -K nd0 "$offload" off
		ip netns exec wire ethtool -K nd0w "$offload" off
		ip netns exec wire ethtool -K "$card" "$offload" off
	done
	[ $# -eq 0 ] || tc -n wire qdisc replace dev "$card" root netem limit 20000 "$@"
	ip link set nd0 up
fi
ip addr replace "$address" dev "$device"
ip neigh flush dev "$device"

for m in rxe siw; do
	module=$m
	[ "$m" = siw ] || module=rdma_rxe
	modprobe -q "$module" && rdma link add "${m}0" type "$m" netdev "$device" || echo "link.sh: no $m here" >&2
done
echo "$device"
