//! What a tool can ask of a daemon.

use crate::arguments::{
    ConflictRef, CopyForm, EventsWanted, Keep, LinkNotice, Owner, Privileges, Selection, TicketLimits, TicketRole,
    TicketText,
};
use crate::path_text;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use wayfs_types::request::Level;

/// A command. Paths are relative to the volume's root. `volume` is a name or an id; a daemon that
/// serves one volume only does not need it, one that serves several refuses without it
/// ([`crate::ErrorKind::Usage`]) where the answer cannot be a list over all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// How it goes. Result: [`crate::Done::Status`].
    Status,
    /// All about one file. Result: [`crate::Done::Info`].
    Info {
        /// Which volume.
        #[serde(default)]
        volume: Option<String>,
        /// Which file.
        #[serde(with = "path_text")]
        path: PathBuf,
    },
    /// What is not yet safe, visible or stable, oldest first. Result: [`crate::Done::Queue`].
    Queue {
        /// Which volume; `None`: all.
        #[serde(default)]
        volume: Option<String>,
        /// Most items in the answer (the totals count all). At most 10,000.
        limit: usize,
    },
    /// Waits until what was written so far has come so far, with progress. Result: [`crate::Done::Sync`].
    Sync {
        /// Which volume; `None`: all.
        #[serde(default)]
        volume: Option<String>,
        /// Only what lies at or below this path; `None`: everything.
        #[serde(with = "path_text::optional", default)]
        path: Option<PathBuf>,
        /// How far.
        until: Level,
        /// Longest wait in milliseconds; `None`: until it is true or the tool hangs up.
        #[serde(default)]
        timeout_ms: Option<u64>,
    },
    /// Asks the home for all that it has by now: what was visible before is seen afterwards. Result:
    /// [`crate::Done::Refreshed`]; [`crate::ErrorKind::Unreachable`] if the home cannot be asked.
    Refresh {
        /// A path that is looked up afterwards; `None`: none.
        #[serde(with = "path_text::optional", default)]
        path: Option<PathBuf>,
        /// Longest wait in milliseconds.
        timeout_ms: u64,
    },
    /// Reads all contents that are kept here now, and gets what is damaged from others, with progress. Result:
    /// [`crate::Done::Scrubbed`].
    Scrub {
        /// Which volume; `None`: all.
        #[serde(default)]
        volume: Option<String>,
    },
    /// Open conflicts. Result: [`crate::Done::Conflicts`].
    ConflictsList {
        /// Which volume; `None`: all.
        #[serde(default)]
        volume: Option<String>,
    },
    /// One conflict. Result: [`crate::Done::Conflict`].
    ConflictsShow {
        /// Which volume.
        #[serde(default)]
        volume: Option<String>,
        /// Which conflict.
        which: ConflictRef,
    },
    /// What differs between the two sides. Result: [`crate::Done::Diff`].
    ConflictsDiff {
        /// Which volume.
        #[serde(default)]
        volume: Option<String>,
        /// Which conflict.
        which: ConflictRef,
    },
    /// Settles conflicts. Result: [`crate::Done::Resolved`].
    ConflictsResolve {
        /// Which volume.
        #[serde(default)]
        volume: Option<String>,
        /// Which conflicts.
        which: Selection,
        /// What stays.
        keep: Keep,
        /// Only says what would be done.
        #[serde(default)]
        dry_run: bool,
    },
    /// Works from the cache and does not look for a station. Result: [`crate::Done::Nothing`].
    Offline,
    /// Looks for a station at once; fails if none answers. Result: [`crate::Done::Nothing`].
    Online,
    /// Connects when it can (the normal state). Result: [`crate::Done::Nothing`].
    Auto,
    /// Fetches a file or tree and keeps it cached, with progress. Result: [`crate::Done::Pins`].
    Pin {
        /// What.
        #[serde(with = "path_text")]
        path: PathBuf,
    },
    /// Lets it go again. Result: [`crate::Done::Pins`].
    Unpin {
        /// What.
        #[serde(with = "path_text")]
        path: PathBuf,
    },
    /// What is pinned. Result: [`crate::Done::Pins`].
    Pins,
    /// Known stations. Result: [`crate::Done::Stations`].
    StationList {
        /// Those that announce themselves on the local network instead; takes some seconds.
        #[serde(default)]
        nearby: bool,
    },
    /// Uses this station, or again the best one. Result: [`crate::Done::Nothing`].
    StationUse {
        /// Its label, node id (or the first eight letters) or address; `None`: choose by yourself.
        station: Option<String>,
    },
    /// Why this station. Result: [`crate::Done::Why`].
    StationWhy,
    /// Sets by hand where a server is reached. Result: [`crate::Done::Stations`], with what is known of it then.
    StationAddress {
        /// Its label, node id (or the first eight letters), an address that it has, or `home`.
        server: String,
        /// The addresses, `HOST:PORT`; none: what was set by hand is taken back.
        addresses: Vec<String>,
    },
    /// Makes this server a station of the ticket's volume. Result: [`crate::Done::Volume`].
    StationJoin {
        /// The ticket's text.
        ticket: TicketText,
    },
    /// Streams events until the tool hangs up. Result: [`crate::Done::Nothing`].
    Events(EventsWanted),
    /// What a daemon can say about its own health. Result: [`crate::Done::Doctor`].
    DoctorFacts,
    /// Makes a volume with this server as home. Result: [`crate::Done::Volume`].
    VolumeCreate {
        /// Its name, unique on the server.
        name: String,
        /// Whom the root belongs to; `None`: the user whom the server runs as.
        #[serde(default)]
        owner: Option<Owner>,
        /// Whether the group of the root may make files in it, which are the group's.
        #[serde(default)]
        group_writable: bool,
    },
    /// Volumes served. Result: [`crate::Done::Volumes`].
    VolumeList,
    /// Sets how much a member, or the whole volume, may take up. Result: [`crate::Done::Members`].
    VolumeQuota {
        /// Which volume.
        volume: String,
        /// `USER@HOST`, origin number or node id; `None`: all together.
        #[serde(default)]
        member: Option<String>,
        /// Bytes; 0: as many as there is room for. `None`: as it is.
        #[serde(default)]
        bytes: Option<u64>,
        /// Files; 0: no bound. `None`: as it is.
        #[serde(default)]
        files: Option<u64>,
    },
    /// Issues a ticket that admits one machine. Result: [`crate::Done::Ticket`].
    VolumeTicket {
        /// Which volume.
        volume: String,
        /// What it admits.
        role: TicketRole,
        /// Seconds until it expires. `None`: 24 hours.
        #[serde(default)]
        expires_s: Option<u64>,
        /// What the member may do less than others.
        #[serde(default)]
        limits: TicketLimits,
    },
    /// Copies a directory of the server's machine into a volume, with progress. Result: [`crate::Done::Copied`].
    VolumeImport {
        /// Which volume.
        volume: String,
        /// From where (absolute): a directory. Unused for an archive, which comes through a [`crate::stream::Stream`].
        #[serde(with = "path_text")]
        from: PathBuf,
        /// In which form.
        #[serde(default)]
        form: CopyForm,
        /// Directory in the volume that receives it; empty: the root.
        #[serde(with = "path_text", default)]
        into: PathBuf,
    },
    /// Copies a volume into a directory of the server's machine that is empty or not there, with progress.
    /// Result: [`crate::Done::Copied`].
    VolumeExport {
        /// Which volume.
        volume: String,
        /// To where (absolute): a directory. Unused for an archive, which goes through a [`crate::stream::Stream`].
        #[serde(with = "path_text")]
        to: PathBuf,
        /// In which form.
        #[serde(default)]
        form: CopyForm,
        /// Whether what gives rights to whoever runs or reads a file is copied with it.
        #[serde(default)]
        privileges: Privileges,
    },
    /// Copies all that the home has of a volume, for `wayfs volume restore`, with progress. Result:
    /// [`crate::Done::BackedUp`].
    VolumeBackup {
        /// Which volume.
        volume: String,
        /// To where (absolute): a directory that is not there, empty or of an earlier backup, or the pipe through which
        /// an archive goes.
        #[serde(with = "path_text")]
        to: PathBuf,
        /// In which form.
        #[serde(default)]
        form: CopyForm,
    },
    /// Deletes a volume at its home. Result: [`crate::Done::Deleted`]; [`crate::ErrorKind::Refused`] if members are
    /// connected and `force` is not set.
    VolumeDelete {
        /// Which volume.
        volume: String,
        /// Although members are connected.
        #[serde(default)]
        force: bool,
        /// Only says what would be deleted.
        #[serde(default)]
        dry_run: bool,
    },
    /// Makes a station of this server the home of its volume, for good. Result: [`crate::Done::Promoted`];
    /// [`crate::ErrorKind::Refused`] while the home answers, or if the station lacks metadata, and `force` is not set.
    VolumePromote {
        /// Which volume.
        volume: String,
        /// Although the home answers, or metadata is missing.
        #[serde(default)]
        force: bool,
        /// Only says what would be missing.
        #[serde(default)]
        dry_run: bool,
    },
    /// Refuses a member from this moment on. Result: [`crate::Done::Members`].
    VolumeRevoke {
        /// Which volume.
        volume: String,
        /// Its label, origin number or node id (or the first eight letters).
        member: String,
        /// Records of it that the home has not do nothing, also those that a station took before.
        #[serde(default)]
        fence: bool,
    },
    /// Declares contents lost that only machines have which are away, once all who are there were asked for them. Result: [`crate::Done::GivenUp`].
    VolumeAcceptLoss {
        /// Which volume.
        volume: String,
        /// Only what waits for this member: its label, origin number or node id (or the first eight letters).
        #[serde(default)]
        member: Option<String>,
        /// Only says what would be given up.
        #[serde(default)]
        dry_run: bool,
    },
    /// Who was admitted. Result: [`crate::Done::Members`].
    VolumeMembers {
        /// Which volume.
        volume: String,
    },
    /// Ends a server cleanly. Result: [`crate::Done::Nothing`].
    Stop,
    /// Ends a mount. Result: [`crate::Done::Unmounted`]; [`crate::ErrorKind::NotTrue`] if `flush` and something is left.
    Umount {
        /// First waits until everything is safe.
        flush: bool,
        /// Longest wait for that, in milliseconds.
        timeout_ms: u64,
        /// Goes on although files are open or data is unsent (it stays in the durable log and is sent later).
        force: bool,
    },
    /// Prometheus text. Result: [`crate::Done::Metrics`].
    Metrics,
    /// Tells an NFS mount what the link below it told. Result: [`crate::Done::Nothing`].
    LinkNotice {
        /// What.
        notice: LinkNotice,
    },
}

