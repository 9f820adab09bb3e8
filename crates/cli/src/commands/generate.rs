//! Completions and manual pages, made from the declarations of the arguments.

use super::write_out;
use crate::args::Args;
use crate::failure::Failure;
use clap::CommandFactory;
use std::path::Path;

pub(crate) fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "wayfs", &mut text);
    write_out(&String::from_utf8_lossy(&text))
}

pub(crate) fn manual(dir: Option<&Path>) -> Result<(), Failure> {
    match dir {
        Some(dir) => {
            let doing = || format!("write manual pages into {}", dir.display());
            std::fs::create_dir_all(dir).map_err(|e| Failure::io(doing(), &e))?;
            clap_mangen::generate_to(Args::command(), dir).map_err(|e| Failure::io(doing(), &e))
        }
        None => {
            let mut text = Vec::new();
            clap_mangen::Man::new(Args::command())
                .render(&mut text)
                .map_err(|e| Failure::io("make the manual page", &e))?;
            write_out(&String::from_utf8_lossy(&text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_for_every_command_are_written() {
        let directory = tempfile::tempdir().unwrap();
        manual(Some(directory.path())).unwrap();
        for page in ["wayfs.1", "wayfs-mount.1", "wayfs-volume-create.1"] {
            assert!(directory.path().join(page).exists(), "{page}");
        }
    }

    #[test]
    fn completions_name_the_commands() {
        let mut text = Vec::new();
        clap_complete::generate(clap_complete::Shell::Bash, &mut Args::command(), "wayfs", &mut text);
        assert!(String::from_utf8(text).unwrap().contains("conflicts"));
    }
}
