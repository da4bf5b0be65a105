#!/usr/bin/env bash
# Measures between the two guests and prints one table: ndperf, kernel TCP, SoftRoCE (rxe) and soft-iWARP (siw), on the plain
# link and on an impaired one. Runs on the host. Without LAB_SSH_CONFIG it asks Vagrant how to reach the guests.
#
#   bench.sh [PROFILE ...]    default: all of them, about ten minutes without KVM; LAB_JSON names the report (lab.json),
# LAB_TESTS the tests of ndperf and perftest
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
a=${LAB_A:-a} b=${LAB_B:-b} addr_a=10.77.0.11 addr_b=10.77.0.12
json=${LAB_JSON:-lab.json}
duration=${LAB_DURATION:-1} # seconds of each measurement
limit=30                    # seconds for one measurement, start and end included
tries=2                     # a run that gives no figure is repeated once
work=$(mktemp -d)
cells=$work/cells

# Name, kind of link, MTU, netem.
profiles=(
	"plain-1500|plain|1500|" "plain-9000|plain|9000|"
	"wire|wire|1500|" "loss-0.1%|wire|1500|loss 0.1%" "loss-1%|wire|1500|loss 1%"
	"delay-100us|wire|1500|delay 100us" "delay-1ms|wire|1500|delay 1ms"
	"reorder|wire|1500|delay 1ms reorder 25% 50%"
)

on() { # GUEST COMMAND: as root
	timeout "$limit" ssh -F "$LAB_SSH_CONFIG" -o ControlMaster=auto -o "ControlPath=$work/%n" -o ControlPersist=60 "$1" sudo=\$\(command -v sudo \|\| true\)\; "\$sudo bash -c $(printf %q "$2")"
}

finish() {
	stop_server || true
	for g in "$a" "$b"; do ssh -F "$LAB_SSH_CONFIG" -o "ControlPath=$work/%n" -O exit "$g" 2>/dev/null || true; done
	rm -rf "$work"
}

server=
stop_server() {
	[ -z "$server" ] || on "$b" "kill $server 2>/dev/null; for i in \$(seq 30); do kill -0 $server 2>/dev/null || exit 0; sleep 0.1; done; kill -KILL $server" || true
	server=
}

# serve READY COMMAND starts a command on b and waits until the other command, READY, succeeds there.
serve() {
	server=$(on "$b" "timeout $((limit * 4)) $2 </dev/null >/run/server.log 2>&1 & echo \$!")
	on "$b" "for i in \$(seq 100); do $1 && exit 0; kill -0 $server || exit 1; sleep 0.1; done; exit 1" >/dev/null 2>&1
}

# cell BY TEST UNIT COMMAND [VALUE] notes a figure, or that there was none.
cell() {
	jq -cn --arg profile "$profile" --argjson mtu "$mtu" --arg by "$1" --arg test "$2" --arg unit "$3" --arg command "$4" \
		--argjson tries "$attempt" --argjson value "${5:-null}" '$ARGS.named' >>"$cells"
	echo "$profile $1 $2: ${5:-no figure} $3 (try $attempt)" >&2
}

# measure BY TEST UNIT READY SERVER CLIENT FILTER: the filter, here, turns the output of CLIENT into a number.
measure() {
	local out value=''
	for attempt in $(seq "$tries"); do
		if serve "$4" "$5" && out=$(on "$a" "timeout $((limit - 5)) $6" 2>/dev/null); then
			value=$(bash -c "$7" <<<"$out" | grep -E '^[0-9.]+$' | head -n 1 || true)
		fi
		stop_server
		[ -z "$value" ] || break
	done
	cell "$1" "$2" "$3" "$6" "$value"
}

listening() { echo "ss -ltnH 'sport = :$1' | grep -q ."; }

nd() { # TESTS...: one session for each, so that a failure costs one figure
	local t unit filter
	for t in "$@"; do
		case $t in
		*_lat) unit=us filter='jq .results[0].lat_us.p50' ;;
		*_rate) unit=Mop/s filter='jq .results[0].mops' ;;
		*) unit=Gb/s filter='jq .results[0].gbps' ;;
		esac
		measure nd "$t" $unit "grep -q listening /run/server.log" "/usr/local/bin/ndperf server --addr $addr_b:9000" \
			"/usr/local/bin/ndperf client --addr $addr_b:9000 --duration ${duration}s --tests $t --json -" "$filter"
	done
}

tcp() {
	local lat="sockperf ping-pong --tcp -i $addr_b -p 11111 -m 64 -t $((duration + 1))"
	local p50='sed -n "s/.*percentile 50.000 = *//p"'
	measure tcp lat us "$(listening 11111)" "sockperf server --tcp -i $addr_b -p 11111" "$lat" "$p50"
	measure tcp bw Gb/s "$(listening 5201)" "iperf3 -s -1" "iperf3 -c $addr_b -t $((duration + 1)) -J" 'jq .end.sum_received.bits_per_second/1e9'
}