impl Command {
    /// Longest silence that a caller should bear before it takes the daemon for hung; `None`: silence is normal.
    pub fn silence_max(&self) -> Option<Duration> {
        const SHORT: Duration = Duration::from_secs(15);
        const LONG: Duration = Duration::from_secs(120);
        match self {
            Self::Events(_) => None,
            Self::Sync { timeout_ms, .. } => timeout_ms.map(|ms| Duration::from_millis(ms).saturating_add(SHORT)),
            Self::Refresh { timeout_ms, .. } => Some(Duration::from_millis(*timeout_ms).saturating_add(SHORT)),
            Self::Umount { timeout_ms, .. } => Some(Duration::from_millis(*timeout_ms).saturating_add(LONG)),
            Self::Pin { .. }
            | Self::Scrub { .. }
            | Self::VolumeImport { .. }
            | Self::VolumeExport { .. }
            | Self::VolumeBackup { .. }
            | Self::ConflictsDiff { .. }
            | Self::ConflictsResolve { .. }
            | Self::StationJoin { .. }
            | Self::VolumeDelete { .. }
            | Self::VolumePromote { .. }
            // Everybody who is there is asked first.
            | Self::VolumeAcceptLoss { .. }
            | Self::Online
            | Self::Stop => Some(LONG),
            Self::Status
            | Self::Info { .. }
            | Self::Queue { .. }
            | Self::ConflictsList { .. }
            | Self::ConflictsShow { .. }
            | Self::Offline
            | Self::Auto
            | Self::Unpin { .. }
            | Self::Pins
            | Self::StationList { .. }
            | Self::StationUse { .. }
            | Self::StationWhy
            | Self::StationAddress { .. }
            | Self::DoctorFacts
            | Self::VolumeCreate { .. }
            | Self::VolumeList
            | Self::VolumeTicket { .. }
            | Self::VolumeRevoke { .. }
            | Self::VolumeQuota { .. }
            | Self::VolumeMembers { .. }
            | Self::LinkNotice { .. }
            | Self::Metrics => Some(SHORT),
        }
    }

