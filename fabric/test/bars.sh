#!/usr/bin/env bash
# bars.sh [loopback|veth] [ROUNDS]: compares NPopenmpi over the provider in bin/ with NPopenmpi over Open MPI's other transports on sockets,
# between two ranks on loopback or in two namespaces that a veth pair joins. It runs the transports in turn, ROUNDS times (default 5), and
# prints the median time of each message size and its ratio to the fastest other transport. A round takes a minute. Use a quiet machine. veth
# needs root.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
where=${1:-loopback} rounds=${2:-5}
work=$(mktemp -d)
ns="ndxbar$$"
export FI_PROVIDER_PATH=${FI_PROVIDER_PATH:-$PWD/bin}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_base_warn_component_unused=0

cleanup() {
	ip netns del "$ns.a" 2>/dev/null
	ip netns del "$ns.b" 2>/dev/null
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

command -v NPopenmpi >/dev/null || { echo "bars.sh: NPopenmpi is missing: apt-get install netpipe-openmpi" >&2 && exit 1; }
[ -e "$FI_PROVIDER_PATH/libndxdp-fi.so" ] || { echo "bars.sh: bin/libndxdp-fi.so is missing: make fabric" >&2 && exit 1; }

# Each rank of a namespace has a host name of its own, so that mpirun starts the second rank through its agent, and not as a rank of its host.
namespaces() {
	ip netns add "$ns.a" && ip netns add "$ns.b" && ip link add ndx0 netns "$ns.a" type veth peer name ndx0 netns "$ns.b" &&
		ip -n "$ns.a" addr add 10.99.0.1/24 dev ndx0 && ip -n "$ns.b" addr add 10.99.0.2/24 dev ndx0 &&
		ip -n "$ns.a" link set ndx0 up && ip -n "$ns.b" link set ndx0 up && ip -n "$ns.a" link set lo up && ip -n "$ns.b" link set lo up || exit 1
	printf '#!/bin/sh\n# called as: agent HOST COMMAND...\nshift\nexec ip netns exec %s.b unshare --uts sh -c "hostname ndxbar-b; $*"\n' "$ns" >"$work/agent"
	chmod +x "$work/agent"
}

case $where in
loopback)
	network=127.0.0.0/8 interface=lo
	ip link set lo up 2>/dev/null
	prefix=()
	launch=(mpirun --bind-to core -np 2)
	;;
veth)
	namespaces
	network=10.99.0.0/24 interface=ndx0
	prefix=(ip netns exec "$ns.a" unshare --uts sh -c 'hostname ndxbar-a; exec "$@"' sh)
	launch=(mpirun --host "ndxbar-a:1,ndxbar-b:1" --bind-to none -np 2 --mca plm_rsh_agent "$work/agent" --mca oob_tcp_if_include "$network")
	;;
*)
	echo "bars.sh: $where: choose loopback or veth" >&2
	exit 1
	;;
esac

transports=(ndxdp 'tcp;ofi_rxm' 'btl tcp' 'UCX tcp')

# run TRANSPORT FILE: one NPopenmpi run.
run() {
	local options=()
	# shellcheck disable=SC2054 # the commas belong to the values
	case $1 in
	ndxdp)
		options=(--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include ndxdp -x FI_PROVIDER_PATH)
		[ "$where" = veth ] || options+=(-x FI_NDXDP_IFACE=lo)
		;;
	'tcp;ofi_rxm') options=(--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include 'tcp;ofi_rxm' -x FI_TCP_IFACE="$interface") ;;
	'btl tcp') options=(--mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include "$network") ;;
	'UCX tcp') options=(--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any -x UCX_TLS=tcp,self -x UCX_NET_DEVICES="$interface") ;;
	esac
	# NPopenmpi chooses how often it sends each size. A hundred times, which take a millisecond, measure how the machine woke up.
	timeout -k 5 100 "${prefix[@]}" "${launch[@]}" "${options[@]}" NPopenmpi -l 1 -u 1048576 -p 0 -o "$2" >"$work/log" 2>&1 && return
	echo "bars.sh: NPopenmpi does not run over $1:" >&2
	tail -n 5 "$work/log" >&2
}

for round in $(seq "$rounds"); do
	for t in "${transports[@]}"; do
		run "$t" "$work/$t.$round"
	done
done

# NPopenmpi writes a line for each size: bytes, Mb/s, seconds one way.
awk -v rounds="$rounds" -v "names=$(IFS=,; echo "${transports[*]}")" -v work="$work" '
function median(list, n,   i, j, v) {
	for (i = 2; i <= n; i++) { # insertion sort
		v = list[i]
		for (j = i - 1; j > 0 && list[j] > v; j--) list[j + 1] = list[j]
		list[j + 1] = v
	}
	return (list[int((n + 1) / 2)] + list[int((n + 2) / 2)]) / 2
}
BEGIN {
	count = split(names, name, ",")
	for (t = 1; t <= count; t++)
		for (r = 1; r <= rounds; r++) {
			file = work "/" name[t] "." r
			while ((getline line < file) > 0) {
				split(line, f, " ")
				if (!(f[1] in seen)) { seen[f[1]] = 1; size[++sizes] = f[1] }
				value[t, f[1], ++have[t, f[1]]] = f[3] * 1e6
			}
		}
	printf "%9s", "bytes"
	for (t = 1; t <= count; t++) printf " %12s", name[t]
	printf " %7s   %s\n", "ratio", "ndxdp from .. to"
	for (i = 1; i <= sizes; i++) {
		b = size[i]; best = 0
		printf "%9d", b
		for (t = 1; t <= count; t++) {
			n = have[t, b]; delete list
			for (r = 1; r <= n; r++) list[r] = value[t, b, r]
			m = n ? median(list, n) : 0
			printf " %12.2f", m
			if (t == 1) { ours = m; low = list[1]; high = list[n] }
			else if (m && (!best || m < best)) best = m
		}
		ratio = best ? ours / best : 0
		printf " %7.2f   %.2f .. %.2f\n", ratio, low, high
		if (ratio > worst) { worst = ratio; at = b }
	}
	printf "times in us one way, medians of %d rounds; the largest ratio is %.2f at %d bytes\n", rounds, worst, at
}'
