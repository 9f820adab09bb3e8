//! Names of users and groups that a volume keeps beside its numbers, and whom they are on this machine.
//!
//! They are extended attributes of the root, one for each name, so that they have their place in the home's order like all other
//! changes, and two who add different names do not meet. They are not listed, as a copy of the root is no volume.

use super::identity::{Identities, NumberPair, Numbers};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use wayfs_types::Inode;

/// Of users: `user.wayfs.user.NAME`.
const USER: &[u8] = b"user.wayfs.user.";
/// Of groups: `user.wayfs.group.NAME`.
const GROUP: &[u8] = b"user.wayfs.group.";
/// Longest name: what machines allow.
const NAME_LEN_MAX: usize = 64;
/// Most digits of a number.
const DIGITS_MAX: usize = 10;

/// Users and groups by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct People {
    /// Users.
    pub users: BTreeMap<String, u32>,
    /// Groups.
    pub groups: BTreeMap<String, u32>,
}

impl People {
    /// Those whom a volume names: attributes of its root. What is no number is nobody.
    pub(crate) fn of_volume(root: &Inode) -> Self {
        let mut people = Self::default();
        for (name, value) in &root.xattrs {
            let Some((kind, name)) = split(name.as_bytes()) else { continue };
            let Some(number) = number(value) else { continue };
            let of = if kind == USER { &mut people.users } else { &mut people.groups };
            of.insert(name.to_owned(), number);
        }
        people
    }

    /// One a line, as `idmap=file:PATH` reads them: `user NUMBER NAME`.
    pub(crate) fn lines(&self) -> String {
        let mut lines = String::new();
        for (word, people) in [("user", &self.users), ("group", &self.groups)] {
            for (name, number) in people {
                // Writing to memory does not fail.
                let _ = writeln!(lines, "{word} {number} {name}");
            }
        }
        lines
    }
}

impl Identities {
    /// With whom a volume names mapped to whoever has that name on this machine. Everybody else is nobody here.
    pub(crate) fn by_names(self, volume: &People, here: &People) -> Self {
        let users = by_names(&volume.users, &here.users);
        let groups = by_names(&volume.groups, &here.groups);
        Self { users, groups, ..self }
    }
}

/// The superuser is himself on every machine, whatever he is called. Of two who share a number the first by name is meant.
fn by_names(volume: &BTreeMap<String, u32>, here: &BTreeMap<String, u32>) -> Numbers {
    let mut numbers = Numbers::of_named_only();
    let _ = numbers.pair(NumberPair { volume: 0, here: 0 });
    for (name, number) in volume {
        if let Some(own) = here.get(name) {
            let _ = numbers.pair(NumberPair { volume: *number, here: *own });
        }
    }
    numbers
}

/// Whether an attribute names somebody.
pub(super) fn names_somebody(attribute: &[u8]) -> bool {
    split(attribute).is_some()
}

/// Whether a value is a number that somebody can have: not the one that the kernel takes for none, nor the one of nobody here.
pub(super) fn is_number(value: &[u8]) -> bool {
    number(value).is_some()
}

fn split(attribute: &[u8]) -> Option<(&'static [u8], &str)> {
    let (kind, name) = [USER, GROUP].into_iter().find_map(|kind| Some((kind, attribute.strip_prefix(kind)?)))?;
    let name = std::str::from_utf8(name).ok()?;
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, ':' | '#' | '=' | '/');
    (!name.is_empty() && name.len() <= NAME_LEN_MAX && name.chars().all(is_plain)).then_some((kind, name))
}

fn number(value: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(value).ok().filter(|text| text.len() <= DIGITS_MAX)?;
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_digits && *number < super::identity::NOBODY_HERE)
}

#[cfg(test)]
mod tests {
    use super::super::identity::NOBODY_HERE;
    use super::*;

    fn people(users: &[(&str, u32)]) -> People {
        let users = users.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect();
        People { users, groups: BTreeMap::new() }
    }

    #[test]
    fn who_has_the_name_here_is_meant_and_everybody_else_is_nobody() {
        let volume = people(&[("ann", 1000), ("anne", 1000), ("bob", 1001), ("eve", 0)]);
        let here = people(&[("ann", 501), ("anne", 502), ("carl", 1001), ("eve", 7)]);
        let users = Identities::default().by_names(&volume, &here).users;
        assert_eq!((users.here(1000), users.volume(501)), (501, Some(1000)));
        assert_eq!(users.volume(502), None, "the number is ann's already");
        assert_eq!((users.here(1001), users.volume(1001)), (NOBODY_HERE, None), "bob is not here, carl not there");
        assert_eq!(
            (users.here(0), users.volume(0), users.volume(7)),
            (0, Some(0), None),
            "nobody is made root by name"
        );
    }

    #[test]
    fn attributes_name_somebody_or_do_not() {
        assert_eq!(split(b"user.wayfs.user.ann"), Some((USER, "ann")));
        assert_eq!(split(b"user.wayfs.group.a.b"), Some((GROUP, "a.b")));
        for bad in
            [&b"user.wayfs.user."[..], b"user.wayfs.users.a", b"user.wayfs.user.a b", b"user.wayfs.user.a:b", b"user.a"]
        {
            assert_eq!(split(bad), None, "{bad:?}");
        }
        assert_eq!((number(b"0"), number(b"4294967293")), (Some(0), Some(4_294_967_293)));
        for bad in [&b""[..], b"-1", b"+1", b" 1", b"4294967294", b"4294967295", b"00000000001"] {
            assert_eq!(number(bad), None, "{bad:?}");
        }
    }
}
