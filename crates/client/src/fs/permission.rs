//! Who may do what with a file, by the rules that the kernel checks the mount by: for questions that do not come through it.

use super::acl;
use super::identity::Identities;
use wayfs_control::Peer;
use wayfs_types::{Inode, Kind};

/// To read a file, or the names in a directory.
pub(crate) const READ: u16 = 4;
/// To walk through a directory.
pub(crate) const SEARCH: u16 = 1;

impl Identities {
    /// Whether a file is shown as this user's.
    pub(crate) fn owns(&self, peer: &Peer, inode: &Inode) -> bool {
        peer.uid == self.uid.unwrap_or_else(|| self.users.here(inode.uid))
    }

    /// Whether a user may do all that is wanted ([`READ`], [`SEARCH`]). The superuser may.
    pub(crate) fn may(&self, peer: &Peer, inode: &Inode, wanted: u16) -> bool {
        if peer.uid == 0 {
            return true;
        }
        let mode = self.mode(inode);
        let group = self.gid.unwrap_or_else(|| self.groups.here(inode.gid));
        let file = acl::Ownership { is_own: self.owns(peer, inode), group };
        let has = |bits: u16| bits & wanted == wanted;
        let list =
            acl::of(inode, acl::ACCESS).filter(|_| self.shows_lists() && !matches!(inode.kind, Kind::Symlink(_)));
        match list {
            Some(list) => list.shown(self).grants(peer, file, wanted),
            None if file.is_own => has(mode >> 6),
            None if peer.gids.contains(&group) => has(mode >> 3),
            None => has(mode),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_types::{Content, RecordId, WallTime};

    fn file(mode: u16) -> Inode {
        let (at, version) = (WallTime::default(), RecordId::GENESIS);
        Inode {
            kind: Kind::File,
            mode,
            uid: 5,
            gid: 7,
            content: Content::EMPTY,
            version,
            attr_version: wayfs_types::AttrVersion(version),
            mtime: at,
            ctime: at,
            btime: at,
            places: Vec::new(),
            removed_from: None,
            merged_into: None,
            subdirectories: 0,
            unlisted: 0,
            xattrs: std::collections::BTreeMap::new(),
        }
    }

    #[test]
    fn the_class_that_one_is_in_decides() {
        let may = |uid: u32, gids: &[u32], identities: &Identities, wanted: u16| {
            identities.may(&Peer { uid, gids: gids.to_vec() }, &file(0o604), wanted)
        };
        let plain = Identities::default();
        assert!(may(5, &[], &plain, READ) && may(6, &[8], &plain, READ), "the owner, and others");
        assert!(!may(6, &[9, 7], &plain, READ), "the group has less than others have");
        assert!(!may(5, &[], &plain, READ | SEARCH) && may(0, &[], &plain, READ | SEARCH));
        let shown = Identities { uid: Some(6), gid: Some(8), ..Identities::default() };
        assert!(may(6, &[8], &shown, READ) && !may(5, &[8], &shown, READ), "as it is shown");
    }
}
