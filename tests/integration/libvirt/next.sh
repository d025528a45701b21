#!/bin/sh
# Run the libvirt tests with the newer libvirt and QEMU of Debian's backports. The machine keeps its own: they are
# installed into an overlay of its root, in memory, which is gone with this process.
#
#     tests/integration/libvirt/next.sh .venv/bin/pytest [ARGUMENT...]
set -eu
: "${1:?usage: $0 PYTEST [ARGUMENT...]}"
[ "$(id -u)" = 0 ] || { echo "$0 needs root, to mount an overlay" >&2; exit 2; }
if [ -z "${DRAVIRT_OVERLAY:-}" ]; then
	DRAVIRT_OVERLAY=$(mktemp -d)
	export DRAVIRT_OVERLAY
	trap 'rmdir "$DRAVIRT_OVERLAY"' EXIT
	unshare --mount "$0" "$@"
	exit
fi

top=$DRAVIRT_OVERLAY
mount -t tmpfs tmpfs "$top"
mkdir "$top/upper" "$top/work" "$top/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" "$top/root"
for folder in /proc /sys /dev "$PWD" ${DRAVIRT_CORPUS:+"$DRAVIRT_CORPUS"}; do
	mount --rbind "$folder" "$top/root$folder"
done

# shellcheck disable=SC1091
suite=$(. /etc/os-release && echo "$VERSION_CODENAME-backports")
echo "==> apt-get install --target-release $suite libvirt-daemon-driver-qemu qemu-system-x86, in an overlay"
echo "deb http://deb.debian.org/debian $suite main" >"$top/root/etc/apt/sources.list.d/backports.list"
printf '#!/bin/sh\nexit 101\n' >"$top/root/usr/sbin/policy-rc.d" # start no service
chmod +x "$top/root/usr/sbin/policy-rc.d"
chroot "$top/root" apt-get update -qq
DEBIAN_FRONTEND=noninteractive chroot "$top/root" apt-get install -qq --yes --no-install-recommends \
	--target-release "$suite" libvirt-daemon-driver-qemu qemu-system-x86 >"$top/log" 2>&1 || { cat "$top/log"; exit 1; }

exec chroot "$top/root" env --chdir="$PWD" "$@"
