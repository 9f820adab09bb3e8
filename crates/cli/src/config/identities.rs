//! `-o uid=,gid=,umask=,idmap=`: whose files a mount shows.

use crate::failure::Failure;
use crate::people::People;
use std::path::Path;
use wayfs_client::fs::{Identities, NumberPair, Numbers};

/// Where a file with a mapping is named.
const FILE_PREFIX: &str = "file:";
/// Mapped by the names that the volume keeps.
const NAMES: &str = "names";

/// What was typed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct IdentityOptions {
    uid: Option<u32>,
    gid: Option<u32>,
    umask: Option<u16>,
    idmap: Option<String>,
}

impl IdentityOptions {
    /// Takes an option; `None`: it is none of these, or has no proper value.
    pub(super) fn take(&mut self, key: &str, value: &str) -> Result<Option<()>, Failure> {
        match key {
            "uid" => self.uid = Some(People::User.number(value)?),
            "gid" => self.gid = Some(People::Group.number(value)?),
            "umask" => match u16::from_str_radix(value, 8) {
                Ok(umask) if umask <= 0o777 => self.umask = Some(umask),
                _ => return Ok(None),
            },
            "idmap" => self.idmap = Some(value.to_owned()),
            _ => return Ok(None),
        }
        Ok(Some(()))
    }

    /// What the mount is to do. A file with a mapping is read here.
    pub(super) fn resolve(&self) -> Result<Identities, Failure> {
        let mut identities = Identities { uid: self.uid, gid: self.gid, umask: self.umask, ..Identities::default() };
        match self.idmap.as_deref() {
            None | Some("none") => {}
            Some(_) if self.uid.is_some() || self.gid.is_some() => {
                let next =
                    "`uid=` and `gid=` show all files as one user's, `idmap=` each as its own user's: leave one out.";
                return Err(Failure::usage("`idmap=` was given with `uid=` or `gid=`", next));
            }
            // Who is who is known when the volume is.
            Some(NAMES) => {}
            Some(text) => match text.strip_prefix(FILE_PREFIX) {
                Some(path) => read(Path::new(path), &mut identities)?,
                None => {
                    let next = "`idmap=names` maps by the names that the volume keeps (`wayfs people`); `idmap=file:PATH` names a file with lines \
                                `user NUMBER NAME` (the number in the volume, the name or number here) and `group NUMBER NAME`.";
                    return Err(Failure::usage(
                        format_args!("`idmap={text}` is none of `none`, `names` and `file:PATH`"),
                        next,
                    ));
                }
            },
        }
        Ok(identities)
    }

    /// Users and groups of this machine, if they are mapped by name.
    pub(super) fn people(&self) -> Result<Option<wayfs_client::fs::People>, Failure> {
        if self.idmap.as_deref() != Some(NAMES) {
            return Ok(None);
        }
        Ok(Some(wayfs_client::fs::People { users: People::User.all()?, groups: People::Group.all()? }))
    }
}

fn read(path: &Path, identities: &mut Identities) -> Result<(), Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| Failure::io(format_args!("read {}", path.display()), &e))?;
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        take_line(line, identities).map_err(|failure| {
            let text = format!("{}, line {}: {}", path.display(), number + 1, failure.message);
            Failure::usage(text, failure.next_step)
        })?;
    }
    Ok(())
}

fn take_line(line: &str, identities: &mut Identities) -> Result<(), Failure> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [] => Ok(()),
        ["user", volume, here] => pair(&mut identities.users, volume, People::User.number(here)?),
        ["group", volume, here] => pair(&mut identities.groups, volume, People::Group.number(here)?),
        _ => Err(Failure::usage("this is no pair", "Write `user NUMBER NAME` or `group NUMBER NAME`.")),
    }
}

fn pair(numbers: &mut Numbers, volume: &str, here: u32) -> Result<(), Failure> {
    let next = "Give the number that `ls -n` shows where nothing is mapped.";
    let volume = volume.parse().map_err(|_| Failure::usage(format_args!("`{volume}` is no number"), next))?;
    if numbers.pair(NumberPair { volume, here }) {
        return Ok(());
    }
    let next =
        "Each number of the volume stands for one of this machine, and each of this machine for one of the volume.";
    Err(Failure::usage("one of the two was mapped already", next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(options: &[(&str, &str)]) -> Option<IdentityOptions> {
        let mut typed = IdentityOptions::default();
        options.iter().all(|(key, value)| typed.take(key, value).unwrap().is_some()).then_some(typed)
    }

    #[test]
    fn options_say_who_and_which_mode() {
        let all = typed(&[("uid", "5"), ("gid", "root"), ("umask", "027"), ("idmap", "none")]).unwrap();
        let shown = all.resolve().unwrap();
        assert_eq!((shown.uid, shown.gid, shown.umask), (Some(5), Some(0), Some(0o27)));
        for improper in [("umask", "1000"), ("umask", "9"), ("fmask", "022")] {
            assert_eq!(typed(&[improper]), None, "{improper:?}");
        }
        let names = typed(&[("idmap", "names")]).unwrap();
        assert!(names.resolve().is_ok() && names.people().unwrap().unwrap().users.get("root") == Some(&0));
        assert_eq!(typed(&[("idmap", "none")]).unwrap().people().unwrap(), None);
        assert!(typed(&[("idmap", "name")]).unwrap().resolve().is_err());
        assert!(typed(&[("idmap", "names"), ("gid", "1")]).unwrap().resolve().is_err());
        assert!(typed(&[("idmap", "file:/x"), ("uid", "1")]).unwrap().resolve().is_err());
    }

    #[test]
    fn a_file_maps_each_number_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("map");
        let resolve = |text: &str| {
            std::fs::write(&path, text).unwrap();
            typed(&[("idmap", &format!("file:{}", path.display()))]).unwrap().resolve()
        };
        let mapped = resolve("# whose\nuser 1000 root  # here\n\ngroup 7 8\n").unwrap();
        assert_eq!((mapped.users.here(1000), mapped.groups.here(7)), (0, 8));
        for (line, text) in [(1, "user 1"), (2, "user 1 2\nuser 1 3"), (2, "user 1 2\nuser 3 2"), (1, "user root 0")] {
            let failure = resolve(text).unwrap_err();
            assert!(failure.message.contains(&format!("line {line}")), "{text:?}: {}", failure.message);
        }
    }
}
