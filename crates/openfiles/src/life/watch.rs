//! What is known of mappings through which programs may store into the body: see [`crate::mapped`].

use super::Life;
use std::time::SystemTime;

/// Whether programs may be storing into the body.
#[derive(Debug, Clone, Default)]
pub(super) enum Watch {
    /// Nobody has it mapped.
    #[default]
    Off,
    /// A handle was given out through which programs may map it for writing.
    On {
        /// Somebody stored into it.
        is_suspect: bool,
        /// When the body last changed by our own hand.
        stamp: Option<SystemTime>,
    },
}

impl Life {
    /// Whether programs may be storing into the body.
    pub(crate) fn is_watched(&self) -> bool {
        matches!(self.watch, Watch::On { .. })
    }

    /// Whether somebody stored into it, as far as is known.
    pub(crate) fn is_suspect(&self) -> bool {
        matches!(self.watch, Watch::On { is_suspect: true, .. })
    }

    /// A handle is given out through which the body may be mapped.
    pub(crate) fn watch_begun(&mut self, stamp: Option<SystemTime>) {
        if !self.is_watched() {
            self.watch = Watch::On { is_suspect: false, stamp };
        }
    }

    /// The body changed by our own hand.
    pub(crate) fn stamped(&mut self, new: Option<SystemTime>) {
        if let Watch::On { stamp, .. } = &mut self.watch {
            *stamp = new;
        }
    }

    /// Looks whether another hand changed the body; from then on it is suspect.
    pub(crate) fn is_changed_by_others(&mut self, now: Option<SystemTime>) -> bool {
        match &mut self.watch {
            Watch::On { is_suspect, stamp } if *stamp != now => {
                (*is_suspect, *stamp) = (true, now);
                true
            }
            Watch::On { .. } | Watch::Off => false,
        }
    }

    /// Somebody wrote the body by passthrough, and a mapping may be who did.
    pub(crate) fn suspect_stores(&mut self) {
        if let Watch::On { is_suspect, .. } = &mut self.watch {
            *is_suspect = true;
        }
    }

    /// Nobody else has the body any more.
    pub(crate) fn watch_ended(&mut self) {
        self.watch = Watch::Off;
    }
}
