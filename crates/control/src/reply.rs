//! What a daemon says to a command.

use crate::path_text;
use crate::report::{
    BackupReport, ConflictReport, ConflictsReport, CopyReport, DeleteReport, DiffReport, DoctorReport, FileInfo,
    GivenUpReport, MembersReport, PinsReport, PromoteReport, QueueReport, RefreshReport, ResolveReport, RestoreReport,
    ScrubReport, StationsReport, StatusReport, SyncReport, TicketReport, UmountReport, VolumeReport, VolumesReport,
    WhyReport,
};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use wayfs_types::request::Level;

/// One line of an answer. [`Reply::Done`] and [`Reply::Error`] are the last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// How far a long command is.
    Progress(Progress),
    /// Something happened (`Command::Events`).
    Event(Event),
    /// The command ended well.
    Done(Box<Done>),
    /// The command ended otherwise.
    Error(ControlError),
}

/// How far a long command is. Totals may grow while it runs.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// What is being done, in a few words (`sending`, `fetching photos/a.jpg`).
    pub what: String,
    /// Bytes done.
    pub done_bytes: u64,
    /// Bytes to do in all; 0: unknown.
    pub total_bytes: u64,
    /// Files or records done.
    pub done_items: u64,
    /// Files or records to do in all; 0: unknown.
    pub total_items: u64,
}

/// Something that happened in a daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When, in milliseconds since 1970.
    pub unix_ms: i64,
    /// What.
    pub kind: EventKind,
    /// In which volume, by name.
    #[serde(default)]
    pub volume: Option<String>,
    /// About which file, from the volume's root.
    #[serde(with = "path_text::optional", default)]
    pub path: Option<PathBuf>,
    /// Where it was before; of `renamed`.
    #[serde(with = "path_text::optional", default)]
    pub from: Option<PathBuf>,
    /// A version, conflict or record, as text: what did it, if that is known here.
    #[serde(default)]
    pub record: Option<String>,
    /// Who made the record, by label, if that is known here.
    #[serde(default)]
    pub by: Option<String>,
    /// Bytes of the file, if it is there and they are known here.
    #[serde(default)]
    pub size_bytes: Option<u64>,
    /// The rest, for people.
    #[serde(default)]
    pub detail: String,
}

/// Kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventKind {
    /// A file or directory got a name (`path`).
    Created,
    /// A file got other bytes.
    Edited,
    /// A file or directory is called otherwise (`path`) than before (`from`).
    Renamed,
    /// A file or directory lost a name (`path`), which stands for nothing since.
    Removed,
    /// A file or directory got another mode, owner or time, or an extended attribute.
    Attributes,
    /// Servers: a record of a member below took effect, whatever it did. Told only to who listens at that moment.
    Applied,
    /// An update is durable at a station, its contents with it. One event for each record: `record` is the version.
    Safe,
    /// The home knows an update.
    Visible,
    /// The home has an update's contents.
    Stable,
    /// Two updates met.
    Conflict,
    /// A conflict was settled.
    Resolved,
    /// A session with a parent or a child began.
    Connected,
    /// It ended.
    Disconnected,
    /// Another station was chosen.
    Moved,
    /// Contents were fetched.
    Fetched,
    /// A member was admitted or revoked.
    Member,
    /// Something needs a person.
    Attention,
    /// Events are missing: the reader was too slow, or they are older than what is kept; `detail` says it.
    Lost,
}

impl EventKind {
    /// That an update came so far. `None`: that it was made is told as what it changed.
    pub fn of_level(level: Level) -> Option<Self> {
        match level {
            Level::Modified => None,
            Level::Safe => Some(Self::Safe),
            Level::Visible => Some(Self::Visible),
            Level::Stable => Some(Self::Stable),
        }
    }
}

/// Results, one kind for each kind of command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", content = "value", rename_all = "snake_case")]
pub enum Done {
    /// Done, nothing to say.
    Nothing,
    /// Of `Status`.
    Status(StatusReport),
    /// Of `Info`.
    Info(FileInfo),
    /// Of `Queue`.
    Queue(QueueReport),
    /// Of `Sync`.
    Sync(SyncReport),
    /// Of `Refresh`.
    Refreshed(RefreshReport),
    /// Of `Scrub`.
    Scrubbed(ScrubReport),
    /// Of `ConflictsList`.
    Conflicts(ConflictsReport),
    /// Of `ConflictsShow`.
    Conflict(ConflictReport),
    /// Of `ConflictsDiff`.
    Diff(DiffReport),
    /// Of `ConflictsResolve`.
    Resolved(ResolveReport),
    /// Of `Pin`, `Unpin` and `Pins`.
    Pins(PinsReport),
    /// Of `StationList`.
    Stations(StationsReport),
    /// Of `StationWhy`.
    Why(WhyReport),
    /// Of `DoctorFacts`.
    Doctor(DoctorReport),
    /// Of `VolumeCreate` and `StationJoin`.
    Volume(VolumeReport),
    /// Of `VolumeList`.
    Volumes(VolumesReport),
    /// Of `VolumeTicket`.
    Ticket(TicketReport),
    /// Of `VolumeImport` and `VolumeExport`.
    Copied(CopyReport),
    /// Of `VolumeBackup`.
    BackedUp(BackupReport),
    /// Of `wayfs volume restore`, which needs no daemon.
    Restored(RestoreReport),
    /// Of `VolumeMembers` and `VolumeRevoke`.
    Members(MembersReport),
    /// Of `VolumePromote`.
    Promoted(PromoteReport),
    /// Of `VolumeAcceptLoss`.
    GivenUp(GivenUpReport),
    /// Of `VolumeDelete`.
    Deleted(DeleteReport),
    /// Of `Umount`.
    Unmounted(UmountReport),
    /// Of `Metrics`: Prometheus text.
    Metrics(String),
}

/// Why a command was not carried out: what, why, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ControlError {
    /// What sort of failure; the tools make their exit code from it.
    pub kind: ErrorKind,
    /// What failed and why, one line.
    pub message: String,
    /// What the user can do about it.
    pub next_step: String,
}

/// Sorts of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// What was waited for or asked did not come true (a timeout, unsent data at unmount).
    NotTrue,
    /// The command makes no sense as given, or this kind of daemon does not know it.
    Usage,
    /// Nobody who could do it can be reached.
    Unreachable,
    /// The file, volume, member, conflict or station is unknown.
    NotFound,
    /// Not permitted: role, ticket spent or expired.
    Refused,
    /// Storage, kernel or a peer failed.
    Failed,
    /// The daemon has too many connections.
    Busy,
}

impl ControlError {
    /// Puts an error together.
    pub fn new(kind: ErrorKind, message: impl Into<String>, next_step: impl Into<String>) -> Self {
        Self { kind, message: message.into(), next_step: next_step.into() }
    }

    /// For a command that this kind of daemon does not carry out.
    pub fn wrong_daemon(command: &crate::Command, wanted: crate::DaemonKind) -> Self {
        Self::new(
            ErrorKind::Usage,
            format!("`{}` is a command for a {wanted}", command.name()),
            format!(
                "Name a {wanted} with --at (a mount point, data directory or control socket); `wayfs status` lists what runs."
            ),
        )
    }
}
