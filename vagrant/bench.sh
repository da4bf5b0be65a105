#!/usr/bin/env bash
# Measures between the two guests: ndperf, kernel TCP, SoftRoCE (rxe) and soft-iWARP (siw), on the plain link and on impaired ones.
# Runs on the host. Without LAB_SSH_CONFIG it asks Vagrant how to reach the guests.
#
#   bench.sh [PROFILE ...]    default: all of plan.sh. LAB_JSON names the report (lab.json), LAB_DURATION the seconds of a
# measurement (1), LAB_REPEATS how often each is made (1; the median counts), LAB_TESTS the tests of ndperf and perftest
#
# Each figure goes to lab.jsonl when it is there; the table and lab.json are made of that by report.sh at the end, also
# when the run is interrupted.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
a=${LAB_A:-a} b=${LAB_B:-b} addr_a=10.77.0.11 addr_b=10.77.0.12
json=${LAB_JSON:-lab.json}
figures=${json%.json}.jsonl
duration=${LAB_DURATION:-1}
limit=$((25 + 3 * duration)) # seconds for one command in a guest
copy_limit=180               # seconds for copying ndperf to a guest
repeats=${LAB_REPEATS:-1}    # figures for each median
spare=1                      # so many runs that give no figure are repeated
work=$(mktemp -d)

die() {
	printf 'bench.sh: %s\n' "$*" >&2
	exit 1
}

# on GUEST COMMAND [FILE]: as root, with FILE as its input. The shell waits in wait, where a signal reaches it.
on() {
	timeout "${on_limit:-$limit}" ssh -F "$LAB_SSH_CONFIG" -o ControlMaster=auto -o "ControlPath=\"$work/%n\"" -o ControlPersist=60 "$1" \
		sudo=\$\(command -v sudo \|\| true\)\; "\$sudo bash -c $(printf %q "$2")" <"${3:-/dev/null}" &
	job=$!
	wait "$job"
}

server=
stop_server() {
	[ -z "$server" ] || on "$b" "kill $server 2>/dev/null; for i in \$(seq 30); do kill -0 $server 2>/dev/null || exit 0; sleep 0.1; done" || true
	server=
}

# serve READY COMMAND starts a command on b and waits until the other command, READY, succeeds there.
serve() {
	on "$b" "timeout -k 2 $limit $2 </dev/null >/run/server.log 2>&1 & echo \$!
		for i in \$(seq 100); do $1 && exit 0; kill -0 \$! || exit 1; sleep 0.1; done; exit 1" >"$work/server" 2>/dev/null || return 1
	server=$(<"$work/server")
}

# measure UNIT READY SERVER CLIENT FILTER: the filter, here, turns the output of CLIENT into a number. Of several the median counts.
measure() {
	local values=() value why='' attempt=0
	while [ ${#values[@]} -lt "$repeats" ] && [ $((attempt - ${#values[@]})) -le "$spare" ]; do
		attempt=$((attempt + 1)) value=''
		if ! serve "$2" "$3"; then
			why="no server"
		elif ! on "$a" "timeout -k 2 $((limit - 5)) $4 2>/run/client.log || { s=\$?; tail -n 1 /run/client.log >&2; exit \$s; }" >"$work/out" 2>"$work/err"; then
			why=$(tail -n 1 "$work/err")
			why=${why:-no end within $((limit - 5)) s}
		else
			value=$(bash -c "$5" <"$work/out" 2>/dev/null | grep -E '^[0-9.]+$' | head -n 1 || true)
			[ -n "$value" ] || why="no figure in its output"
		fi
		[ -z "$value" ] || values+=("$value")
		stop_server
	done
	[ "$by" != nd ] || datapath=$(jq -r '.results[0].datapath' "$work/out" 2>/dev/null || true)
	note "$1" "$attempt" "$4" "${values[*]}" "$why"
	datapath=''
}

# note UNIT TRIES COMMAND VALUES WHY appends a figure, or why there is none.
note() {
	local cell
	cell=$(jq -cn --arg profile "$profile" --argjson mtu "$mtu" --arg netem "$netem" --arg by "$by" --arg test "$test" --arg unit "$1" \
		--argjson tries "$2" --arg command "$3" --arg values "$4" --arg why "$5" --arg datapath "$datapath" '$ARGS.named
		| if $datapath == "" then del(.datapath) else . end | .values = ($values | split(" ") | map(tonumber) | sort) | .value = (.values | .[length / 2 | floor])
		| if $why == "" then del(.why) else . end')
	echo "$cell" >>"$figures"
	noted=$((noted + 1))
	printf '%3d of %d, %s of about %s: %s\n' "$noted" "${#plan[@]}" "$(clock "$SECONDS")" "$(clock $((SECONDS * ${#plan[@]} / noted)))" \
		"$(jq -r '"\(.profile) \(.by) \(.test): \(if .value then "\(.value) \(.unit)" else "none" end)\(if .why then " (\(.why))" else "" end)"' <<<"$cell")" >&2
}

clock() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

listening() { echo "ss -ltnH 'sport = :$1' | grep -q ."; }

# unit_of TEST
unit_of() {
	case $1 in
	*lat) echo us ;;
	*_rate) echo Mop/s ;;
	*) echo Gb/s ;;
	esac
}

