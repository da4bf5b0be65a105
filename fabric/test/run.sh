#!/usr/bin/env bash
# run.sh [--quick]: tests of the libfabric provider in bin/, with programs of ours, fi_pingpong, and Open MPI. --quick leaves out long tests, and
# has fewer rounds of others. Tests that need root or a program that is missing are skipped with the reason.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
quick=${1:-}
bin=$PWD/bin
work=$(mktemp -d)
failed=0
iterations=$([ "$quick" = --quick ] && echo 10 || echo 100)
ns="ndxfi$$"
export FI_PROVIDER_PATH=$bin FI_NDXDP_IFACE=lo
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_base_warn_component_unused=0

cleanup() {
	ip netns del "$ns.a" 2>/dev/null
	ip netns del "$ns.b" 2>/dev/null
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

report() { # report STATUS NAME [FILE]
	if [ "$1" = 0 ]; then
		printf 'ok: %s\n' "$2"
	else
		failed=$((failed + 1))
		printf 'not ok: %s (status %s)\n' "$2" "$1"
		[ $# -lt 3 ] || tail -n 25 "$3"
	fi
}
skip() { printf 'skip: %s: %s\n' "$1" "$2"; }

# run NAME SECONDS COMMAND...: passes if the command ends with 0.
run() {
	local name=$1 limit=$2
	shift 2
	timeout -k 5 "$limit" "$@" >"$work/out" 2>&1
	report $? "$name" "$work/out"
}

# ours PROGRAM ARGUMENTS...: prints the lines of one of our programs, which name what they test.
ours() {
	timeout -k 5 120 "$work/$1" "${@:2}" 2>&1
	local status=$?
	[ $status = 0 ] || report $status "$*"
}

build() {
	local flags=(-std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror)
	for program in features faults stress footprint; do
		gcc "${flags[@]}" -o "$work/$program" "fabric/test/$program.c" fabric/test/pair.c -lfabric -lpthread || exit 1
	done
	! command -v mpicc >/dev/null || mpicc -std=c11 -O2 -Wall -Wextra -Werror -o "$work/mpi" fabric/test/mpi.c || exit 1
}

# pingpong NAME TYPE PROVIDER [SERVER-PREFIX CLIENT-PREFIX ADDRESS]: every size with a check of the data.
pingpong() {
	local name="fi_pingpong $1" options=(-p "$3" -e "$2" -c -S all -I "$iterations" -B "$((20000 + $$ % 20000))") address=${6:-127.0.0.1}
	# shellcheck disable=SC2086 # the prefixes are several words
	timeout -k 5 100 ${4:-} fi_pingpong "${options[@]}" >"$work/server" 2>&1 &
	local server=$!
	for _ in $(seq 50); do # the client does not wait for a server that starts
		# shellcheck disable=SC2086
		timeout -k 5 100 ${5:-} fi_pingpong "${options[@]/-B/-P}" "$address" >"$work/client" 2>&1
		local status=$?
		if [ "$status" = 0 ] || ! grep -q 'Connection refused' "$work/client" || ! kill -0 $server 2>/dev/null; then
			break
		fi
		sleep 0.2
	done
	[ "$status" = 0 ] || kill $server 2>/dev/null
	wait $server || status=1
	grep -q '1m' "$work/client" || status="$status, not all sizes"
	cat "$work/server" >>"$work/client"
	report "$status" "$name" "$work/client"
}

namespaces() {
	if [ "$(id -u)" != 0 ]; then
		skip "fi_pingpong between namespaces" "needs root to make them"
		return
	fi
	if ! { ip netns add "$ns.a" && ip netns add "$ns.b" && ip link add "nda$$" netns "$ns.a" type veth peer name "ndb$$" netns "$ns.b" &&
		ip -n "$ns.a" addr add 10.99.0.1/24 dev "nda$$" && ip -n "$ns.b" addr add 10.99.0.2/24 dev "ndb$$" &&
		ip -n "$ns.a" addr add 2001:db8::1/64 dev "nda$$" nodad && ip -n "$ns.a" link set lo up &&
		ip -n "$ns.a" link set "nda$$" up && ip -n "$ns.b" link set "ndb$$" up; }; then
		report 1 "network namespaces"
		return
	fi
	local a="env -u FI_NDXDP_IFACE ip netns exec $ns.a" b="env -u FI_NDXDP_IFACE ip netns exec $ns.b"
	# shellcheck disable=SC2086 # the prefix is several words
	run "fi_info lists one family of addresses, and no loopback beside others" 20 sh -c \
		"$a fi_info -p ndxdp -t FI_EP_MSG | grep domain: | grep -v '10.99.0.1\$' && exit 1; $a fi_info -p ndxdp -t FI_EP_MSG -a FI_SOCKADDR_IN6 | grep 2001:db8::1"
	pingpong "msg, two namespaces" msg ndxdp "$a" "$b" 10.99.0.1
	pingpong "rdm, two namespaces" rdm "ndxdp;ofi_rxm" "$a" "$b" 10.99.0.1
}

# missing: a domain without the library fails with -FI_ENOSYS, and the process goes on.
missing() {
	mkdir "$work/alone"
	cp "$bin/libndxdp-fi.so" "$work/alone/"
	FI_PROVIDER_PATH=$work/alone timeout 20 "$work/features" >"$work/out" 2>&1
	grep -q 'Function not implemented' "$work/out"
	report $? "a missing libndxdp.so is an error of fi_domain" "$work/out"
}

mpi_options=(--oversubscribe --mca pml cm --mca mtl ofi --mca opal_common_ofi_provider_include ndxdp --mca opal_common_ofi_verbose 1
	-x FI_PROVIDER_PATH -x FI_NDXDP_IFACE)

# mpi NAME SECONDS ARGUMENTS...: passes if mpirun ends with 0 and every rank chose this provider.
mpi() {
	local name="Open MPI: $1" limit=$2
	shift 2
	timeout -k 5 "$limit" mpirun "${mpi_options[@]}" "$@" >"$work/out" 2>&1
	local status=$?
	[ $status != 0 ] || grep -q 'mtl:ofi:prov: ndxdp;ofi_rxm' "$work/out" || status="0, but another transport"
	report "$status" "$name" "$work/out"
}

# killed_rank: when a rank is killed in the middle, mpirun ends the others.
killed_rank() {
	timeout -k 5 60 mpirun "${mpi_options[@]}" -np 2 "$work/mpi" 1000000 >"$work/out" 2>&1 &
	local mpirun=$! rank='' ended=1
	for _ in $(seq 100); do
		rank=$(pgrep -f "^$work/mpi " | head -n 1)
		[ -n "$rank" ] && grep -q 'libndxdp.so' "/proc/$rank/maps" 2>/dev/null && break
		sleep 0.1
	done
	sleep 1
	[ -n "$rank" ] && kill -9 "$rank" && wait $mpirun
	[ $? = 124 ] || for _ in $(seq 50); do # mpirun does not wait for the ranks that it ends
		pgrep -f "^$work/mpi " >/dev/null || { ended=0 && break; }
		sleep 0.1
	done
	[ $ended = 0 ] || kill $mpirun 2>/dev/null
	report $ended "Open MPI: the others end when a rank is killed" "$work/out"
}

open_mpi() {
	if ! command -v mpirun >/dev/null || [ ! -x "$work/mpi" ]; then
		skip "Open MPI" "mpirun or mpicc is missing: apt-get install openmpi-bin libopenmpi-dev"
		return
	fi
	mpi "2 ranks" 60 -np 2 "$work/mpi"
	mpi "4 ranks" 60 -np 4 "$work/mpi"
	[ "$quick" != --quick ] || return
	mpi "8 ranks" 200 -np 8 "$work/mpi"
	mpi "2 ranks, each bound to a core" 60 --bind-to core -np 2 "$work/mpi" 3
	killed_rank
	if command -v NPopenmpi >/dev/null; then
		mpi "NPopenmpi, 1 B to 1 MiB" 200 --bind-to core -np 2 NPopenmpi -u 1048576 -o "$work/np.out"
	else
		skip NPopenmpi "it is missing: apt-get install netpipe-openmpi"
	fi
	if command -v hpcc >/dev/null; then
		high_performance
	else
		skip hpcc "it is missing: apt-get install hpcc"
	fi
}

# high_performance runs HPC Challenge on a small problem: linear algebra, transposes and random access check their own results.
high_performance() {
	local input=/usr/share/doc/hpcc/examples/_hpccinf.txt
	[ -e $input ] || input=$(dpkg -L hpcc 2>/dev/null | grep hpccinf | head -n 1)
	mkdir -p "$work/hpcc"
	case $input in *.gz) gunzip -c "$input" ;; *) cat "$input" ;; esac >"$work/hpcc/hpccinf.txt"
	mpi "hpcc, 4 ranks" 400 -np 4 -wdir "$work/hpcc" hpcc
	grep -q 'Success=1' "$work/hpcc/hpccoutf.txt" && ! grep -q '[1-9][0-9]* tests completed and failed residual' "$work/hpcc/hpccoutf.txt"
	report $? "hpcc: its results are right" "$work/hpcc/hpccoutf.txt"
}

[ -e "$bin/libndxdp-fi.so" ] || { echo "run.sh: bin/libndxdp-fi.so is missing: make fabric" >&2 && exit 1; }
build
run "fi_info lists the provider" 20 sh -c 'fi_info -p ndxdp -t FI_EP_MSG | grep -q "provider: ndxdp$" && fi_info -p ndxdp -t FI_EP_RDM | grep -q "ndxdp;ofi_rxm"'
ours footprint
missing
ours features
ours faults
ours stress signals
ours stress fork
ours stress connect "$([ "$quick" = --quick ] && echo 100 || echo 1000)"
ours stress kill
ours stress stop
ours stress remove
pingpong "msg, loopback" msg ndxdp
pingpong "rdm, loopback" rdm "ndxdp;ofi_rxm"
namespaces
open_mpi
[ "$failed" = 0 ] || { printf '%s failed\n' "$failed" >&2 && exit 1; }
