#!/usr/bin/env bash
# The lab without Vagrant (make lab-vm): builds the guests from Debian's packages, starts two of them under QEMU in a network
# namespace of their own, runs bench.sh (or the command given) and leaves nothing but the image in the cache.
#
#   vm.sh [COMMAND ...]    COMMAND runs beside the guests; it finds LAB_SSH_CONFIG, LAB_A and LAB_B in its environment
#
# Settings: NDXDP_LAB_ACCEL (auto, kvm, tcg), NDXDP_LAB_LIMIT (seconds for everything after the image is built),
# NDXDP_LAB_CACHE (where the image is kept), NDXDP_LAB_MIRROR (Debian mirror).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${NDXDP_LAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ndxdp-lab}
limit=${NDXDP_LAB_LIMIT:-2400}
boot_limit=180 # seconds until a guest answers; 15 are usual without KVM
probe_limit=15 # seconds in which KVM must get through a kernel's start; a second is usual where it works
lab_mtu=9000

die() {
	printf 'vm.sh: %s\n' "$*" >&2
	exit 1
}

# qemu ACCEL ARGUMENTS... replaces this process.
qemu() {
	local flags=(-accel kvm -cpu host)
	[ "$1" = kvm ] || flags=(-accel "tcg,thread=multi" -cpu "max,-la57")
	shift
	exec qemu-system-x86_64 -nodefaults -no-reboot -display none -M q35 -smp 1 "${flags[@]}" "$@"
}

# kvm_boots tells whether this kernel starts under KVM: it has no disk here, so it panics, and a panic ends QEMU. There are
# hosts that offer /dev/kvm on which distribution kernels hang.
kvm_boots() {
	[ -r /dev/kvm ] && [ -w /dev/kvm ] || return 1
	export -f qemu
	timeout -k 2 "$probe_limit" bash -c 'qemu "$@"' - kvm -m 512 -kernel "$cache/vmlinuz" \
		-append "console=ttyS0 panic=-1" -serial "file:$run/probe.log" || return 1
	grep -q 'Kernel panic - not syncing: VFS' "$run/probe.log"
}

choose_accel() {
	case ${NDXDP_LAB_ACCEL:-auto} in
	kvm | tcg) accel=$NDXDP_LAB_ACCEL ;;
	auto) if kvm_boots 2>/dev/null; then accel=kvm; else accel=tcg; fi ;;
	*) die "NDXDP_LAB_ACCEL is auto, kvm or tcg" ;;
	esac
	echo "vm.sh: accelerator $accel"
}

# outside prepares what needs the network, and then runs the rest where nothing can be left behind: in its own network,
# mount and process namespaces, which the kernel clears when their first process is gone.
outside() {
	[ "$(id -u)" = 0 ] || die "needs root: namespaces, tap devices, and a root file system with right owners"
	for tool in qemu-system-x86_64 mmdebstrap mke2fs ssh ip jq unshare; do
		command -v "$tool" >/dev/null || die "$tool is missing: apt-get install qemu-system-x86 mmdebstrap e2fsprogs openssh-client iproute2 jq util-linux"
	done
	mkdir -p "$cache"
	exec 8>"$cache/lock"
	flock -n 8 || die "another lab is running (it holds $cache/lock)"
	"$here/guest.sh" "$cache"
	run=$(mktemp -d)
	lab=
	trap end_outside EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	(cd "$here/.." && CGO_ENABLED=0 go build -o "$run/ndperf" ./cmd/ndperf)
	choose_accel
	unshare --net --mount --pid --fork --mount-proc --kill-child "$0" inside "$run" "$accel" "$@" 8>&- &
	lab=$!
	(sleep "$limit" 8>&- && kill -KILL "$lab") 2>/dev/null &
	watchdog=$!
	local status=0
	wait "$lab" || status=$?
	[ "$status" != 137 ] || echo "vm.sh: stopped after $limit seconds" >&2
	return "$status"
}

