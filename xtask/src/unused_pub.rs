//! Functions and constants that are public and that no other crate names: `pub(crate)` says so to a reader, and the compiler then finds
//! what nothing calls at all. Types are left out, since a signature may need one that nobody names.

use crate::check_imports::sources;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What is wrong with the crates in a folder of the workspace, one sentence each.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let units = units(root)?;
    let mut users: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for unit in &units {
        unit.files.iter().flat_map(|(_, text)| words(text)).for_each(|word| {
            users.entry(word).or_default().insert(&unit.name);
        });
    }
    let mut problems = Vec::new();
    for unit in units.iter().filter(|unit| unit.is_library) {
        for (file, text) in &unit.files {
            let is_unused = |name: &&str| users.get(name).is_none_or(|users| users.len() < 2);
            problems.extend(
                public(text).filter(is_unused).map(|name| format!("{file}: nobody outside of the crate names {name}")),
            );
        }
    }
    Ok(problems)
}

/// What is compiled together and sees its own `pub(crate)`: a crate's sources, or programs and tests beside them.
struct Unit {
    name: String,
    is_library: bool,
    /// By their paths.
    files: Vec<(String, String)>,
}

fn units(root: &Path) -> Result<Vec<Unit>> {
    let mut units = Vec::new();
    for manifest in crate::check_imports::manifests(&root.join("crates"))? {
        let folder = manifest.parent().context("a manifest is in a crate")?;
        units.push(unit(&folder.join("src"), folder.join("src/lib.rs").is_file())?);
        for beside in ["tests", "examples", "benches"].map(|name| folder.join(name)).iter().filter(|path| path.is_dir())
        {
            units.push(unit(beside, false)?);
        }
    }
    for other in ["tests", "xtask", "fuzz/fuzz_targets"] {
        units.push(unit(&root.join(other), false)?);
    }
    Ok(units)
}

fn unit(folder: &Path, is_library: bool) -> Result<Unit> {
    let read = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        Ok((path.display().to_string(), text))
    };
    let files = sources(folder)?.into_iter().map(read).collect::<Result<_>>()?;
    Ok(Unit { name: folder.display().to_string(), is_library, files })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The names of public functions, constants and statics.
fn public(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let mut words = line.trim_start().strip_prefix("pub ")?.split([' ', '(', '<', ':']);
        loop {
            match words.next()? {
                "async" | "unsafe" | "extern" | "\"C\"" => {}
                "fn" | "static" => return words.next(),
                // A constant, or a function that is one.
                "const" => match words.next()? {
                    "fn" => return words.next(),
                    "unsafe" => {}
                    name => return Some(name),
                },
                _ => return None,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_functions_and_constants_are_found_and_others_not() {
        let text = "pub fn a() {}\n    pub const fn b<T>() {}\npub async fn c(x: u8)\npub(crate) fn d()\nfn e()\npub const F: u8 = 1;\n\
                    pub static G: u8 = 1;\npub struct H;\n    // pub fn i()\npub const unsafe fn j()";
        assert_eq!(public(text).collect::<Vec<_>>(), ["a", "b", "c", "F", "G", "j"]);
    }
}
