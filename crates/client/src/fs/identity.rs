//! Whose files are shown as whose: the volume's numbers of users and groups, and those of this machine.
//!
//! A volume keeps numbers, as every file system does, and a person has another number on each machine. What the kernel
//! hears goes through here, and so does what it says; behind the mount there are numbers of the volume only. The kernel
//! checks permissions by what is shown to it, so a mapped owner has an owner's rights.
//!
//! A mapping never makes two of one: a number of the volume that is mapped to nobody here is shown as itself only where
//! no other is shown as that, and a user of this machine whose number is somebody else's in the volume makes no files.

use super::Error;
use super::attributes::Attributes;
use std::collections::BTreeMap;
use wayfs_types::FsError;
use wayfs_types::{Inode, Kind};

/// Shown for a number that would be taken for somebody else's. No user of any machine has it, so nobody gets an owner's rights.
pub const NOBODY_HERE: u32 = u32::MAX - 1;

/// What any executable file has some of.
const EXECUTE: u16 = 0o111;

/// A number of the volume, and the one that stands for it on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumberPair {
    /// In the volume.
    pub volume: u32,
    /// On this machine.
    pub here: u32,
}

/// Numbers of the volume and the numbers that stand for them on this machine. What is not named stands for itself, or for nobody.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbers {
    here: BTreeMap<u32, u32>,
    volume: BTreeMap<u32, u32>,
    only_named: bool,
}

impl Numbers {
    /// Nobody yet: only who is named later stands for anybody.
    #[must_use]
    pub(crate) fn of_named_only() -> Self {
        Self { only_named: true, ..Self::default() }
    }

    /// Adds a pair. Answers whether it could: each number stands for one other only, either way.
    #[must_use]
    pub fn pair(&mut self, NumberPair { volume, here }: NumberPair) -> bool {
        if self.here.contains_key(&volume) || self.volume.contains_key(&here) {
            return false;
        }
        self.here.insert(volume, here);
        self.volume.insert(here, volume);
        true
    }

    /// What stands for a number of the volume here.
    #[must_use]
    pub fn here(&self, volume: u32) -> u32 {
        let is_taken = self.only_named || self.volume.contains_key(&volume);
        let itself = if is_taken { NOBODY_HERE } else { volume };
        self.here.get(&volume).copied().unwrap_or(itself)
    }

    /// What stands for a number of this machine in the volume, if anything does.
    #[must_use]
    pub fn volume(&self, here: u32) -> Option<u32> {
        let is_free = !self.only_named && !self.here.contains_key(&here) && here != NOBODY_HERE;
        let itself = is_free.then_some(here);
        self.volume.get(&here).copied().or(itself)
    }
}

/// How owners, groups and modes are shown on a mount. Default: as the volume has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identities {
    /// Everything is shown as this user's.
    pub uid: Option<u32>,
    /// Everything is shown as this group's.
    pub gid: Option<u32>,
    /// Modes are shown as of files that were just made by somebody with this mask.
    pub umask: Option<u16>,
    /// Users of the volume and of this machine.
    pub users: Numbers,
    /// Groups of the volume and of this machine.
    pub groups: Numbers,
}

impl Identities {
    /// Whether access control lists mean what they say: where owners or modes are shown as others, they do not.
    pub(crate) fn shows_lists(&self) -> bool {
        self.uid.is_none() && self.gid.is_none() && self.umask.is_none()
    }

    /// Attributes of a file, as they are shown.
    pub(super) fn show(&self, inode: &Inode, attributes: Attributes) -> Attributes {
        Attributes {
            uid: self.uid.unwrap_or_else(|| self.users.here(inode.uid)),
            gid: self.gid.unwrap_or_else(|| self.groups.here(inode.gid)),
            mode: self.mode(inode),
            ..attributes
        }
    }

    /// Permission bits, as they are shown. Set-id and sticky bits would say something of owners that are not shown.
    pub fn mode(&self, inode: &Inode) -> u16 {
        let Some(umask) = self.umask else { return inode.mode };
        match inode.kind {
            // The kernel checks none for them.
            Kind::Symlink(_) => inode.mode,
            Kind::Directory => 0o777 & !umask,
            _ if inode.mode & EXECUTE != 0 => 0o777 & !umask,
            _ => 0o666 & !umask,
        }
    }