nd() { # one session for each test, so that a failure costs one figure
	local filter='jq .results[0].gbps'
	case $test in
	*_lat) filter='jq .results[0].lat_us.p50' ;;
	*_rate) filter='jq .results[0].mops' ;;
	esac
	measure "$(unit_of "$test")" "grep -q listening /run/server.log" "/usr/local/bin/ndperf server --addr $addr_b:9000" \
		"/usr/local/bin/ndperf client --addr $addr_b:9000 --duration ${duration}s --tests $test --json -" "$filter"
}

tcp() {
	if [ "$test" = lat ]; then
		measure us "$(listening 11111)" "sockperf server --tcp -i $addr_b -p 11111" \
			"sockperf ping-pong --tcp -i $addr_b -p 11111 -m 64 -t $((duration + 1))" 'sed -n "s/.*percentile 50.000 = *//p"'
	else
		measure Gb/s "$(listening 5201)" "iperf3 -s -1" "iperf3 -c $addr_b -t $((duration + 1)) -J" 'jq .end.sum_received.bits_per_second/1e9'
	fi
}

# perftest DEVICE. Its latency is p50, halved for Write and Send as ndperf does.
perftest() {
	local args="-d ${1}0 -F" column=4 tool=ib_${test/rate/bw}
	[ "$1" = rxe ] || args+=" -R" # iWARP connects through rdma_cm only
	case $test in
	*_lat) args+=" -s 64 -n 1000" column=5 ;;
	*_rate) args+=" -s 64 -D $duration" column=5 ;;
	*) args+=" -s 1048576 -D $duration --report_gbits" ;;
	esac
	measure "$(unit_of "$test")" "$(listening 18515)" "$tool $args" "$tool $args $addr_b" \
		"awk '\$1 ~ /^[0-9]+\$/ && \$2 ~ /^[0-9]+\$/ {print \$$column}'"
}

# set_link makes the link of the profile, and tells which of the rivals it has.
set_link() {
	local kind=$1 g addr
	has=" nd tcp "
	for g in "$a" "$b"; do
		addr=$addr_a
		[ "$g" = "$a" ] || addr=$addr_b
		on "$g" "bash /usr/local/bin/ndxdp-link.sh $kind $addr/24 $mtu $netem" >"$work/link" 2>&1 || return 1
	done
	on "$a" "ping -q -c 3 -i 0.2 -w 10 $addr_b" >/dev/null || return 1
	on "$a" 'rdma link show' >"$work/rdma" 2>/dev/null || true
	has+=$(grep -oE '(rxe|siw)0' "$work/rdma" | tr '0\n' '  ' || true)
}

