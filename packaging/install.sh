#!/bin/sh
# Installs the program, manual pages, completions, the mount helper and service units.
#   PREFIX   where to (/usr/local)
#   DESTDIR  put before every path (for packagers)
#   PROGRAM  the program to install (target/release/wayfs)
#   NOTICES  licences of what is linked in (target/notices.txt; `cargo xtask notices FILE` writes it)
set -eu
cd "$(dirname "$0")/.."
prefix=${PREFIX:-/usr/local}
dest=${DESTDIR:-}
program=${PROGRAM:-target/release/wayfs}
notices=${NOTICES:-target/notices.txt}
[ -s "$notices" ] || { echo "$notices is missing: cargo run --package xtask -- notices $notices" >&2; exit 1; }

install -D -m 755 "$program" "$dest$prefix/bin/wayfs"
# Line tables are five sixths of the program. They go beside it, where debuggers and backtraces look for them.
if command -v objcopy >/dev/null 2>&1; then
    symbols="$dest$prefix/lib/debug$prefix/bin/wayfs.debug"
    mkdir -p "$(dirname "$symbols")"
    objcopy --only-keep-debug --compress-debug-sections "$program" "$symbols"
    objcopy --strip-debug --add-gnu-debuglink="$symbols" "$dest$prefix/bin/wayfs"
    chmod 644 "$symbols"
fi
install -D -m 644 LICENSE "$dest$prefix/share/doc/wayfs/LICENSE"
install -D -m 644 "$notices" "$dest$prefix/share/doc/wayfs/third-party-notices.txt"
mkdir -p "$dest$prefix/share/man/man1"
"$program" man --dir "$dest$prefix/share/man/man1"
mkdir -p "$dest$prefix/share/bash-completion/completions" "$dest$prefix/share/zsh/site-functions" "$dest$prefix/share/fish/vendor_completions.d"
"$program" completions bash >"$dest$prefix/share/bash-completion/completions/wayfs"
"$program" completions zsh >"$dest$prefix/share/zsh/site-functions/_wayfs"
"$program" completions fish >"$dest$prefix/share/fish/vendor_completions.d/wayfs.fish"
# mount(8) looks for its helpers here and nowhere else.
install -D -m 755 packaging/mount.wayfs "$dest/sbin/mount.wayfs"
mkdir -p "$dest/lib/systemd/system"
for unit in wayfs-server.service wayfs-mount@.service; do
    sed "s|/usr/bin/wayfs|$prefix/bin/wayfs|" "packaging/systemd/$unit" >"$dest/lib/systemd/system/$unit"
    chmod 644 "$dest/lib/systemd/system/$unit"
done
install -D -m 644 packaging/systemd/wayfs.sysusers "$dest/usr/lib/sysusers.d/wayfs.conf"
echo "Installed below $dest$prefix. For the server: systemd-sysusers, systemctl daemon-reload, systemctl enable --now wayfs-server."