# rdma DEVICE TESTS... by perftest. Its latency is p50, halved for Write and Send as ndperf does.
rdma() {
	local device=$1 t
	shift
	for t in "$@"; do
		local args="-d ${device}0 -F" unit=Gb/s column=4
		[ "$device" = rxe ] || args+=" -R" # iWARP connects through rdma_cm only
		case $t in
		*_lat) args+=" -s 64 -n 1000" unit=us column=5 ;;
		*_rate) args+=" -s 64 -D $duration" unit=Mop/s column=5 ;;
		*) args+=" -s 1048576 -D $duration --report_gbits" ;;
		esac
		local tool=ib_${t/rate/bw}
		measure "$device" "$t" $unit "$(listening 18515)" "$tool $args" "$tool $args $addr_b" \
			"awk '\$1 ~ /^[0-9]+\$/ && \$2 ~ /^[0-9]+\$/ {print \$$column}'"
	done
}

run_profile() {
	local name kind netem tests=(write_lat write_bw)
	IFS='|' read -r name kind mtu netem <<<"$1"
	profile=$name
	for g in "$a" "$b"; do
		local addr=$addr_a
		[ "$g" = "$a" ] || addr=$addr_b
		on "$g" "bash /usr/local/bin/ndxdp-link.sh $kind $addr/24 $mtu $netem" >&2
	done
	on "$a" "ping -q -c 3 -i 0.2 -w 10 $addr_b" >/dev/null
	[ "$kind" = wire ] || tests=(write_lat read_lat send_lat write_bw read_bw send_bw write_rate)
	[ -z "${LAB_TESTS:-}" ] || read -r -a tests <<<"$LAB_TESTS"
	nd "${tests[@]}"
	tcp
	for device in rxe siw; do
		# Not every kernel has both.
		if on "$a" "rdma link show ${device}0/1" >/dev/null 2>&1; then rdma "$device" "${tests[@]}"; fi
	done
}

# One line for each profile and test; TCP's one figure of a kind stands beside every test of that kind. Ratios are nd / other.
report() {
	jq -s --arg kernel "$(on "$a" 'uname -r')" --arg accel "${LAB_ACCEL:-unknown}" '
		def of($c; $by; $test): first(.[] | select(.profile == $c.profile and .by == $by and .test == $test) | .value) // null;
		def over($x; $y): if $x == null or $y == null or $y == 0 then null else $x / $y end;
		. as $all | {schema: "ndxdp-lab/1", kernel: $kernel, accelerator: $accel, cells: $all, rows: [.[] | select(.by == "nd") | . as $c
			| (if .unit == "us" then "lat" elif .unit == "Gb/s" then "bw" else "" end) as $kind
			| {profile, mtu, test, unit, nd: .value, tcp: ($all | of($c; "tcp"; $kind)), rxe: ($all | of($c; "rxe"; $c.test)), siw: ($all | of($c; "siw"; $c.test))}
			| . + {nd_tcp: over(.nd; .tcp), nd_rxe: over(.nd; .rxe), nd_siw: over(.nd; .siw)}]}' "$cells" >"$json"
	jq -r 'def n: if . == null then "-" elif . >= 100 then round else (. * 1000 | round) / 1000 end | tostring;
		(["link", "test", "unit", "nd", "tcp", "rxe", "siw", "nd/tcp", "nd/rxe", "nd/siw"] | @tsv),
		(.rows[] | [.profile, .test, .unit, (.nd, .tcp, .rxe, .siw, .nd_tcp, .nd_rxe, .nd_siw | n)] | @tsv)' "$json" | column -t -s "$(printf '\t')"
	echo "us: lower is better, so is its ratio; all figures are of one pair of guests (accelerator ${LAB_ACCEL:-unknown}); - is no figure in $tries tries. JSON: $json"
}

trap finish EXIT
for tool in jq column; do
	command -v "$tool" >/dev/null || {
		echo "bench.sh: $tool is missing: apt-get install jq bsdextrautils" >&2
		exit 1
	}
done
if [ -z "${LAB_SSH_CONFIG:-}" ]; then
	(cd "$here" && vagrant ssh-config) >"$work/ssh_config"
	LAB_SSH_CONFIG=$work/ssh_config
fi
# Built here and copied: the guests may be slow, and Debian 12 has no Go that is new enough.
if [ -z "${LAB_NDPERF:-}" ]; then
	LAB_NDPERF=$work/ndperf
	(cd "$here/.." && CGO_ENABLED=0 go build -o "$LAB_NDPERF" ./cmd/ndperf)
fi
for g in "$a" "$b"; do
	on "$g" 'cat >/usr/local/bin/ndperf && chmod 755 /usr/local/bin/ndperf' <"$LAB_NDPERF"
	on "$g" 'cat >/usr/local/bin/ndxdp-link.sh' <"$here/link.sh"
done
for p in "${profiles[@]}"; do
	if [ $# -gt 0 ] && ! grep -qxF -- "${p%%|*}" < <(printf '%s\n' "$@"); then continue; fi
	run_profile "$p" || echo "bench.sh: ${p%%|*} could not be set up" >&2
done
report
