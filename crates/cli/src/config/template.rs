//! What `wayfs init` writes. A key's line begins with `#! ` and shows its default or an example.

/// The commented configuration file.
pub(crate) const TEMPLATE: &str = r#"# Configuration of wayfs. Take the `#! ` away from a line to change its value.
#
# Files are read in this order, later ones win key by key: /etc/wayfs/*.toml by name, then
# $XDG_CONFIG_HOME/wayfs/*.toml (~/.config/wayfs). What is typed on the command line wins over all.
# ${VAR} in a text is replaced by the environment variable VAR, ${VAR:-TEXT} by TEXT if it is not set.

[log]
# How much the daemons say: error, warn, info, debug or trace. The variable WAYFS_LOG overrides it.
#! level = "info"

[server]
# Where a server keeps its volumes. Default: /var/lib/wayfs/server for root, else ~/.local/state/wayfs/server.
#! data = "/var/lib/wayfs/server"

# Address and UDP port to listen at.
#! listen = "[::]:7475"

# Addresses that tickets and other machines are told, if the server does not see them itself (behind a port forward).
#! advertise = ["home.example.org:7475"]

# Which contents a station sends to the home before anyone asks for them:
#   write-through (all, at once), on-demand (none), periodic:60s, ih:2, ihsl:2,1, ttnu:0.5, atd
#! policy = "periodic:60s"

# Announce this server on the local network (multicast DNS), and look for homes there. Only keys that are known already
# are used. A server that listens on loopback only does neither.
#! mdns = true

# Serve Prometheus metrics over HTTP here. Default: not at all.
#! metrics = "127.0.0.1:9420"

# All contents kept here are read once in so many days, slowly, and what the disk damaged is fetched anew from whoever has it.
# It takes a twentieth of one disk and one core at most. 0: never by itself (`wayfs scrub` does it at once).
#! scrub_days = 30

# File whose first line is the passphrase that the server's key is sealed with. A key that lies in the clear is sealed at the next start,
# for good. Default: the credential wayfs-passphrase of the unit, if it has one; else the key lies in the clear.
#! passphrase_file = "/etc/wayfs/passphrase"

[mount]
# State and cache of mounts. It holds what was written and not sent yet: never put it where a cleaner comes by.
# Default: /var/lib/wayfs/mounts for root, else ~/.local/state/wayfs/mounts.
#! cache = "/var/lib/wayfs/mounts"

# Bound on cached contents of one mount. What was not sent yet is never evicted.
#! cache_size = "10GiB"

# What close() promises: "asynchronous" (it is in the local log, safe soon after) or "safe" (it is safe at the station; slower).
#! close = "asynchronous"

# Mount read-only.
#! read_only = false

# Let other users of this machine in. A mount made by root does so unless this says false.
#! allow_other = false

# Look for stations of the volume on the local network (multicast DNS). Only keys that are known already are used.
#! mdns = true

# Raise inotify events for what other machines change, for programs that watch files (editors, build tools).
#! watch = true

# Serve Prometheus metrics of the mount over HTTP here. Default: not at all.
#! metrics = "127.0.0.1:9421"

# Longest wait in seconds of an operation on names and attributes; of a read while no bytes come from afar; of fsync for the
# station. What cannot be answered in that time ends with an error: a mount never hangs for good. (A read to which bytes come goes on,
# 120 times as long at most.)
#! metadata_timeout_s = 10
#! read_timeout_s = 30
#! safe_timeout_s = 10

# Writes to a file that stays open are committed when nobody wrote to it for a second, and at the latest when they are this old, in seconds.
#! dirty_age_s = 5

# The cache is read once in so many days, as a server's contents are (see above). 0: never by itself.
#! scrub_days = 30

# The passphrase of this machine's keys (see above).
#! passphrase_file = "/etc/wayfs/passphrase"

[network]
# How connections find their sending rate: steady (keeps it over losses of the air, shares a full queue), or for
# comparisons bbr, cubic, newreno.
#! controller = "steady"

# When the end of an outage is looked for: by-silence (often, as soon as the path is silent), or for comparisons fixed.
#! probing = "by-silence"
"#;
