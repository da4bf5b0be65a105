#!/usr/bin/env bash
# fabtests.sh SOURCE [SET [PROVIDER]]: builds libfabric's own tests, fabtests, in a temporary directory, and runs a set of them (quick, all, or
# another set of runfabtests.sh) over the provider in bin/ or over another one for comparison, between two network namespaces of a veth pair.
# SOURCE is the directory fabtests in the source of the installed libfabric. Needs root, autoconf, automake, libtool, gcc and python3.
#
# runfabtests.sh uses ssh to start both sides, and in the end kills all processes whose names begin with fi_. So it runs in a process namespace,
# where it sees only its own processes, with an ssh that enters the network namespaces. All namespaces end with it.
set -euo pipefail

# agent is a program that is called like ssh.
# shellcheck disable=SC2016 # the agent expands
agent='#!/bin/sh
while [ "${1#10.99.0.}" = "$1" ]; do shift; done
side=${1#10.99.0.}
shift
exec ip netns exec "side$side" sh -c "$*"'

# inside SET PROVIDER: the part in the namespaces.
inside() {
	mount -t tmpfs tmpfs /run/netns # hides the names of others, and forgets ours
	for side in 1 2; do
		ip netns add side$side
		ip -n side$side link set lo up
	done
	ip link add fab0 netns side1 type veth peer name fab0 netns side2
	for side in 1 2; do
		ip -n side$side addr add 10.99.0.$side/24 dev fab0
		ip -n side$side link set fab0 up
	done
	cd "$work" # runfabtests.sh looks for test_configs here
	limit=120 # seconds for a test, as runfabtests.sh has it; fi_ubertest is one test of 142 combinations, 10 s each
	case $1 in all | complex) limit=3600 ;; esac
	PATH=$work/bin:$PATH bin/runfabtests.sh -v -T $limit -f "$here/ndxdp.exclude" -t "$1" -p "$work/bin" "$2" 10.99.0.1 10.99.0.2
}

here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:?fabtests.sh: which directory has the source of fabtests?}" = --inside ]; then
	inside "$2" "$3"
	exit
fi
[ "$(id -u)" = 0 ] || { echo "fabtests.sh: needs root: network namespaces and AF_XDP sockets" >&2; exit 1; }
source=$1 set=${2:-quick} provider=${3:-ndxdp}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$source" "$work/source"
if ! (cd "$work/source" && ./autogen.sh && ./configure --prefix="$work" && make -j2 install) >"$work/log" 2>&1; then
	tail "$work/log"
	echo "fabtests.sh: $source cannot be built: apt-get install autoconf automake libtool gcc libfabric-dev" >&2
	exit 1
fi
printf '%s\n' "$agent" >"$work/bin/ssh"
chmod +x "$work/bin/ssh"
# The combinations of fi_ubertest (set complex) are those of verbs, which needs the same modes of registration.
cp -r "$work/source/test_configs" "$work/"
mkdir "$work/test_configs/ndxdp"
for name in verbs/all ofi_rxm/verbs; do
	sed 's/: verbs/: ndxdp/' "$work/test_configs/$name.test" >"$work/test_configs/${name/verbs/ndxdp}.test"
done
export FI_PROVIDER_PATH=${here%/fabric/test}/bin work
mkdir -p /run/netns
unshare --net --mount --pid --fork --kill-child --mount-proc "$here/fabtests.sh" --inside "$set" "$provider"
