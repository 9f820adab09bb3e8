//! What was found, kept from run to run.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Who noticed a mutant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// The first unit test that failed.
    pub(super) test: Option<String>,
    pub(super) seeds: Seeds,
}

/// What the simulator said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seeds {
    /// It does not run this code.
    NotRun,
    /// So many noticed nothing.
    Clean(u64),
    /// The first that noticed.
    Noticed(u64),
}

impl Found {
    /// Whether anybody did.
    pub(super) fn is_noticed(&self) -> bool {
        self.test.is_some() || self.is_noticed_by_seeds()
    }

    pub(super) fn is_noticed_by_seeds(&self) -> bool {
        matches!(self.seeds, Seeds::Noticed(_))
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRun => f.write_str("not run"),
            Self::Clean(seeds) => write!(f, "{seeds} clean"),
            Self::Noticed(seed) => write!(f, "seed {seed}"),
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.test.as_deref().unwrap_or("no test"), self.seeds)
    }
}

/// All that was found.
#[derive(Debug)]
pub(super) struct Results {
    path: PathBuf,
    by_name: BTreeMap<String, Found>,
}

impl Results {
    /// Reads what earlier runs found, if there were any.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = if path.exists() { fs::read_to_string(path)? } else { String::new() };
        let lines = text.lines().map(|line| parse(line).with_context(|| format!("{}: `{line}`", path.display())));
        Ok(Self { path: path.to_owned(), by_name: lines.collect::<Result<_>>()? })
    }

    pub(super) fn of(&self, name: &str) -> Option<&Found> {
        self.by_name.get(name)
    }

    /// Keeps a result at once.
    pub(super) fn put(&mut self, name: &str, found: Found) -> Result<()> {
        self.by_name.insert(name.to_owned(), found);
        let line = |(name, Found { test, seeds }): (&String, &Found)| {
            format!("{name}\t{}\t{seeds}\n", test.as_deref().unwrap_or("-"))
        };
        let text: String = self.by_name.iter().map(line).collect();
        fs::write(&self.path, text).with_context(|| format!("write {}", self.path.display()))
    }
}

fn parse(line: &str) -> Result<(String, Found)> {
    let [name, test, seeds] =
        line.split('\t').collect::<Vec<_>>().try_into().ok().context("a line has three columns")?;
    let number = |text: &str| text.parse().with_context(|| format!("`{text}` is no number"));
    let seeds = match seeds.split_once(' ') {
        Some(("not", "run")) => Seeds::NotRun,
        Some(("seed", seed)) => Seeds::Noticed(number(seed)?),
        Some((count, "clean")) => Seeds::Clean(number(count)?),
        _ => anyhow::bail!("`{seeds}` is no result"),
    };
    let test = (test != "-").then(|| test.to_owned());
    Ok((name.to_owned(), Found { test, seeds }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_as_they_were_written() {
        let directory = std::env::temp_dir().join(format!("wayfs-mutants-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("results.tsv");
        let all = [
            ("a", Found { test: Some("tests::x".to_owned()), seeds: Seeds::Noticed(7) }),
            ("b", Found { test: None, seeds: Seeds::Clean(2000) }),
            ("c", Found { test: None, seeds: Seeds::NotRun }),
        ];
        let mut results = Results::read(&path).unwrap();
        for (name, found) in &all {
            results.put(name, found.clone()).unwrap();
        }
        let again = Results::read(&path).unwrap();
        assert!(all.iter().all(|(name, found)| again.of(name) == Some(found)));
        fs::remove_dir_all(&directory).unwrap();
        assert!(parse("a\tb").is_err() && parse("a\tb\tc").is_err());
    }
}
