//! Whether an open file has a name, for which alone there are records.

use super::Life;
use std::sync::Arc;
use wayfs_types::Inode;

/// Whether it has a name.
#[derive(Debug, Clone, Default)]
pub(super) enum NameState {
    /// As most files do.
    #[default]
    Named,
    /// This machine took the last one, or it never had one: the inode as it was then.
    Nameless(Arc<Inode>),
    /// It never had one and is being given one: its bytes are wanted.
    BeingNamed(Arc<Inode>),
}

impl Life {
    /// The inode of a file without a name.
    pub(crate) fn removed(&self) -> Option<&Arc<Inode>> {
        match &self.name {
            NameState::Named => None,
            NameState::Nameless(inode) | NameState::BeingNamed(inode) => Some(inode),
        }
    }

    /// Whether its last name went by our own doing, or it never had one.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed().is_some()
    }

    /// Whether a record of it is for something: it has a name, or is about to get one.
    pub(crate) fn is_wanted(&self) -> bool {
        !matches!(self.name, NameState::Nameless(_))
    }

    /// It has no name; what is known of it.
    pub(crate) fn unnamed(&mut self, inode: Arc<Inode>) {
        self.name = match &self.name {
            NameState::BeingNamed(_) => NameState::BeingNamed(inode),
            NameState::Named | NameState::Nameless(_) => NameState::Nameless(inode),
        };
    }

    /// It is being given a name; answers `false` if it has one.
    pub(crate) fn naming_begun(&mut self) -> bool {
        let Some(inode) = self.removed().cloned() else { return false };
        self.name = NameState::BeingNamed(inode);
        true
    }

    /// It did not get the name.
    pub(crate) fn naming_failed(&mut self) {
        if let NameState::BeingNamed(inode) = &self.name {
            self.name = NameState::Nameless(Arc::clone(inode));
        }
    }

    /// It has a name.
    pub(crate) fn named(&mut self) {
        self.name = NameState::Named;
    }
}
