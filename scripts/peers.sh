#!/bin/sh
# Installs the peers that the laboratory measures beside WayFS: sshfs, rclone, MooseFS and what JuiceFS needs from Debian, JuiceFS
# itself as a Go module. Needs root. Their services are not started: the laboratory runs servers of its own.
set -eu

# JuiceFS is not in Debian. It is built as what it is, a module with replacements of its own, without the stores that nobody uses here.
juicefs=github.com/juicedata/juicefs@v1.3.1
left_out=nogateway,nowebdav,nocos,nobos,nohdfs,noibmcos,noobs,nooss,noqingstor,noswift,noazure,nogs,noufile,nob2,nonfs,nodragonfly,nocifs
build_juicefs() {
    source=$(go mod download -json "$juicefs" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
    [ -n "$source" ] || return 1
    copy=$(mktemp -d)
    cp -r "$source/." "$copy" && chmod -R u+w "$copy"
    (cd "$copy" && go build -o /usr/local/bin/juicefs -tags "$left_out,nosqlite,nomysql,nopg,notikv,nobadger,noetcd" .)
    rm -rf "$copy"
}
if ! command -v juicefs >/dev/null 2>&1; then
    if command -v go >/dev/null 2>&1; then
        echo "Building JuiceFS (some minutes)"
        build_juicefs || echo "JuiceFS is left out: it could not be built." >&2
    else
        echo "JuiceFS is left out: it is built with Go (Debian: golang-go), which is not here." >&2
    fi
fi

packages="sshfs rclone openssh-server fuse3 moosefs-master moosefs-chunkserver moosefs-client redis-server"
missing=""
for package in $packages; do
    dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
done
if [ -z "$missing" ]; then
    echo "All packages are installed."
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
