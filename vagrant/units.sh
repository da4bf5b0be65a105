#!/usr/bin/env bash
# Tries the Debian package and its systemd units under a systemd that runs, on the two guests of the lab: vm.sh starts it (make lab-units).
#
#   vm.sh units.sh PACKAGE.deb
#
# On one guest the broker's socket waits for the first client, on the other one the service runs from the start. Users without privileges reach each other
# through both, over AF_XDP. The broker is told of another user while it runs, is killed, is stopped; the package goes. What each step leaves is looked at.
set -euo pipefail
package=${1:?usage: vm.sh units.sh PACKAGE.deb}
a=${LAB_A:?started by vm.sh} b=${LAB_B:?started by vm.sh} addr_b=10.77.0.12
limit=90       # seconds for one step in a guest
copy_limit=180 # seconds for copying the package to a guest

die() {
	printf 'units.sh: %s\n' "$*" >&2
	exit 1
}

# on GUEST SCRIPT: as root. The script ends with its first command that fails; not is ! for one that must, which a shell goes on after.
on() {
	timeout "$limit" ssh -nF "$LAB_SSH_CONFIG" "$1" "set -e; not() { ! eval \"\$*\"; }; $2"
}

# expect WHAT GUEST SCRIPT
expect() {
	printf '%s: %s\n' "$2" "$1" >&2
	on "$2" "$3" || die "$2: not so: $1 ($(on "$2" "journalctl -qu 'ndbroker@*' -n 5 --no-pager" || true))"
}

# within SECONDS TEST is a shell loop that waits until the test succeeds.
within() {
	# shellcheck disable=SC2016
	printf 'for i in $(seq %d); do if %s; then break; fi; [ "$i" -lt %d ]; sleep 0.1; done;' "$(($1 * 10))" "$2" "$(($1 * 10))"
}

# ask USER is a client without privileges on the first guest; listen is what answers it on the second one, until it is stopped.
ask() { echo "runuser -u $1 -- ndping $addr_b:7000 -c 3 -i 0.2 -W 5 --broker /run/ndbroker/eth1"; }
listen="systemd-run -q --unit=answers --uid=app ndping -l $addr_b:7000 --broker /run/ndbroker/eth1; $(within 20 'journalctl -qu answers --no-pager | grep -q answering') "
answered="grep -q '3 sent, 3 answered' /run/ping.log && grep -qE 'datapath (native|generic)' /run/ping.log"
attached='ip -d link show eth1 | grep -q prog/xdp'
active='systemctl is-active -q ndbroker@eth1.service'

for guest in "$a" "$b"; do
	timeout "$copy_limit" ssh -F "$LAB_SSH_CONFIG" "$guest" 'cat >/root/ndxdp.deb' <"$package"
	expect "the package installs" "$guest" 'dpkg -i /root/ndxdp.deb >/dev/null 2>&1'
	# shellcheck disable=SC2016
	on "$guest" 'useradd -m app; useradd -m other; mkdir -p /etc/ndxdp; touch /etc/ndxdp/eth1.rules
		{ echo "NDBROKER_ALLOW=$(id -u app)"; echo "NDBROKER_OPTIONS=--allow-from /etc/ndxdp/eth1.rules"; } >/etc/ndxdp/eth1.conf
		ip link set eth1 mtu 1500'
done

expect "the service starts" "$a" "systemctl enable -q --now ndbroker@eth1; $(within 20 '[ -S /run/ndbroker/eth1 ]') $active"
expect "the socket listens, and no broker runs" "$b" "systemctl enable -q --now ndbroker@eth1.socket; [ -S /run/ndbroker/eth1 ]; not '$active'; not '$attached'"
expect "the first client starts the broker" "$b" "$listen $active; $attached"
expect "a user without privileges is answered, over AF_XDP" "$a" "$(ask app) >/run/ping.log 2>&1; $answered"
expect "another one is refused" "$a" "not '$(ask other) >/run/ping.log 2>&1'; grep -q 'refused\|may not\|not allowed' /run/ping.log"
# shellcheck disable=SC2016
expect "and answered once a reload has read the rule for him" "$a" "echo \"uid \$(id -u other)\" >/etc/ndxdp/eth1.rules; systemctl reload ndbroker@eth1; $(ask other) >/run/ping.log 2>&1; $answered"
# shellcheck disable=SC2016
expect "a broker that is killed starts again" "$a" "old=\$(systemctl show -P MainPID ndbroker@eth1); kill -KILL \$old; $(within 20 "$active && [ \"\$(systemctl show -P MainPID ndbroker@eth1)\" != \$old ] && [ -S /run/ndbroker/eth1 ]") $(ask app) >/run/ping.log 2>&1; $answered"
expect "a broker that is stopped leaves nothing" "$a" "systemctl stop ndbroker@eth1; not '$attached'; [ ! -e /run/ndbroker/eth1 ]"
expect "a socket that is stopped with its broker leaves nothing" "$b" "systemctl stop answers; systemctl stop ndbroker@eth1.socket ndbroker@eth1.service; not '$attached'; [ ! -e /run/ndbroker/eth1 ]"
expect "both start with the machine, and the package stops both when it is removed" "$b" "systemctl enable -q --now ndbroker@eth1.service; $active; dpkg -r ndxdp >/dev/null 2>&1; not '$active'; not '$attached'; [ ! -e /lib/systemd/system/ndbroker@.service ]"
echo "units.sh: everything is as it should be"
