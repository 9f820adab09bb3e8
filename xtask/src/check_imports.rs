//! `check-imports`: crates import lower floors only, and floors 0 and 1, `proto` and `transfer` know no input or output.
//!
//! The manifests are the truth: what a manifest does not list cannot be imported.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The floor of each crate, as `ARCHITECTURE.md` has it.
const FLOORS: &[(&str, u32)] = &[
    ("wayfs-types", 0),
    ("wayfs-wire", 1),
    ("wayfs-tree", 1),
    ("wayfs-content", 1),
    ("wayfs-policy", 1),
    ("wayfs-roam", 1),
    ("wayfs-link", 1),
    ("wayfs-tcp", 1),
    ("wayfs-hop", 1),
    ("wayfs-proto", 2),
    ("wayfs-transfer", 2),
    ("wayfs-store", 2),
    ("wayfs-net", 2),
    ("wayfs-fuse", 2),
    ("wayfs-control", 2),
    ("wayfs-nfs", 2),
    ("wayfs-node", 3),
    ("wayfs-sim", 3),
    ("wayfs-hoplink", 3),
    ("wayfs-admin", 4),
    ("wayfs-client", 5),
    ("wayfs-nfsmount", 5),
    ("wayfs-server", 5),
    ("wayfs-lab", 5),
    ("wayfs", 6),
];

/// Crates without input, output, clocks, threads and randomness, and all that they may import from elsewhere.
const PURE: &[&str] = &[
    "wayfs-types",
    "wayfs-wire",
    "wayfs-tree",
    "wayfs-content",
    "wayfs-policy",
    "wayfs-roam",
    "wayfs-link",
    "wayfs-tcp",
    "wayfs-hop",
    "wayfs-proto",
    "wayfs-transfer",
];

/// Pure libraries: data structures, codecs, arithmetic. `tracing` does nothing by itself: who listens to it does.
const PURE_LIBRARIES: &[&str] = &[
    "blake3",
    "bytes",
    "crc32fast",
    "data-encoding",
    "fastcdc",
    "postcard",
    "rand_chacha",
    "rand",
    "serde",
    "thiserror",
    "tracing",
];

/// Checks every crate of the workspace.
pub(crate) fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("find the workspace")?;
    let mut problems = Vec::new();
    let mut count = 0;
    for manifest in manifests(&root.join("crates"))? {
        let text = std::fs::read_to_string(&manifest).with_context(|| format!("read {}", manifest.display()))?;
        problems.extend(check(&text).with_context(|| format!("check {}", manifest.display()))?);
        count += 1;
    }
    for problem in &problems {
        eprintln!("{problem}");
    }
    if !problems.is_empty() {
        bail!("{} imports break the table of floors in ARCHITECTURE.md", problems.len());
    }
    println!("{count} crates keep to their floors");
    Ok(())
}

fn manifests(crates: &Path) -> Result<Vec<PathBuf>> {
    let listing = std::fs::read_dir(crates).with_context(|| format!("list {}", crates.display()))?;
    let mut manifests: Vec<PathBuf> =
        listing.flatten().map(|entry| entry.path().join("Cargo.toml")).filter(|path| path.exists()).collect();
    manifests.sort();
    Ok(manifests)
}

/// What is wrong with a manifest, one sentence each.
fn check(manifest: &str) -> Result<Vec<String>> {
    let floors: BTreeMap<&str, u32> = FLOORS.iter().copied().collect();
    let manifest: toml::Table = manifest.parse().context("parse the manifest")?;
    let name =
        manifest.get("package").and_then(|p| p.get("name")).and_then(toml::Value::as_str).context("it has no name")?;
    let Some(own) = floors.get(name) else {
        return Ok(vec![format!("{name} has no floor: give it one in xtask/src/check_imports.rs and ARCHITECTURE.md")]);
    };
    let imports =
        manifest.get("dependencies").and_then(toml::Value::as_table).map(|table| table.keys().cloned().collect());
    let imports: Vec<String> = imports.unwrap_or_default();
    let mut problems = Vec::new();
    for import in imports.iter().map(String::as_str) {
        match floors.get(import) {
            Some(floor) if floor >= own => {
                problems.push(format!("{name} (floor {own}) imports {import} (floor {floor})"))
            }
            Some(_) => {}
            None if PURE.contains(&name) && !PURE_LIBRARIES.contains(&import) => {
                problems.push(format!("{name} is pure and imports {import}, which is not known to be"));
            }
            None => {}
        }
    }
    Ok(problems)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(name: &str, imports: &str) -> Vec<String> {
        check(&format!("[package]\nname = \"{name}\"\n[dependencies]\n{imports}")).unwrap()
    }

    #[test]
    fn lower_floors_may_be_imported() {
        assert!(problems("wayfs-node", "wayfs-proto.workspace = true\ntokio = \"1\"").is_empty());
        assert!(problems("wayfs-tree", "wayfs-types = { path = \"x\" }\nserde.workspace = true").is_empty());
    }

    #[test]
    fn neighbours_and_higher_floors_may_not() {
        assert_eq!(problems("wayfs-tree", "wayfs-wire.workspace = true").len(), 1);
        assert_eq!(problems("wayfs-client", "wayfs-server.workspace = true\nwayfs.workspace = true").len(), 2);
    }

    #[test]
    fn pure_crates_know_no_runtime() {
        assert_eq!(
            problems("wayfs-proto", "tokio.workspace = true"),
            ["wayfs-proto is pure and imports tokio, which is not known to be"]
        );
    }

    #[test]
    fn a_crate_without_a_floor_is_a_problem() {
        assert_eq!(problems("wayfs-new", "").len(), 1);
    }

    #[test]
    fn this_workspace_keeps_to_its_floors() {
        main().unwrap();
    }
}
