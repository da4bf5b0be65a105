#!/usr/bin/env bash
# Prints what bench.sh measures, one line for each figure: profile|link|MTU|netem|by|test.
#
#   plan.sh [PROFILE ...]    default: all profiles. LAB_TESTS: these tests of ndperf and perftest instead of each profile's own
set -euo pipefail

# Name, kind of link (link.sh), MTU, netem on both guests.
profiles=(
	"plain-1500|plain|1500|" "plain-9000|plain|9000|"
	"wire-1500|wire|1500|" "wire-9000|wire|9000|"
	"loss-0.1%-1500|wire|1500|loss 0.1%" "loss-0.1%-9000|wire|9000|loss 0.1%"
	"loss-1%-1500|wire|1500|loss 1%" "loss-1%-9000|wire|9000|loss 1%"
	"delay-100us-1500|wire|1500|delay 100us"
	"delay-1ms-1500|wire|1500|delay 1ms" "delay-1ms-9000|wire|9000|delay 1ms"
	"reorder-1500|wire|1500|delay 1ms reorder 25% 50%"
)

wanted() { # PROFILE WANTED...
	[ $# -eq 1 ] || printf '%s\n' "${@:2}" | grep -qxF -- "$1"
}

for name in "$@"; do
	wanted "$name" "${profiles[@]%%|*}" || {
		echo "plan.sh: no profile $name; there are: ${profiles[*]%%|*}" >&2
		exit 2
	}
done
for p in "${profiles[@]}"; do
	wanted "${p%%|*}" "$@" || continue
	case ${p%%|*} in
	plain-*) tests=(write_lat read_lat send_lat write_bw read_bw send_bw write_rate) ;;
	*) tests=(write_lat write_bw) ;;
	esac
	[ -z "${LAB_TESTS:-}" ] || read -r -a tests <<<"$LAB_TESTS"
	for t in "${tests[@]}"; do echo "$p|nd|$t"; done
	for t in lat bw; do echo "$p|tcp|$t"; done
	for by in rxe siw; do
		for t in "${tests[@]}"; do echo "$p|$by|$t"; done
	done
done
