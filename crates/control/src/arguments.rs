//! What commands are given.

use crate::path_text;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::str::FromStr;
use wayfs_types::RecordId;

/// What a link tells those who send over it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkNotice {
    /// Nothing passes until further notice.
    Down,
    /// It passes again.
    Up,
    /// Another cell: what is in flight may be lost.
    HandOff,
}

/// A ticket's text: a secret, so it does not show in logs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TicketText(pub String);

impl std::fmt::Debug for TicketText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TicketText(…)")
    }
}

/// One conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConflictRef {
    /// By the record under which it is filed.
    Id(RecordId),
    /// By the path of either side.
    Path(#[serde(with = "path_text")] PathBuf),
}

/// Conflicts to settle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// This one.
    One(ConflictRef),
    /// Those whose path matches (`*`, `?` and `**` over directories); `None`: all.
    All {
        /// Pattern on the path from the volume's root.
        glob: Option<String>,
    },
}

/// What stays of a conflict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// The side that this writer wrote: a label (`USER@HOST`), a host, a user, or a file name.
    Name(String),
    /// Both files stay as they are; only the report goes.
    Both,
    /// The side modified last by its writer's clock.
    Newest,
}

/// A text that is no [`Keep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("name what to keep: a writer (USER@HOST), `both` or `newest`")]
pub struct ParseKeepError;

impl FromStr for Keep {
    type Err = ParseKeepError;
    fn from_str(text: &str) -> Result<Self, ParseKeepError> {
        match text {
            "" => Err(ParseKeepError),
            "both" => Ok(Self::Both),
            "newest" => Ok(Self::Newest),
            name => Ok(Self::Name(name.to_owned())),
        }
    }
}

/// Whom a file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// What a member may do less than others. By default nothing.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TicketLimits {
    /// Whom all that it makes belongs to.
    #[serde(default)]
    pub squash: Option<Owner>,
    /// It makes no set-id files, devices, and attributes of the system.
    #[serde(default)]
    pub no_setid: bool,
    /// It sees and changes only what lies below this directory, a path from the root of the volume.
    #[serde(default, with = "path_text::optional")]
    pub path: Option<PathBuf>,
}

/// How files stand outside of a volume.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyForm {
    /// In a directory.
    #[default]
    Directory,
    /// In a tar archive, which goes through a [`crate::stream::Stream`].
    Tar,
}

/// What becomes of set-user-id and set-group-id bits and of the attributes `security.*` and `trusted.*`, which any writing
/// member may have given to any file.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Privileges {
    /// They are left out.
    #[default]
    Stripped,
    /// They are kept.
    Kept,
}

/// What a ticket admits a machine as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TicketRole {
    /// A client.
    Client,
    /// A station.
    Station,
    /// A client that may only read.
    Reader,
}

/// Which events a tool wants.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsWanted {
    /// Also those that are kept since then, in milliseconds since 1970.
    #[serde(default)]
    pub since_unix_ms: Option<i64>,
    /// Only those about what lies at or below this path; `None`: all events.
    #[serde(with = "path_text::optional", default)]
    pub below: Option<PathBuf>,
    /// End when what is kept is told.
    #[serde(default)]
    pub kept_only: bool,
}

impl EventsWanted {
    /// Whether an event is among them, whenever it was.
    pub fn wants(&self, event: &crate::Event) -> bool {
        let Some(below) = &self.below else { return true };
        event.kind == crate::EventKind::Lost
            || [&event.path, &event.from].into_iter().flatten().any(|path| path.starts_with(below))
    }
}