    /// The mode that a file gets in the volume when it is to be shown with another.
    pub(super) fn mode_to_keep(&self, inode: &Inode, asked: u16) -> u16 {
        if self.umask.is_none() {
            return asked;
        }
        match inode.kind {
            Kind::File if asked & EXECUTE == 0 => inode.mode & !EXECUTE,
            // Who may read it may run it.
            Kind::File if inode.mode & EXECUTE == 0 => inode.mode | ((inode.mode & 0o444) >> 2),
            _ => inode.mode,
        }
    }

    /// The owner that a new file gets in the volume: what is made in a directory that is not shown as its owner's belongs to the same.
    pub(super) fn owner_of_new(&self, directory: Option<&Inode>, caller: u32) -> Result<u32, Error> {
        match (self.uid, directory) {
            (None, _) => self.users.volume(caller).ok_or(Error::NoNumber),
            (Some(_), Some(directory)) => Ok(directory.uid),
            (Some(_), None) => Err(FsError::Stale.into()),
        }
    }

    /// As [`Identities::owner_of_new`], for the group.
    pub(super) fn group_of_new(&self, directory: Option<&Inode>, caller: u32) -> Result<u32, Error> {
        match (self.gid, directory) {
            (None, _) => self.groups.volume(caller).ok_or(Error::NoNumber),
            (Some(_), Some(directory)) => Ok(directory.gid),
            (Some(_), None) => Err(FsError::Stale.into()),
        }
    }

    /// The owner that a file gets in the volume by `chown`; `None`: the one it has.
    pub(super) fn owner_to_keep(&self, asked: Option<u32>) -> Result<Option<u32>, Error> {
        to_keep(asked, self.uid, &self.users)
    }

    /// As [`Identities::owner_to_keep`], for the group.
    pub(super) fn group_to_keep(&self, asked: Option<u32>) -> Result<Option<u32>, Error> {
        to_keep(asked, self.gid, &self.groups)
    }

    /// The user whom the log names for a change.
    pub(super) fn user(&self, caller: u32) -> u32 {
        self.users.volume(caller).unwrap_or(NOBODY_HERE)
    }
}

fn to_keep(asked: Option<u32>, shown: Option<u32>, numbers: &Numbers) -> Result<Option<u32>, Error> {
    match (asked, shown) {
        (None, _) => Ok(None),
        // It is shown as his already, and stays whose it is.
        (Some(asked), Some(shown)) if asked == shown => Ok(None),
        (Some(_), Some(_)) => Err(FsError::NotPermitted.into()),
        (Some(asked), None) => numbers.volume(asked).map(Some).ok_or(Error::NoNumber),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swapped() -> Numbers {
        let mut numbers = Numbers::default();
        assert!(
            numbers.pair(NumberPair { volume: 1000, here: 501 }) && numbers.pair(NumberPair { volume: 7, here: 8 })
        );
        numbers
    }

    #[test]
    fn no_number_stands_for_two() {
        let numbers = swapped();
        assert_eq!((numbers.here(1000), numbers.volume(501)), (501, Some(1000)));
        assert_eq!((numbers.here(0), numbers.volume(0)), (0, Some(0)), "what is not named stands for itself");
        assert_eq!((numbers.here(501), numbers.volume(1000)), (NOBODY_HERE, None), "their numbers are taken by others");
        assert_eq!(numbers.volume(NOBODY_HERE), None);
        for here in [0, 7, 8, 501, 1000, 1001] {
            assert!(numbers.volume(here).is_none_or(|volume| numbers.here(volume) == here), "{here} there and back");
        }
    }

    #[test]
    fn a_second_meaning_of_a_number_is_refused() {
        let mut numbers = swapped();
        assert!(
            !numbers.pair(NumberPair { volume: 1000, here: 3 }) && !numbers.pair(NumberPair { volume: 3, here: 501 })
        );
        assert_eq!(numbers, swapped());
    }

    #[test]
    fn the_shown_owner_may_be_given_and_no_other() {
        let shown = Identities { uid: Some(5), ..Identities::default() };
        assert_eq!(shown.owner_to_keep(Some(5)), Ok(None));
        assert_eq!(shown.owner_to_keep(Some(6)), Err(FsError::NotPermitted.into()));
        assert_eq!(shown.group_to_keep(Some(6)), Ok(Some(6)), "only the owner is shown as another");
        let mapped = Identities { users: swapped(), ..Identities::default() };
        assert_eq!(mapped.owner_to_keep(Some(501)), Ok(Some(1000)));
        assert_eq!(mapped.owner_to_keep(Some(1000)), Err(Error::NoNumber));
        assert_eq!(mapped.owner_of_new(None, 1000), Err(Error::NoNumber));
    }
}