# setting appends what the figures were made with: the guests' side is asked for, the rest is from here.
setting() {
	# shellcheck disable=SC2016 # expanded in the guest
	on "$a" 'printf "kernel %s\ncpus %s\n" "$(uname -r)" "$(nproc)"
		# Emulated guests are told from those of KVM; VirtualBox has a name of its own.
		printf "virtualization %s\n" "$(systemd-detect-virt)"
		dpkg-query -W -f "\${Package} \${Version}\n" perftest rdma-core iperf3 sockperf' >"$work/setting"
	local ndperf
	ndperf=$(git -C "$here" describe --always --dirty 2>/dev/null || echo unknown)
	jq -Rn --arg plan "$(printf '%s\n' "${plan[@]}")" --arg ndperf "$ndperf" --arg qemu "${LAB_QEMU:-$(qemu-system-x86_64 --version 2>/dev/null | sed -n 's/^QEMU emulator version //p')}" \
		--argjson duration "$duration" --argjson repeats "$repeats" --argjson host_cpus "$(nproc)" --arg load "$(cut -d' ' -f1-3 /proc/loadavg)" --arg date "$(date -u +%FT%TZ)" '
		[inputs | split(" ") | {(.[0]): .[1]}] | add
		| {setting: {date: $date, guest_kernel: .kernel, guest_cpus: (.cpus | tonumber), host_cpus: $host_cpus, host_load: $load,
			accelerator: (if .virtualization == "qemu" then "tcg" else .virtualization end), duration_s: $duration, repeats: $repeats,
			versions: {ndperf: $ndperf, qemu: $qemu, perftest, "rdma-core", iperf3, sockperf}},
			plan: [$plan | split("\n")[] | split("|") | {profile: .[0], mtu: (.[2] | tonumber), by: .[4], test: .[5]}]}' -c <"$work/setting" >"$figures"
}

finish() {
	trap '' INT TERM HUP
	exec >&3 2>&4 # a signal may come where they are redirected
	kill "$job" 2>/dev/null || true
	stop_server
	for g in "$a" "$b"; do ssh -F "$LAB_SSH_CONFIG" -o "ControlPath=\"$work/%n\"" -O exit "$g" 2>/dev/null || true; done
	[ "$noted" = 0 ] || "$here/report.sh" "$figures" "$json"
	rm -rf "$work"
}

noted=0 job='' profile='' datapath=''
planned=$("$here/plan.sh" "$@")
mapfile -t plan <<<"$planned"
for tool in jq column; do
	command -v "$tool" >/dev/null || die "$tool is missing: apt-get install jq bsdextrautils"
done
if [ -z "${LAB_SSH_CONFIG:-}" ]; then
	(cd "$here" && vagrant ssh-config) >"$work/ssh_config"
	LAB_SSH_CONFIG=$work/ssh_config
fi
exec 3>&1 4>&2
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
# Built here and copied: the guests may be slow, and Debian 12 has no Go that is new enough.
if [ -z "${LAB_NDPERF:-}" ]; then
	LAB_NDPERF=$work/ndperf
	(cd "$here/.." && CGO_ENABLED=0 go build -ldflags='-s -w' -o "$LAB_NDPERF" ./cmd/ndperf)
fi
for g in "$a" "$b"; do
	if ! on_limit=$copy_limit on "$g" 'cat >/usr/local/bin/ndperf && chmod 755 /usr/local/bin/ndperf' "$LAB_NDPERF" ||
		! on "$g" 'cat >/usr/local/bin/ndxdp-link.sh' "$here/link.sh"; then
		die "ndperf cannot be copied to $g"
	fi
done
setting || die "$a does not tell what it is"
for line in "${plan[@]}"; do
	was=$profile
	IFS='|' read -r profile kind mtu netem by test <<<"$line"
	if [ "$profile" != "$was" ]; then
		set_link "$kind" || { has= && cat "$work/link" >&2; }
	fi
	case " $has " in
	*" $by "*) case $by in nd | tcp) "$by" ;; *) perftest "$by" ;; esac ;;
	"  ") note "$(unit_of "$test")" 0 "" "" "the link could not be set up" ;;
	*) note "$(unit_of "$test")" 0 "" "" "the guests' kernel has no $by" ;;
	esac
done