    /// Its name as users type it, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Info { .. } => "info",
            Self::Queue { .. } => "queue",
            Self::Sync { .. } => "sync",
            Self::Refresh { .. } => "refresh",
            Self::Scrub { .. } => "scrub",
            Self::ConflictsList { .. } => "conflicts list",
            Self::ConflictsShow { .. } => "conflicts show",
            Self::ConflictsDiff { .. } => "conflicts diff",
            Self::ConflictsResolve { .. } => "conflicts resolve",
            Self::Offline => "offline",
            Self::Online => "online",
            Self::Auto => "auto",
            Self::Pin { .. } => "pin",
            Self::Unpin { .. } => "unpin",
            Self::Pins => "pins",
            Self::StationList { .. } => "station list",
            Self::StationUse { .. } => "station use",
            Self::StationWhy => "station why",
            Self::StationAddress { .. } => "station address",
            Self::StationJoin { .. } => "station join",
            Self::Events(_) => "events",
            Self::DoctorFacts => "doctor",
            Self::VolumeCreate { .. } => "volume create",
            Self::VolumeList => "volume list",
            Self::VolumeTicket { .. } => "volume ticket",
            Self::VolumeImport { .. } => "volume import",
            Self::VolumeExport { .. } => "volume export",
            Self::VolumeBackup { .. } => "volume backup",
            Self::VolumeDelete { .. } => "volume delete",
            Self::VolumePromote { .. } => "volume promote",
            Self::VolumeRevoke { .. } => "volume revoke",
            Self::VolumeQuota { .. } => "volume quota",
            Self::VolumeAcceptLoss { .. } => "volume accept-loss",
            Self::VolumeMembers { .. } => "volume members",
            Self::Stop => "stop",
            Self::Umount { .. } => "umount",
            Self::Metrics => "metrics",
            Self::LinkNotice { .. } => "nfs notice",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::ParseKeepError;
    use wayfs_types::RecordId;

