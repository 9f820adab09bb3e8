//! `wayfs people`: names of users and groups that a volume keeps beside its numbers.
//!
//! It works by extended attributes of the mount's root, with the rights of whoever calls it.

use super::{Context, to_json, write_out};
use crate::args::{Output, PeopleArgs};
use crate::failure::{Exit, Failure};
use crate::people::People;
use crate::show::clean;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The attribute of a root that lists them, a line each: `user NUMBER NAME`.
const LIST: &str = "user.wayfs.people";
/// Longest list: what the attributes of one file may hold.
const LIST_LEN_MAX: usize = 128 * 1024;
/// Numbers of people, as machines give them; what is below is of services, what is above of nobody.
const ORDINARY: std::ops::Range<u32> = 1000..60_000;

/// Whom a volume names.
#[derive(Debug, Default, Serialize)]
struct Named {
    users: BTreeMap<String, u32>,
    groups: BTreeMap<String, u32>,
}

impl Named {
    fn read(root: &Path) -> Result<Self, Failure> {
        let mut list = vec![0_u8; LIST_LEN_MAX];
        let len = rustix::fs::getxattr(root, LIST, &mut list[..]).map_err(|error| match error {
            Errno::NODATA | Errno::OPNOTSUPP => {
                let next = "Name the mount point itself; `wayfs status` lists the mounts.";
                Failure::new(Exit::NotFound, format_args!("{} is the root of no mount", clean(root.display())), next)
            }
            error => Failure::io(format_args!("read the names of {}", clean(root.display())), &error.into()),
        })?;
        Ok(Self::parse(&String::from_utf8_lossy(&list[..len])))
    }

    fn parse(list: &str) -> Self {
        let mut named = Self::default();
        for line in list.lines() {
            let mut words = line.splitn(3, ' ');
            let (Some(word), Some(number), Some(name)) = (words.next(), words.next(), words.next()) else { continue };
            let Ok(number) = number.parse() else { continue };
            let of = if word == "user" { &mut named.users } else { &mut named.groups };
            of.insert(name.to_owned(), number);
        }
        named
    }
}

pub(crate) fn run(context: &Context, args: &PeopleArgs) -> Result<(), Failure> {
    let root = args.directory.as_path();
    let before = Named::read(root)?;
    if args.from_machine {
        add_missing(root, "user", &People::User.all()?, &before.users)?;
        add_missing(root, "group", &People::Group.all()?, &before.groups)?;
    }
    for (word, pairs) in [("user", &args.user), ("group", &args.group)] {
        for pair in pairs {
            set(root, word, &pair.name, pair.number)?;
        }
    }
    for (word, names) in [("user", &args.remove_user), ("group", &args.remove_group)] {
        for name in names {
            outcome(root, name, rustix::fs::removexattr(root, attribute(word, name)))?;
        }
    }
    let named = Named::read(root)?;
    match context.global.output() {
        Output::Json => write_out(&format!("{}\n", to_json(&named)?)),
        Output::Text => {
            let line = |word: &'static str| {
                move |(name, number): (&String, &u32)| format!("{word} {number} {}\n", clean(name))
            };
            let users = named.users.iter().map(line("user"));
            write_out(&users.chain(named.groups.iter().map(line("group"))).collect::<String>())
        }
    }
}

/// Of people who have a number here and neither name nor number there.
fn add_missing(
    root: &Path,
    word: &str,
    here: &BTreeMap<String, u32>,
    there: &BTreeMap<String, u32>,
) -> Result<(), Failure> {
    let mut taken: Vec<u32> = there.values().copied().collect();
    for (name, number) in here.iter().filter(|(name, number)| ORDINARY.contains(*number) && !there.contains_key(*name))
    {
        if !taken.contains(number) {
            set(root, word, name, *number)?;
            taken.push(*number);
        }
    }
    Ok(())
}

fn attribute(word: &str, name: &str) -> String {
    format!("user.wayfs.{word}.{name}")
}

fn set(root: &Path, word: &str, name: &str, number: u32) -> Result<(), Failure> {
    let value = number.to_string();
    outcome(root, name, rustix::fs::setxattr(root, attribute(word, name), value.as_bytes(), XattrFlags::empty()))
}

fn outcome(root: &Path, name: &str, outcome: rustix::io::Result<()>) -> Result<(), Failure> {
    let doing = || format!("change `{}` in {}", clean(name), clean(root.display()));
    match outcome {
        Ok(()) => Ok(()),
        Err(Errno::NODATA) => {
            let next = "`wayfs people DIR` lists those that it names.";
            Err(Failure::new(Exit::NotFound, format_args!("{}: the volume names no such", doing()), next))
        }
        Err(Errno::PERM) => {
            let next = "A name has at most 64 letters, no spaces and none of `:#=/`, and only root and the owner of the volume's root say who is who.";
            Err(Failure::new(Exit::Refused, format_args!("{}: not permitted", doing()), next))
        }
        Err(error @ (Errno::HOSTUNREACH | Errno::TIMEDOUT)) => Err(Failure::new(
            Exit::Unreachable,
            format_args!("{}: {}", doing(), std::io::Error::from(error)),
            "The home is to know of it: try again when it can be reached (`wayfs status`).",
        )),
        Err(error) => Err(Failure::io(doing(), &error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read() {
        let named = Named::parse("user 1000 ann\ngroup 7 dev\nuser x y\n\n");
        assert_eq!((named.users.get("ann"), named.groups.get("dev"), named.users.len()), (Some(&1000), Some(&7), 1));
    }
}
