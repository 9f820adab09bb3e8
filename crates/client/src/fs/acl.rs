//! POSIX access control lists: how a file inherits them, and how they and its mode follow each other.
//!
//! The kernel checks them (`default_permissions`); it reads them as extended attributes in the form that all Linux file
//! systems hand out: a version and entries of (tag, permissions, number), little-endian. The volume keeps them in that form,
//! with the volume's numbers of users and groups. A list that says no more than a mode does is not kept.

use super::Error;
use super::identity::Identities;
use wayfs_control::Peer;
use wayfs_types::{Inode, XattrName};

/// Who may do what with a file.
pub(super) const ACCESS: &[u8] = b"system.posix_acl_access";
/// What is made in a directory gets this.
pub(super) const DEFAULT: &[u8] = b"system.posix_acl_default";

/// The only version of the form.
const VERSION: u32 = 2;
const HEADER_LEN: usize = 4;
const ENTRY_LEN: usize = 8;
/// The number in an entry that is about nobody by name.
const NOBODY: u32 = u32::MAX;

/// Whom an entry is about, in the order in which entries stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tag {
    Owner = 0x01,
    User = 0x02,
    OwningGroup = 0x04,
    Group = 0x08,
    Mask = 0x10,
    Other = 0x20,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    tag: Tag,
    /// Read 4, write 2, execute 1.
    permissions: u16,
    number: u32,
}

/// Whose a file is, for one who asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ownership {
    /// Whether it is his who asks.
    pub(super) is_own: bool,
    pub(super) group: u32,
}

/// A list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Acl(Vec<Entry>);

