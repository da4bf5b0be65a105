#!/usr/bin/env bash
# Makes the table and the report of what bench.sh measured: report.sh FIGURES.jsonl REPORT.json
#
# One row for each profile and test; TCP's one figure of a kind stands beside every test of that kind. Ratios are nd / other.
set -euo pipefail
jq -s '
	def of($c; $by; $test): first(.[] | select(.profile == $c.profile and .by == $by and .test == $test) | .value) // null;
	def over($x; $y): if $x == null or $y == null or $y == 0 then null else $x / $y end;
	.[0] as $head | .[1:] as $cells
	| {schema: "ndxdp-lab/2"} + $head.setting + {
		planned: ($head.plan | length), measured: ($cells | map(select(.value != null)) | length),
		missing: ($head.plan - ($cells | map({profile, mtu, by, test}))), cells: $cells,
		rows: [$head.plan[] | select(.by == "nd") | . as $c
			| (if .test | endswith("_lat") then "lat" elif .test | endswith("_bw") then "bw" else "" end) as $kind
			| {profile, mtu, test, unit: (if $kind == "lat" then "us" elif $kind == "bw" then "Gb/s" else "Mop/s" end)}
			+ ($cells | {nd: of($c; "nd"; $c.test), tcp: of($c; "tcp"; $kind), rxe: of($c; "rxe"; $c.test), siw: of($c; "siw"; $c.test)})
			| . + {nd_tcp: over(.nd; .tcp), nd_rxe: over(.nd; .rxe), nd_siw: over(.nd; .siw)}]}' "$1" >"$2"
jq -r 'def n: if . == null then "-" elif . >= 100 then round else (. * 1000 | round) / 1000 end | tostring;
	(["link", "test", "unit", "nd", "tcp", "rxe", "siw", "nd/tcp", "nd/rxe", "nd/siw"] | @tsv),
	(.rows[] | [.profile, .test, .unit, (.nd, .tcp, .rxe, .siw, .nd_tcp, .nd_rxe, .nd_siw | n)] | @tsv)' "$2" | column -t -s "$(printf '\t')"
jq -r '
	(.cells[] | select(.value == null) | "no figure: \(.profile) \(.by) \(.test), \(.tries) tries: \(.why)"),
	(.missing | group_by([.profile, .by])[] | "not measured: \(.[0].profile) \(.[0].by): \(map(.test) | join(" "))"),
	"us: lower is better, so is its ratio. \(.measured) of \(.planned) figures, accelerator \(.accelerator), \(.guest_cpus) CPUs in each guest on \(.host_cpus), load before \(.host_load)."' "$2"
echo "JSON: $2"
