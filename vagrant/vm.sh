#!/usr/bin/env bash
# The lab without Vagrant (make lab-vm): builds the guests from Debian's packages, starts two of them under QEMU, runs bench.sh
# (or the command given) beside them, and leaves nothing but the image in the cache.
#
#   vm.sh [COMMAND ...]    COMMAND finds LAB_SSH_CONFIG, LAB_A and LAB_B in its environment
#
# Settings: NDXDP_LAB_ACCEL (auto, kvm, tcg), NDXDP_LAB_CPUS and NDXDP_LAB_QUEUES (of each guest), NDXDP_LAB_LIMIT (seconds for
# COMMAND), NDXDP_LAB_CACHE (where the image is kept), NDXDP_LAB_MIRROR (Debian mirror; that of the host's apt).
#
# However this ends, nothing stays: everything runs in mount, process and network namespaces of its own, which the kernel
# clears when their first process is gone, and that goes when this one does. Temporary files are in one directory, and a
# guard outside of all that removes it when this process is gone, killed or not, and the last process of the lab with it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${NDXDP_LAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ndxdp-lab}
report_time=40 # seconds that a stopped measurement has for its report
clear_time=60  # seconds in which the kernel must have ended what was killed
go_limit=600   # seconds for compiling ndperf

die() {
	printf 'vm.sh: %s\n' "$*" >&2
	exit 1
}

# inside is the first process of the namespaces. It has no trap: before the guests are up, whoever wants it to end kills it.
inside() {
	export TMPDIR=$run
	"$here/image.sh" "$cache"
	(cd "$here/.." && CGO_ENABLED=0 timeout "$go_limit" go build -ldflags='-s -w' -o "$run/ndperf" ./cmd/ndperf)
	exec unshare --net "$here/guests.sh" "$cache" "$run" "$@"
}

# guard waits for the end of its input, which is the end of vm.sh, and then for the lock, which every process of the lab holds.
guard() {
	trap '' INT TERM HUP
	cat >/dev/null
	flock -w "$clear_time" "$cache/lock" rm -rf --one-file-system "$run"
}

# stop SIGNAL: what was measured is reported before the end.
stop() {
	trap '' INT TERM HUP
	if [ -e "$run/measuring" ]; then
		pkill -TERM -P "$lab" || true
		for _ in $(seq "$report_time"); do
			kill -0 "$lab" 2>/dev/null || break
			sleep 1
		done
	fi
	exit $((128 + $1))
}

end() {
	if [ -n "$lab" ]; then
		kill -KILL "$lab" 2>/dev/null || true
		wait "$lab" 2>/dev/null || true
	fi
	exec 9>&- 8>&-
	wait "$guard" || true
}

outside() {
	[ "$(id -u)" = 0 ] || die "needs root: namespaces, tap devices, and a root file system with right owners"
	for tool in qemu-system-x86_64 mmdebstrap mke2fs ssh ip jq unshare go; do
		command -v "$tool" >/dev/null || die "$tool is missing: apt-get install qemu-system-x86 mmdebstrap e2fsprogs openssh-client iproute2 jq util-linux, and Go"
	done
	mkdir -p "$cache"
	exec 8>"$cache/lock"
	flock -n 8 || die "another lab is running (it holds $cache/lock)"
	rm -rf --one-file-system "$cache"/run.*
	run=$(mktemp -d "$cache/run.XXXXXX")
	export cache run clear_time
	export -f guard
	exec 9> >(exec 8>&- setsid bash -c guard)
	guard=$!
	lab=
	trap end EXIT
	trap 'stop 2' INT
	trap 'stop 15' TERM HUP
	setpriv --pdeathsig KILL setsid unshare --mount --pid --fork --mount-proc --kill-child "$here/vm.sh" inside "$run" "$@" 9>&- &
	lab=$!
	local status=0
	wait "$lab" || status=$?
	lab=
	return "$status"
}

if [ "${1:-}" = inside ]; then
	run=$2
	shift 2
	inside "$@"
else
	outside "$@"
fi