impl Acl {
    /// Reads a list, of which nothing may be missing or out of order; `None` if it is none.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (version, entries) = bytes.split_first_chunk::<HEADER_LEN>()?;
        if u32::from_le_bytes(*version) != VERSION || !entries.len().is_multiple_of(ENTRY_LEN) {
            return None;
        }
        let entries: Option<Vec<Entry>> = entries.chunks_exact(ENTRY_LEN).map(parse_entry).collect();
        Some(Self(entries?)).filter(Self::is_whole)
    }

    fn is_whole(&self) -> bool {
        let count = |tag: Tag| self.0.iter().filter(|entry| entry.tag == tag).count();
        let is_named = count(Tag::User) + count(Tag::Group) > 0;
        let is_ordered = self.0.is_sorted_by_key(|entry| entry.tag);
        let single = [Tag::Owner, Tag::OwningGroup, Tag::Other].into_iter().all(|tag| count(tag) == 1);
        is_ordered && single && (count(Tag::Mask) == 1 || (count(Tag::Mask) == 0 && !is_named))
    }

    /// Whether a user may do all that is wanted with a file of this list.
    pub(super) fn grants(&self, peer: &Peer, file: Ownership, wanted: u16) -> bool {
        let of = |tag: Tag| self.0.iter().find(|entry| entry.tag == tag).map(|entry| entry.permissions);
        let has = |permissions: u16| permissions & wanted == wanted;
        if file.is_own {
            return has(of(Tag::Owner).unwrap_or(0));
        }
        let mask = of(Tag::Mask).unwrap_or(7);
        if let Some(named) = self.0.iter().find(|entry| entry.tag == Tag::User && entry.number == peer.uid) {
            return has(named.permissions & mask);
        }
        let is_in = |entry: &&Entry| match entry.tag {
            Tag::OwningGroup => peer.gids.contains(&file.group),
            Tag::Group => peer.gids.contains(&entry.number),
            Tag::Owner | Tag::User | Tag::Mask | Tag::Other => false,
        };
        let mut groups = self.0.iter().filter(is_in).peekable();
        if groups.peek().is_none() {
            return has(of(Tag::Other).unwrap_or(0));
        }
        // One of them must grant all.
        groups.any(|entry| has(entry.permissions & mask))
    }

    /// The form in which it is kept.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for entry in &self.0 {
            bytes.extend_from_slice(&(entry.tag as u16).to_le_bytes());
            bytes.extend_from_slice(&entry.permissions.to_le_bytes());
            bytes.extend_from_slice(&entry.number.to_le_bytes());
        }
        bytes
    }

    /// Whether a mode says as much.
    pub(super) fn is_plain(&self) -> bool {
        self.0.len() == 3
    }

    /// The permission bits of a file that has it: the group's are those of the mask, if there is one.
    pub(super) fn bits(&self) -> u16 {
        let of = |tag: Tag| self.0.iter().find(|entry| entry.tag == tag).map(|entry| entry.permissions);
        let group = of(Tag::Mask).or(of(Tag::OwningGroup)).unwrap_or(0);
        of(Tag::Owner).unwrap_or(0) << 6 | group << 3 | of(Tag::Other).unwrap_or(0)
    }

    /// What becomes of it when the file gets another mode.
    pub(super) fn with_mode(mut self, mode: u16) -> Self {
        self.each_bound_by(mode, |entry, bits| entry.permissions = bits);
        self
    }

    /// The list of something that is made with a mode in a directory of which this is the default.
    pub(super) fn inherited(&self, mode: u16) -> Self {
        let mut own = self.clone();
        own.each_bound_by(mode, |entry, bits| entry.permissions &= bits);
        own
    }

    /// Entries that the bits of a mode are about, with these.
    fn each_bound_by(&mut self, mode: u16, change: impl Fn(&mut Entry, u16)) {
        let has_mask = self.0.iter().any(|entry| entry.tag == Tag::Mask);
        for entry in &mut self.0 {
            match entry.tag {
                Tag::Owner => change(entry, mode >> 6 & 7),
                Tag::Mask => change(entry, mode >> 3 & 7),
                Tag::OwningGroup if !has_mask => change(entry, mode >> 3 & 7),
                Tag::Other => change(entry, mode & 7),
                Tag::OwningGroup | Tag::User | Tag::Group => {}
            }
        }
    }

    /// With this machine's numbers.
    pub(super) fn shown(mut self, identities: &Identities) -> Self {
        for entry in &mut self.0 {
            match entry.tag {
                Tag::User => entry.number = identities.users.here(entry.number),
                Tag::Group => entry.number = identities.groups.here(entry.number),
                Tag::Owner | Tag::OwningGroup | Tag::Mask | Tag::Other => {}
            }
        }
        self.sorted()
    }

    /// With the volume's numbers.
    ///
    /// # Errors
    /// `EOVERFLOW` if somebody in it has no number there.
    pub(super) fn kept(mut self, identities: &Identities) -> Result<Self, Error> {
        for entry in &mut self.0 {
            entry.number = match entry.tag {
                Tag::User => identities.users.volume(entry.number).ok_or(Error::NoNumber)?,
                Tag::Group => identities.groups.volume(entry.number).ok_or(Error::NoNumber)?,
                Tag::Owner | Tag::OwningGroup | Tag::Mask | Tag::Other => NOBODY,
            };
        }
        Ok(self.sorted())
    }

    fn sorted(mut self) -> Self {
        self.0.sort_by_key(|entry| (entry.tag, entry.number));
        self
    }
}

fn parse_entry(bytes: &[u8]) -> Option<Entry> {
    let [t0, t1, p0, p1, number @ ..] = bytes else { return None };
    let tag = match u16::from_le_bytes([*t0, *t1]) {
        0x01 => Tag::Owner,
        0x02 => Tag::User,
        0x04 => Tag::OwningGroup,
        0x08 => Tag::Group,
        0x10 => Tag::Mask,
        0x20 => Tag::Other,
        _ => return None,
    };
    let permissions = u16::from_le_bytes([*p0, *p1]);
    let number = u32::from_le_bytes(number.try_into().ok()?);
    (permissions <= 7 && (number != NOBODY || !is_about_somebody(tag))).then_some(Entry { tag, permissions, number })
}

fn is_about_somebody(tag: Tag) -> bool {
    matches!(tag, Tag::User | Tag::Group)
}

/// The name of a list as an attribute.
pub(super) fn name(bytes: &[u8]) -> XattrName {
    XattrName::new(bytes).expect("a valid name")
}

/// Whether an attribute is a list.
pub(super) fn is_acl(name: &[u8]) -> bool {
    name == ACCESS || name == DEFAULT
}

