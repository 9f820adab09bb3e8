//! `wayfs init`: a configuration file in which every default is explained.

use super::write_out;
use crate::args::InitArgs;
use crate::config::TEMPLATE;
use crate::dirs::Dirs;
use crate::failure::{Exit, Failure};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use wayfs_control::Account;

/// What becomes of a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IfThere {
    Refuse,
    Overwrite,
}

pub(crate) fn run(args: &InitArgs) -> Result<(), Failure> {
    let path = match &args.file {
        Some(dash) if dash == Path::new("-") => return write_out(TEMPLATE),
        Some(path) => path.clone(),
        None => default_path(),
    };
    write(&path, if args.force { IfThere::Overwrite } else { IfThere::Refuse })?;
    write_out(&format!("Wrote {}: every line in it is a comment until you take the `#! ` away.\n", path.display()))
}

fn default_path() -> PathBuf {
    let config = Dirs::of_this_user().config;
    let at = match Account::of_this_process() {
        Account::Root => config.first(),
        Account::User => config.last(),
    };
    at.cloned().unwrap_or_default().join("config.toml")
}

fn write(path: &Path, if_there: IfThere) -> Result<(), Failure> {
    let doing = || format!("write {}", path.display());
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        std::fs::create_dir_all(parent).map_err(|e| Failure::io(doing(), &e))?;
    }
    let mut options = OpenOptions::new();
    options.write(true);
    match if_there {
        IfThere::Overwrite => options.create(true).truncate(true),
        IfThere::Refuse => options.create_new(true),
    };
    let written = options.open(path).and_then(|mut file| file.write_all(TEMPLATE.as_bytes()));
    written.map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::new(
            Exit::Refused,
            format_args!("{} is already there", path.display()),
            "Overwrite it with --force.",
        ),
        _ => Failure::io(doing(), &e),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_written_once_and_again_only_by_force() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/config.toml");
        write(&path, IfThere::Refuse).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), TEMPLATE);
        std::fs::write(&path, "mine").unwrap();
        assert_eq!(write(&path, IfThere::Refuse).unwrap_err().exit, Exit::Refused);
        write(&path, IfThere::Overwrite).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), TEMPLATE);
    }
}
