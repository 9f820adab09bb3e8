//! Lines of manifests that nothing needs: a dependency that no file of its crate names.

use anyhow::{Context, Result};
use std::path::Path;

/// What is wrong with the crates in a folder, one sentence each.
pub(crate) fn problems(crates: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for manifest in crate::check_imports::manifests(crates)? {
        let crate_ = manifest.parent().context("a manifest is in a crate")?;
        let mut code = String::new();
        for folder in ["src", "tests", "examples", "benches"].iter().map(|name| crate_.join(name)) {
            if folder.is_dir() {
                for file in crate::check_imports::sources(&folder)? {
                    code.push_str(&std::fs::read_to_string(file)?);
                }
            }
        }
        if crate_.join("build.rs").is_file() {
            code.push_str(&std::fs::read_to_string(crate_.join("build.rs"))?);
        }
        let unused = unused(&std::fs::read_to_string(&manifest)?, &code)?;
        problems
            .extend(unused.into_iter().map(|name| format!("{} lists {name}, which nothing names", manifest.display())));
    }
    Ok(problems)
}

/// Dependencies that the code does not name.
fn unused(manifest: &str, code: &str) -> Result<Vec<String>> {
    let manifest: toml::Table = manifest.parse().context("parse the manifest")?;
    let tables = ["dependencies", "dev-dependencies", "build-dependencies"];
    let listed = tables.iter().filter_map(|name| manifest.get(*name)?.as_table()).flat_map(toml::Table::keys);
    let is_named = |name: &str| {
        let name = name.replace('-', "_");
        let is_begin = |before: &str| !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let is_end = |after: &str| ["::", ";", " as ", " ", "!"].iter().any(|end| after.starts_with(end));
        code.match_indices(&name).any(|(at, _)| is_begin(&code[..at]) && is_end(&code[at + name.len()..]))
    };
    Ok(listed.filter(|name| !is_named(name)).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_that_nothing_names_is_found() {
        let manifest =
            "[dependencies]\nserde = \"1\"\nserde_json.workspace = true\n[dev-dependencies]\nanti-dote = \"1\"";
        let code = "use serde_json::Value;\nuse anti_dote as d;\n// my_serde::x";
        assert_eq!(unused(manifest, code).unwrap(), ["serde"]);
    }
}