/// A list of a file.
pub(super) fn of(inode: &Inode, which: &[u8]) -> Option<Acl> {
    let kept = inode.xattrs.iter().find(|(name, _)| name.as_bytes() == which);
    kept.and_then(|(_, value)| Acl::parse(value))
}

#[cfg(test)]
mod tests {
    use super::super::identity::NumberPair;
    use super::*;

    fn acl(entries: &[(Tag, u16, u32)]) -> Acl {
        Acl(entries
            .iter()
            .map(|(tag, permissions, number)| Entry { tag: *tag, permissions: *permissions, number: *number })
            .collect())
    }

    fn of_a_team() -> Acl {
        acl(&[
            (Tag::Owner, 7, NOBODY),
            (Tag::User, 6, 1000),
            (Tag::OwningGroup, 5, NOBODY),
            (Tag::Group, 7, 50),
            (Tag::Mask, 7, NOBODY),
            (Tag::Other, 4, NOBODY),
        ])
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = of_a_team().to_bytes();
        assert_eq!(Acl::parse(&bytes), Some(of_a_team()));
        assert_eq!(&bytes[..12], [2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255, 255]);
        for cut in 0..bytes.len() {
            assert_eq!(Acl::parse(&bytes[..cut]), None, "{cut} bytes");
        }
    }

    #[test]
    fn lists_that_say_nothing_clear_are_none() {
        let base = [(Tag::Owner, 7, NOBODY), (Tag::OwningGroup, 5, NOBODY), (Tag::Other, 0, NOBODY)];
        assert!(Acl::parse(&acl(&base).to_bytes()).unwrap().is_plain());
        let [owner, group, other] = base;
        let user = (Tag::User, 6, 1000);
        for bad in [
            vec![owner, group],
            vec![owner, user, group, other],
            vec![owner, other, group],
            vec![owner, user, group, (Tag::Mask, 7, NOBODY), (Tag::Mask, 7, NOBODY), other],
            vec![(Tag::Owner, 8, NOBODY), group, other],
        ] {
            assert_eq!(Acl::parse(&acl(&bad).to_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn mode_and_list_follow_each_other() {
        assert_eq!(of_a_team().bits(), 0o774);
        let less = of_a_team().with_mode(0o640);
        assert_eq!(less.bits(), 0o640);
        assert_eq!(less.0[2].permissions, 5, "the group keeps its entry, the mask bounds it");
        assert_eq!(of_a_team().inherited(0o660).bits(), 0o660);
        assert_eq!(of_a_team().inherited(0o777).bits(), 0o774);
        let plain = acl(&[(Tag::Owner, 7, NOBODY), (Tag::OwningGroup, 5, NOBODY), (Tag::Other, 5, NOBODY)]);
        assert_eq!(plain.inherited(0o660).bits(), 0o640);
    }

    #[test]
    fn the_first_entry_that_is_about_somebody_decides() {
        let grants = |uid: u32, gids: &[u32], owns: bool, wanted: u16| {
            let peer = Peer { uid, gids: gids.to_vec() };
            of_a_team().with_mode(0o764).grants(&peer, Ownership { is_own: owns, group: 9 }, wanted)
        };
        assert!(grants(5, &[], true, 7) && !grants(1000, &[50], false, 1), "by name before any group");
        assert!(grants(1000, &[], false, 6) && grants(7, &[9], false, 4) && !grants(7, &[9], false, 2));
        assert!(grants(7, &[9, 50], false, 6) && !grants(7, &[50], false, 7), "the mask bounds a group");
        assert!(grants(7, &[], false, 4) && !grants(7, &[], false, 1), "everybody else");
    }

    #[test]
    fn numbers_are_those_of_where_it_is_read() {
        let mut identities = Identities::default();
        assert!(identities.users.pair(NumberPair { volume: 1000, here: 501 }));
        assert!(identities.groups.pair(NumberPair { volume: 50, here: 60 }));
        let shown = of_a_team().shown(&identities);
        assert_eq!((shown.0[1].number, shown.0[3].number), (501, 60));
        assert_eq!(shown.clone().kept(&identities), Ok(of_a_team()));
        assert_eq!(of_a_team().kept(&identities), Err(Error::NoNumber), "1000 is somebody else's number there");
    }
}
