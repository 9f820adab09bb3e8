//! Failures as users meet them: what, why, what next, and an exit code that scripts can trust.

use crate::show::clean;
use std::fmt;
use std::process::ExitCode;
use wayfs_control::{CallError, ControlError, ErrorKind};

/// Exit codes. 0 is success, and *yes* for commands that ask or wait for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// What was asked or waited for is not true.
    NotTrue = 1,
    /// The command line or a configuration file makes no sense.
    Usage = 2,
    /// The daemon does not run, or who it needs cannot be reached.
    Unreachable = 3,
    /// The file, volume, member, conflict or station is unknown.
    NotFound = 4,
    /// Not permitted: role, ticket, access rights.
    Refused = 5,
    /// Storage, kernel or a peer failed.
    Failed = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// The same table for `--help`.
pub(crate) const EXIT_CODES: &str = "Exit codes: 0 done, or yes; 1 not true (not safe in time, unsent data); 2 usage or configuration; \
3 daemon or station unreachable; 4 unknown file, volume or member; 5 refused; 6 failed.";

/// Why a command ended badly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Exit code.
    pub(crate) exit: Exit,
    /// What failed and why.
    pub(crate) message: String,
    /// What to do; empty if there is nothing to say.
    pub(crate) next_step: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl fmt::Display, next_step: impl Into<String>) -> Self {
        Self { exit, message: message.to_string(), next_step: next_step.into() }
    }

    pub(crate) fn usage(message: impl fmt::Display, next_step: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message, next_step)
    }

    /// A failure of the operating system; `doing` is verb and object.
    pub(crate) fn io(doing: impl fmt::Display, error: &std::io::Error) -> Self {
        let (exit, next_step) = match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                (Exit::Refused, "Check the owner and mode, or run it as the user they belong to.")
            }
            std::io::ErrorKind::NotFound => (Exit::NotFound, "Check the path."),
            std::io::ErrorKind::AlreadyExists => (Exit::Usage, "Name one that is not there; nothing is overwritten."),
            std::io::ErrorKind::StorageFull => (Exit::Failed, "Make room on that disk."),
            _ => (Exit::Failed, ""),
        };
        Self::new(exit, format_args!("{doing}: {error}"), next_step)
    }

    /// For people, on standard error.
    pub(crate) fn to_text(&self) -> String {
        // Names of files come from others, and what a terminal makes of control characters is theirs to choose.
        let mut text = format!("wayfs: {}", clean(&self.message));
        if !self.next_step.is_empty() {
            text.push_str("\n  ");
            text.push_str(&clean(&self.next_step));
        }
        text
    }

    /// For scripts, on standard error.
    pub(crate) fn to_json(&self) -> String {
        serde_json::json!({
            "error": { "exit_code": self.exit as u8, "message": self.message, "next_step": self.next_step }
        })
        .to_string()
    }

    /// Back from [`Failure::to_json`] (a daemon's child tells its parent).
    pub(crate) fn from_json(text: &str) -> Option<Self> {
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        let error = value.get("error")?;
        let exit = match error.get("exit_code")?.as_u64()? {
            1 => Exit::NotTrue,
            2 => Exit::Usage,
            3 => Exit::Unreachable,
            4 => Exit::NotFound,
            5 => Exit::Refused,
            _ => Exit::Failed,
        };
        let text = |key: &str| error.get(key).and_then(|v| v.as_str()).unwrap_or_default().to_owned();
        Some(Self { exit, message: text("message"), next_step: text("next_step") })
    }
}

impl From<ControlError> for Failure {
    fn from(error: ControlError) -> Self {
        let exit = match error.kind {
            ErrorKind::NotTrue => Exit::NotTrue,
            ErrorKind::Usage => Exit::Usage,
            ErrorKind::Unreachable | ErrorKind::Busy => Exit::Unreachable,
            ErrorKind::NotFound => Exit::NotFound,
            ErrorKind::Refused => Exit::Refused,
            ErrorKind::Failed => Exit::Failed,
        };
        Self { exit, message: error.message, next_step: error.next_step }
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(refused) => refused.into(),
            CallError::Connect { .. } => Self::new(
                Exit::Unreachable,
                error,
                "Start it again (`wayfs mount`, `wayfs serve`); `wayfs doctor` looks for the cause.",
            ),
            CallError::Broken { .. } => Self::new(
                Exit::Unreachable,
                error,
                "Look into the daemon's log; `wayfs status` says whether it still runs.",
            ),
            CallError::Silent { .. } => Self::new(
                Exit::Unreachable,
                error,
                "The daemon may hang: make a bundle with `wayfs debug`, then restart it.",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_survives_json() {
        for exit in [Exit::NotTrue, Exit::Usage, Exit::Unreachable, Exit::NotFound, Exit::Refused, Exit::Failed] {
            let failure = Failure::new(exit, "what", "next");
            assert_eq!(Failure::from_json(&failure.to_json()), Some(failure));
        }
        assert_eq!(Failure::from_json("rubbish"), None);
    }

    #[test]
    fn text_says_what_and_what_next() {
        assert_eq!(Failure::usage("no", "do").to_text(), "wayfs: no\n  do");
        assert_eq!(Failure::usage("no", "").to_text(), "wayfs: no");
        let evil = Failure::usage("look up nope\u{1b}]0;owned\u{7}\u{1b}[2J\n", "rm \u{9b}31m").to_text();
        assert_eq!(evil.chars().filter(|c| c.is_control()).collect::<String>(), "\n", "{evil:?}");
    }
}
