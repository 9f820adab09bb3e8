//! Planting all mutants in a copy of the tree, each behind a switch.

use super::list::Mutant;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable that switches one on.
pub(super) const SWITCH: &str = "WAYFS_MUTANT";
/// What is added to the crate that all others know.
const SWITCHES: &str = r#"
/// Whether a bug is switched on.
pub fn mutant(name: &str) -> bool {
    static ON: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    ON.get_or_init(|| std::env::var("WAYFS_MUTANT").ok()).as_deref() == Some(name)
}
"#;

/// Whether all can be planted.
pub(super) fn check(root: &Path, mutants: &[Mutant]) -> Result<()> {
    let count = planted(root, mutants)?.len();
    println!("{} mutants in {count} files", mutants.len());
    Ok(())
}

/// Copies what is under version control, and plants all. Files that are as they were stay untouched, so that the next
/// build is a short one.
pub(super) fn plant(root: &Path, mutants: &[Mutant]) -> Result<PathBuf> {
    let copy = root.join("target/mutants/tree");
    let mut texts = planted(root, mutants)?;
    let types = "crates/types/src/lib.rs";
    texts.insert(types.to_owned(), fs::read_to_string(root.join(types))? + SWITCHES);
    let listed = Command::new("git").arg("-C").arg(root).args(["ls-files", "-z"]).output().context("run git")?;
    for name in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        let (from, to) = (root.join(name), copy.join(name));
        let wanted = match texts.remove(name) {
            Some(text) => text.into_bytes(),
            // Removed, and not committed yet.
            None if !from.is_file() => continue,
            None => fs::read(&from).with_context(|| format!("read {}", from.display()))?,
        };
        if fs::read(&to).is_ok_and(|there| there == wanted) {
            continue;
        }
        fs::create_dir_all(to.parent().unwrap_or(&copy))?;
        fs::write(&to, wanted).with_context(|| format!("write {}", to.display()))?;
    }
    match texts.keys().next() {
        Some(name) => bail!("{name} is not under version control"),
        None => Ok(copy),
    }
}

/// The files with bugs, by name.
fn planted(root: &Path, mutants: &[Mutant]) -> Result<BTreeMap<String, String>> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    let mut places: BTreeMap<&str, Vec<(usize, &Mutant)>> = BTreeMap::new();
    for mutant in mutants {
        let text = match texts.get(&mutant.file) {
            Some(text) => text,
            None => {
                let text = fs::read_to_string(root.join(&mutant.file)).with_context(|| format!("read {}", mutant.file));
                texts.entry(mutant.file.clone()).or_insert(text?)
            }
        };
        let at = place(text, mutant).with_context(|| format!("`{}` in {}", mutant.name, mutant.file))?;
        places.entry(&mutant.file).or_default().push((at, mutant));
    }
    for (file, mut places) in places {
        places.sort_by_key(|(at, _)| *at);
        let overlap = places.windows(2).find(|pair| pair[0].0 + pair[0].1.find.len() > pair[1].0);
        if let Some(pair) = overlap {
            bail!("`{}` and `{}` overlap in {file}", pair[0].1.name, pair[1].1.name);
        }
        let text = texts.get_mut(file).context("a text for each file")?;
        for (at, mutant) in places.into_iter().rev() {
            text.replace_range(at..at + mutant.find.len(), &switched(mutant));
            syn::parse_file(text).with_context(|| format!("with `{}` {file} is no Rust any more", mutant.name))?;
        }
    }
    Ok(texts)
}

/// Where a snippet stands.
fn place(text: &str, mutant: &Mutant) -> Result<usize> {
    let from = match &mutant.after {
        Some(after) => text.find(after.as_str()).context("its `after` is not there")? + after.len(),
        None => 0,
    };
    let at = from + text[from..].find(&mutant.find).context("its snippet is not there")?;
    if mutant.after.is_none() && text[at + 1..].contains(&mutant.find) {
        bail!("its snippet is there twice");
    }
    Ok(at)
}

/// Both the right code and the bug.
fn switched(Mutant { name, find, replace, .. }: &Mutant) -> String {
    let either = format!("if wayfs_types::mutant(\"{name}\") {{ {replace} }} else {{ {find} }}");
    if find.ends_with([';', '}']) { either } else { format!("({either})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(after: Option<&str>, find: &str, replace: &str) -> Mutant {
        let [name, what, file] = ["bug", "It fails.", "crates/x/src/lib.rs"].map(str::to_owned);
        let (after, find, replace) = (after.map(str::to_owned), find.to_owned(), replace.to_owned());
        Mutant { name, what, loses_data: false, file, after, find, replace }
    }

    #[test]
    fn a_snippet_is_found_once_or_behind_a_text() {
        let text = "fn a() { x + 1 }\nfn b() { x + 1 }";
        assert!(place(text, &mutant(None, "x + 1", "x")).is_err(), "twice");
        assert_eq!(place(text, &mutant(Some("fn b"), "x + 1", "x")).unwrap(), 26);
        assert!(place(text, &mutant(None, "y", "x")).is_err());
        assert!(place(text, &mutant(Some("fn c"), "x + 1", "x")).is_err());
    }

    #[test]
    fn expressions_stand_in_parentheses_and_statements_do_not() {
        assert_eq!(switched(&mutant(None, "a && b", "a")), "(if wayfs_types::mutant(\"bug\") { a } else { a && b })");
        assert_eq!(switched(&mutant(None, "f();", "")), "if wayfs_types::mutant(\"bug\") {  } else { f(); }");
    }
}
