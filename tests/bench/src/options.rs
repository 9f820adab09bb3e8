//! What is measured, and how.

use crate::size::Size;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// How it is called.
const USAGE: &str = "usage: wayfs-bench [--rounds N] [--size small|whole] [--rows WORD,…] [--json FILE]\n       \
     wayfs-bench scale [--only WORD] [--files-max N] [--json FILE]";

/// As the command line has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    /// How often each measurement is made. Default 3.
    pub(crate) rounds: usize,
    /// How much is done for the rows with a station. Default: the whole.
    pub(crate) size: Size,
    /// Parts of the names of rows about files, and names of groups; all rows if there are none.
    words: Vec<String>,
    /// Where results go for programs.
    pub(crate) json: Option<PathBuf>,
}

impl Options {
    /// Reads arguments.
    ///
    /// # Errors
    /// Says how it is called.
    pub(crate) fn read(mut arguments: &[&str]) -> Result<Self> {
        let mut options = Self { rounds: 3, size: Size::Whole, words: Vec::new(), json: None };
        while let [name, value, rest @ ..] = arguments {
            match *name {
                "--rounds" => {
                    let rounds = value.parse().ok().filter(|rounds| *rounds > 0);
                    options.rounds = rounds.context("--rounds takes a number from 1 on")?;
                }
                "--size" => options.size = Size::named(value).context("--size takes small or whole")?,
                "--rows" => options.words = value.split(',').map(str::to_owned).collect(),
                "--json" => options.json = Some(PathBuf::from(value)),
                _ => bail!(USAGE),
            }
            arguments = rest;
        }
        if !arguments.is_empty() {
            bail!(USAGE);
        }
        Ok(options)
    }

    /// Whether a group of rows is wanted: all are, or it is named.
    pub(crate) fn has_group(&self, word: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|named| named == word)
    }

    /// Whether nothing but some of these groups is wanted.
    pub(crate) fn has_only(&self, groups: &[&str]) -> bool {
        !self.words.is_empty() && self.words.iter().all(|word| groups.contains(&word.as_str()))
    }

    /// Whether a row about files is wanted: its name contains one of the words. A row that needs the files of another (`rm -r` those of
    /// `tar` and `clone`) needs it to be chosen, too.
    pub(crate) fn has_row(&self, row: &str) -> bool {
        self.words.is_empty() || self.words.iter().any(|word| row.contains(word.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_wanted_unless_some_is_named() {
        let all = Options::read(&[]).unwrap();
        assert!(all.has_group("safe") && all.has_row("tar x") && !all.has_only(&["safe"]));
        let some = Options::read(&["--rows", "tar,small", "--rounds", "1", "--size", "small"]).unwrap();
        assert!(some.has_row("tar x, 800 files") && some.has_group("small") && !some.has_group("safe"));
        assert!(!some.has_only(&["small", "large"]) && !some.has_row("git clone"));
        assert_eq!((some.rounds, some.size), (1, Size::Small));
        assert!(Options::read(&["--rows", "small,large"]).unwrap().has_only(&["small", "large"]));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for wrong in [&["--rounds"][..], &["--rounds", "0"], &["--size", "tiny"], &["--row", "tar"], &["tar"]] {
            assert!(Options::read(wrong).is_err(), "{wrong:?}");
        }
    }
}