    #[test]
    fn commands_survive_json() {
        let commands = [
            Command::Status,
            Command::Info { volume: None, path: PathBuf::from("a/b") },
            Command::Sync { volume: None, path: None, until: Level::Safe, timeout_ms: Some(5) },
            Command::ConflictsResolve {
                volume: Some("v".into()),
                which: Selection::One(ConflictRef::Id(RecordId::GENESIS)),
                keep: Keep::Name("ann@lap".into()),
                dry_run: true,
            },
            Command::ConflictsResolve {
                volume: None,
                which: Selection::All { glob: None },
                keep: Keep::Both,
                dry_run: false,
            },
            Command::ConflictsShow { volume: None, which: ConflictRef::Path("x".into()) },
            Command::VolumeTicket {
                volume: "v".into(),
                role: TicketRole::Station,
                expires_s: None,
                limits: TicketLimits::default(),
            },
            Command::StationUse { station: None },
        ];
        for command in commands {
            let json = serde_json::to_string(&command).unwrap();
            assert_eq!(serde_json::from_str::<Command>(&json).unwrap(), command, "{json}");
        }
    }

    #[test]
    fn optional_fields_may_be_left_out_and_unknown_ones_are_refused() {
        let sync: Command = serde_json::from_str(r#"{"command":"sync","until":"safe"}"#).unwrap();
        assert_eq!(sync, Command::Sync { volume: None, path: None, until: Level::Safe, timeout_ms: None });
        assert!(serde_json::from_str::<Command>(r#"{"command":"pins","colour":1}"#).is_ok_and(|c| c == Command::Pins));
        assert!(serde_json::from_str::<Command>(r#"{"command":"dance"}"#).is_err());
        assert!(serde_json::from_str::<Command>(r#"{"command":"pin","path":"a","colour":1}"#).is_err());
    }

    #[test]
    fn keep_is_read_from_text() {
        assert_eq!("both".parse(), Ok(Keep::Both));
        assert_eq!("newest".parse(), Ok(Keep::Newest));
        assert_eq!("ann@lap".parse(), Ok(Keep::Name("ann@lap".into())));
        assert_eq!("".parse::<Keep>(), Err(ParseKeepError));
    }
}
