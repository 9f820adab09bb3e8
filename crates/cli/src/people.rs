//! Users and groups of this machine, by number or by name.

use crate::failure::{Exit, Failure};
use std::collections::BTreeMap;
use std::path::Path;
use wayfs_control::Owner;

/// Users of this machine, one a line: `name:password:number:group:…`.
const USERS: &str = "/etc/passwd";
/// Groups of this machine, one a line: `name:password:number:…`.
const GROUPS: &str = "/etc/group";
/// The number that the kernel takes for none.
const NO_NUMBER: u32 = u32::MAX;

/// What a number or name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum People {
    /// A user.
    User,
    /// A group.
    Group,
}

impl People {
    fn table(self) -> (&'static str, &'static str) {
        match self {
            Self::User => ("user", USERS),
            Self::Group => ("group", GROUPS),
        }
    }

    /// All of them, by name.
    pub(crate) fn all(self) -> Result<BTreeMap<String, u32>, Failure> {
        let (_, table) = self.table();
        let mut people = BTreeMap::new();
        for line in lines(Path::new(table))? {
            let mut columns = line.split(':');
            let (name, number) =
                (columns.next().unwrap_or_default(), columns.nth(1).and_then(|text| text.parse().ok()));
            if let Some(number) = number.filter(|_| !name.is_empty()) {
                // Of two lines of one name the first is meant, as the C library has it.
                people.entry(name.to_owned()).or_insert(number);
            }
        }
        Ok(people)
    }

    /// The number of somebody who is named by number or by name.
    pub(crate) fn number(self, text: &str) -> Result<u32, Failure> {
        let (word, table) = self.table();
        if let Ok(number) = text.parse::<u32>()
            && number != NO_NUMBER
        {
            return Ok(number);
        }
        let found = lines(Path::new(table))?.iter().find_map(|line| number_in(line, text, 2));
        found.ok_or_else(|| unknown(word, text, table))
    }
}

/// `USER` or `USER:GROUP`, each by number or by name. Without a group: the user's own, of a bare number the same number.
pub(crate) fn owner(text: &str) -> Result<Owner, Failure> {
    let (user, group) = text.split_once(':').map_or((text, None), |(user, group)| (user, Some(group)));
    let uid = People::User.number(user)?;
    let gid = match group {
        Some(group) => People::Group.number(group)?,
        None if user.parse::<u32>().is_ok() => uid,
        None => {
            let found = lines(Path::new(USERS))?.iter().find_map(|line| number_in(line, user, 3));
            found.ok_or_else(|| unknown("user", user, USERS))?
        }
    };
    Ok(Owner { uid, gid })
}

/// The number in a column of a line that is about `name`.
fn number_in(line: &str, name: &str, column: usize) -> Option<u32> {
    let mut columns = line.split(':');
    (columns.next()? == name).then(|| columns.nth(column - 1)?.parse().ok())?
}

fn lines(table: &Path) -> Result<Vec<String>, Failure> {
    let text = std::fs::read_to_string(table).map_err(|e| Failure::io(format_args!("read {}", table.display()), &e))?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn unknown(word: &str, text: &str, table: &str) -> Failure {
    let next = format!("Give the number; `id` shows it. Names are looked up in {table} only.");
    Failure::new(Exit::Usage, format_args!("this machine has no {word} `{text}`"), next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_about_one_name() {
        let line = "ann:x:1000:1001:Ann:/home/ann:/bin/sh";
        assert_eq!((number_in(line, "ann", 2), number_in(line, "ann", 3)), (Some(1000), Some(1001)));
        assert_eq!(number_in(line, "an", 2), None);
        assert_eq!(number_in("ann:x", "ann", 2), None);
    }

    #[test]
    fn root_is_zero_on_every_machine() {
        assert_eq!(owner("root").unwrap(), Owner { uid: 0, gid: 0 });
        assert_eq!(owner("5").unwrap(), Owner { uid: 5, gid: 5 });
        assert_eq!(owner("5:root").unwrap(), Owner { uid: 5, gid: 0 });
        assert!(owner("nobody of this name").is_err());
        assert_eq!(
            (People::User.all().unwrap().get("root"), People::Group.all().unwrap().get("root")),
            (Some(&0), Some(&0))
        );
        assert!(People::User.number("4294967295").is_err(), "the kernel takes it for nobody");
    }
}
