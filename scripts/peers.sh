#!/bin/sh
# Installs the peers that the laboratory measures beside WayFS, as far as Debian has them: sshfs, rclone, MooseFS.
# Needs root. Their services are not started: the laboratory runs servers of its own.
set -eu

packages="sshfs rclone openssh-server fuse3 moosefs-master moosefs-chunkserver moosefs-client"
missing=""
for package in $packages; do
    dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
done
if [ -z "$missing" ]; then
    echo "All peers are installed."
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "These packages are missing:$missing. Install them, or run this as root on Debian." >&2
    exit 1
fi

# Packages ask this script whether they may start their services: no.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
fi
echo "Installing$missing"
apt-get update -q
# shellcheck disable=SC2086  # a list of words
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