# Killing unshare kills the first process of the namespaces (--kill-child), and with it everything in them.
end_outside() {
	trap '' INT TERM HUP
	if [ -n "$lab" ]; then
		kill -KILL "$lab" 2>/dev/null || true
		pkill -KILL -P "$watchdog" 2>/dev/null || true
		kill "$watchdog" 2>/dev/null || true
		wait "$lab" "$watchdog" 2>/dev/null || true
	fi
	rm -rf "$run"
}

network() {
	ip link set lo up
	ip link add br0 type bridge mcast_snooping 0
	ip link set br0 mtu "$lab_mtu" up
	local n
	for n in 1 2; do
		ip tuntap add "tap$n" mode tap
		ip link set "tap$n" mtu "$lab_mtu" master br0 up
	done
}

# start_guest NUMBER. The measured card has what native XDP on virtio-net asks for: no receive offloads, and no more queues
# than CPUs, because the driver would receive on the others without sending on them; host_mtu tells the guest how long a frame
# may be.
start_guest() {
	local n=$1
	local no_offloads=guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off
	(
		export TMPDIR="$run"
		qemu "$accel" -m 1536 -kernel "$cache/vmlinuz" -initrd "$cache/initrd" \
			-append "root=/dev/vda rw console=ttyS0 panic=-1 net.ifnames=0 mitigations=off systemd.hostname=guest$n" \
			-serial "file:$run/guest$n.log" \
			-drive "if=none,id=disk,format=raw,snapshot=on,file=$cache/root.img" -device virtio-blk-pci,drive=disk \
			-netdev "user,id=ssh,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:220$n-:22" \
			-device "virtio-net-pci,netdev=ssh,mac=52:54:00:00:00:0$n,romfile=" \
			-netdev "tap,id=nd,ifname=tap$n,script=no,downscript=no" \
			-device "virtio-net-pci,netdev=nd,mac=52:54:01:00:00:0$n,romfile=,host_mtu=$lab_mtu,$no_offloads"
	) &
	guests+=($!)
}

write_ssh_config() {
	local n
	for n in 1 2; do
		cat <<-END
			Host guest$n
			  HostName 127.0.0.1
			  Port 220$n
			  User root
			  IdentityFile $cache/key
			  IdentitiesOnly yes
			  UserKnownHostsFile /dev/null
			  StrictHostKeyChecking no
			  LogLevel ERROR
			  ConnectTimeout 10
		END
	done >"$run/ssh_config"
}

# await_guest NUMBER returns when ssh works, and fails when the time is up or QEMU is gone.
await_guest() {
	local n=$1 pid=${guests[$1 - 1]}
	until ssh -F "$run/ssh_config" "guest$n" true 2>/dev/null; do
		kill -0 "$pid" 2>/dev/null || die "guest$n is gone: $(tail -n 3 "$run/guest$n.log")"
		[ "$SECONDS" -lt "$boot_limit" ] || die "guest$n does not answer after $boot_limit seconds: $(tail -n 3 "$run/guest$n.log")"
		sleep 1
	done
	ssh -F "$run/ssh_config" "guest$n" "ip addr add 10.77.0.1$n/24 dev eth1 && ip link set eth1 mtu $lab_mtu up"
	echo "vm.sh: guest$n is up after $SECONDS seconds"
}

inside() {
	run=$1 accel=$2
	shift 2
	guests=()
	trap 'end_inside' EXIT
	network
	start_guest 1
	start_guest 2
	write_ssh_config
	SECONDS=0
	await_guest 1
	await_guest 2
	export LAB_SSH_CONFIG=$run/ssh_config LAB_A=guest1 LAB_B=guest2 LAB_NDPERF=$run/ndperf LAB_ACCEL=$accel
	[ $# -gt 0 ] || set -- "$here/bench.sh"
	"$@"
}

end_inside() {
	local pid
	for pid in "${guests[@]}"; do kill -KILL "$pid" 2>/dev/null || true; done
	wait 2>/dev/null || true # and say nothing about who was killed
}

if [ "${1:-}" = inside ]; then
	shift
	inside "$@"
else
	outside "$@"
fi
