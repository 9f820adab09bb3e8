//! The list of mutants.

use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::Path;
use toml::{Table, Value};

/// A bug, and where it is planted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mutant {
    pub(super) name: String,
    /// What the broken program does, a sentence.
    pub(super) what: String,
    /// It loses or corrupts what a user has, or says that something is safe which is not.
    pub(super) loses_data: bool,
    /// From the root of the checkout.
    pub(super) file: String,
    /// The snippet is the first one after this text.
    pub(super) after: Option<String>,
    pub(super) find: String,
    pub(super) replace: String,
}

impl Mutant {
    /// The crate that it is in: the name of a directory below `crates`.
    pub(super) fn crate_name(&self) -> &str {
        self.file.split('/').nth(1).unwrap_or_default()
    }
}

/// Reads all lists of a directory.
pub(super) fn read(directory: &Path) -> Result<Vec<Mutant>> {
    let mut paths: Vec<_> = std::fs::read_dir(directory)
        .with_context(|| format!("read {}", directory.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    let mut mutants = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path)?;
        mutants.extend(parse(&text).with_context(|| format!("read {}", path.display()))?);
    }
    let mut names = BTreeSet::new();
    if let Some(twice) = mutants.iter().find(|mutant| !names.insert(mutant.name.clone())) {
        bail!("two mutants are called `{}`", twice.name);
    }
    Ok(mutants)
}

fn parse(text: &str) -> Result<Vec<Mutant>> {
    let table: Table = text.parse()?;
    let list = table.get("mutant").and_then(Value::as_array).context("there is no [[mutant]]")?;
    list.iter().map(|value| mutant(value.as_table().context("a mutant is a table")?)).collect()
}

fn mutant(table: &Table) -> Result<Mutant> {
    let text = |key: &str| table.get(key).and_then(Value::as_str).map(str::to_owned);
    let name = text("name").context("a mutant has no `name`")?;
    let needed = |key: &str| text(key).with_context(|| format!("`{name}` has no `{key}`"));
    let loses_data = table.get("loses_data").and_then(Value::as_bool);
    Ok(Mutant {
        what: needed("what")?,
        loses_data: loses_data.with_context(|| format!("`{name}` does not say whether it `loses_data`"))?,
        file: needed("file")?,
        after: text("after"),
        find: needed("find")?,
        replace: needed("replace")?,
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mutant_says_all_that_is_needed() {
        let whole = "[[mutant]]\nname = 'a'\nwhat = 'It fails.'\nloses_data = true\nfile = 'crates/tree/src/lib.rs'\nfind = 'x'\nreplace = ''";
        let [mutant] = parse(whole).unwrap().try_into().unwrap();
        assert_eq!((mutant.crate_name(), mutant.after.as_deref()), ("tree", None));
        for key in ["name", "what", "loses_data", "file", "find", "replace"] {
            let lacking: Vec<&str> = whole.lines().filter(|line| !line.starts_with(key)).collect();
            assert!(parse(&lacking.join("\n")).is_err(), "{key}");
        }
    }
}
