#!/bin/sh
# Install what the libvirt tests need on Debian: libvirt's QEMU driver (no daemon is started), QEMU, and the Python
# binding, built for the Python given. Quick where it is all there.
#
#     tests/integration/libvirt/install.sh .venv/bin/python
set -eu
python=${1:?usage: $0 PYTHON}
as_root=$([ "$(id -u)" = 0 ] || echo sudo)

has_binding() { "$python" -c 'import libvirt' 2>/dev/null; }
packages='libvirt-daemon-driver-qemu qemu-system-x86'
has_binding || packages="$packages libvirt-dev pkg-config gcc libc6-dev"

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

# As root, libvirt 9.0 wants this user to be there whatever its configuration says. The package that would make it is
# the daemon's, which is not needed.
getent passwd libvirt-qemu >/dev/null || $as_root useradd --system --user-group --no-create-home \
	--home-dir /nonexistent --shell /usr/sbin/nologin libvirt-qemu

if ! has_binding; then
	echo '==> pip install libvirt-python'
	"$python" -m pip install --quiet --disable-pip-version-check 'libvirt-python>=9,<13'
fi
