#!/usr/bin/env bash
# Starts the two guests of the lab under QEMU and a command beside them; vm.sh runs it as the first process of namespaces of
# their own. Bridge and taps are in that network namespace, and nothing here touches the host's interfaces.
#
#   guests.sh CACHE RUN [COMMAND ...]    the image is in CACHE, temporary files go to RUN; the command is bench.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cache=${1:?} run=${2:?}
shift 2
boot_limit=300   # seconds until a guest answers; 15 are usual without KVM, 130 were seen on a busy host
probe_limit=15   # seconds in which KVM must get through a kernel's start; a second is usual where it works
figure_limit=30  # seconds for each run of bench.sh's list
other_limit=3600 # seconds for other commands
report_time=30   # seconds that a stopped command has for its report
memory=1536      # MiB of each guest
mtu=9000

# Half of the host's processors for each guest, 1 to 4, so that two that spin do not wait for each other.
half=$(($(nproc) / 2))
cpus=${NDXDP_LAB_CPUS:-$((half < 1 ? 1 : half > 4 ? 4 : half))}
# No more queues than CPUs: virtio-net would receive on the others without sending on them.
queues=${NDXDP_LAB_QUEUES:-$cpus}

die() {
	printf 'guests.sh: %s\n' "$*" >&2
	exit 1
}

# qemu ACCEL CPUS ARGUMENTS... replaces this process.
qemu() {
	local flags=(-accel kvm -cpu host)
	[ "$1" = kvm ] || flags=(-accel "tcg,thread=multi" -cpu "max,-la57")
	exec qemu-system-x86_64 -nodefaults -no-reboot -display none -M q35 -smp "$2" "${flags[@]}" "${@:3}"
}

# kvm_boots tells whether this kernel starts under KVM: it has no disk here, so it panics, and a panic ends QEMU. There are
# hosts that offer /dev/kvm on which distribution kernels hang.
kvm_boots() {
	[ -r /dev/kvm ] && [ -w /dev/kvm ] || return 1
	export -f qemu
	timeout -k 2 "$probe_limit" bash -c 'qemu "$@"' - kvm 1 -m 512 -kernel "$cache/vmlinuz" \
		-append "console=ttyS0 panic=-1" -serial "file:$run/probe.log" || return 1
	grep -q 'Kernel panic - not syncing: VFS' "$run/probe.log"
}

choose_accel() {
	case ${NDXDP_LAB_ACCEL:-auto} in
	kvm | tcg) accel=$NDXDP_LAB_ACCEL ;;
	auto) if kvm_boots 2>/dev/null; then accel=kvm; else accel=tcg; fi ;;
	*) die "NDXDP_LAB_ACCEL is auto, kvm or tcg" ;;
	esac
	echo "guests.sh: accelerator $accel, $cpus CPUs and $queues queues for each guest"
}

network() {
	ip link set lo up
	ip link add br0 type bridge mcast_snooping 0
	ip link set br0 mtu "$mtu" up
	local n multi=()
	[ "$queues" = 1 ] || multi=(multi_queue)
	for n in 1 2; do
		ip tuntap add "tap$n" mode tap "${multi[@]}"
		ip link set "tap$n" mtu "$mtu" master br0 up
	done
}

# start_guest NUMBER. The measured card has what native XDP on virtio-net asks for: no receive offloads. host_mtu tells the guest
# how long a frame may be.
start_guest() {
	local n=$1 backend='' card=host_mtu=$mtu,guest_csum=off,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off
	if [ "$queues" != 1 ]; then
		backend=,queues=$queues
		card+=,mq=on,vectors=$((2 * queues + 2))
	fi
	(
		qemu "$accel" "$cpus" -m "$memory" -kernel "$cache/vmlinuz" -initrd "$cache/initrd" \
			-append "root=/dev/vda rw console=ttyS0 panic=-1 net.ifnames=0 mitigations=off systemd.hostname=guest$n" \
			-serial "file:$run/guest$n.log" \
			-drive "if=none,id=disk,format=raw,snapshot=on,file=$cache/root.img" -device virtio-blk-pci,drive=disk \
			-netdev "user,id=ssh,restrict=on,ipv6=off,hostfwd=tcp:127.0.0.1:220$n-:22" \
			-device "virtio-net-pci,netdev=ssh,mac=52:54:00:00:00:0$n,romfile=" \
			-netdev "tap,id=nd,ifname=tap$n,script=no,downscript=no$backend" \
			-device "virtio-net-pci,netdev=nd,mac=52:54:01:00:00:0$n,romfile=,$card"
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
			  IdentityFile "$cache/key"
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
	until ssh -nF "$run/ssh_config" "guest$n" true 2>/dev/null; do
		kill -0 "$pid" 2>/dev/null || die "guest$n is gone: $(tail -n 3 "$run/guest$n.log")"
		[ "$SECONDS" -lt "$boot_limit" ] || die "guest$n does not answer after $boot_limit seconds: $(tail -n 3 "$run/guest$n.log")"
		sleep 1
	done
	ssh -nF "$run/ssh_config" "guest$n" "ip addr add 10.77.0.1$n/24 dev eth1 && ip link set eth1 mtu $mtu up"
	echo "guests.sh: guest$n is up after $SECONDS seconds"
}

# limit COMMAND... prints how long the command may take.
limit() {
	if [ -n "${NDXDP_LAB_LIMIT:-}" ]; then
		echo "$NDXDP_LAB_LIMIT"
	elif [ "$1" -ef "$here/bench.sh" ]; then
		echo $(($("$here/plan.sh" "${@:2}" | wc -l) * figure_limit * ${LAB_REPEATS:-1}))
	else
		echo "$other_limit"
	fi
}

# supervise SECONDS COMMAND... A command that is stopped, by a signal or because the time is up, gets SIGTERM, and time to report.
supervise() {
	local end=$((SECONDS + $1)) command timer status=0
	"${@:2}" &
	command=$!
	trap 'end=$SECONDS' TERM
	touch "$run/measuring"
	while kill -0 "$command" 2>/dev/null && [ "$SECONDS" -lt "$end" ]; do
		sleep $((end - SECONDS)) &
		timer=$!
		wait -n "$command" "$timer" || true
		kill "$timer" 2>/dev/null || true
	done
	trap '' TERM
	if kill -TERM "$command" 2>/dev/null; then
		echo "guests.sh: stopped after $SECONDS seconds of at most $1" >&2
		(sleep "$report_time" && kill -KILL "$command") &
	fi
	wait "$command" || status=$?
	return "$status"
}

[ $# -gt 0 ] || set -- "$here/bench.sh"
seconds=$(limit "$@")
guests=()
choose_accel
network
start_guest 1
start_guest 2
write_ssh_config
SECONDS=0
await_guest 1
await_guest 2
SECONDS=0
LAB_QEMU=$(qemu-system-x86_64 --version | sed -n 's/^QEMU emulator version //p')
export LAB_QEMU LAB_SSH_CONFIG=$run/ssh_config LAB_A=guest1 LAB_B=guest2 LAB_NDPERF=$run/ndperf
supervise "$seconds" "$@"
