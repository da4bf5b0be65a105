#!/usr/bin/env bash
# Prints the Debian mirror that this system's apt is set up with: the guests' packages come from the mirror that those of the
# host come from.
set -euo pipefail
# shellcheck disable=SC2016 # apt expands it
found=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 'Label: Debian' 'Component: main' | sed -n '/^https\?:/{p;q}')
[ -n "$found" ] || {
	echo "mirror.sh: this system's apt has no Debian mirror (apt-get indextargets): run apt-get update, or set NDXDP_LAB_MIRROR" >&2
	exit 1
}
echo "$found"
