#!/bin/sh
# Install the Debian packages that a cluster with a node needs (host.py says what each brings). Quick where they are
# all there. Go is not among them: Debian's is older than Kubernetes wants.
#
#     tests/cluster/install.sh
set -eu
as_root=$([ "$(id -u)" = 0 ] || echo sudo)

packages='buildah busybox-static conntrack containernetworking-plugins debootstrap iproute2 iptables nftables runc'

missing=
for package in $packages; do
	state=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
	[ "$state" = installed ] || missing="$missing $package"
done
if [ -n "$missing" ]; then
	echo "==> apt-get install$missing"
	$as_root apt-get update -qq
	# shellcheck disable=SC2086 # a list of words
	$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends $missing >/dev/null
fi
