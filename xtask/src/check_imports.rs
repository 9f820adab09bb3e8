//! `check-imports`: crates import lower floors only, and floors 0 and 1, `proto` and `transfer` know no input or output. Some folders
//! inside a crate know nothing of others, files import each other in small circles at most ([`crate::circles`]), and what a manifest
//! lists is used ([`crate::unused`]), as is what a crate makes public ([`crate::unused_pub`]).
//!
//! The manifests are the truth: what a manifest does not list cannot be imported. Inside a crate it is what the sources name.

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
    ("wayfs-disk", 1),
    ("wayfs-pagecache", 1),
    ("wayfs-tcp", 1),
    ("wayfs-hop", 1),
    ("wayfs-proto", 2),
    ("wayfs-transfer", 2),
    ("wayfs-openfiles", 2),
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

/// Folders inside a crate that know nothing of a part of it, by what their files must not name.
const APART: &[Apart] = &[Apart { folder: "crates/client/src/fs", unknown: &["wayfs_fuse", "crate::fuse"] }];

/// A folder, and what must not be named there.
struct Apart {
    folder: &'static str,
    unknown: &'static [&'static str],
}

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
    for apart in APART {
        for file in sources(&root.join(apart.folder))? {
            let text = std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
            let named = named(&text, apart.unknown);
            problems.extend(named.map(|(line, word)| format!("{}:{line} names {word}", file.display())));
        }
    }
    problems.extend(crate::circles::problems(&root.join("crates"))?);
    problems.extend(crate::unused::problems(&root.join("crates"))?);
    problems.extend(crate::unused_pub::problems(root)?);
    for problem in &problems {
        eprintln!("{problem}");
    }
    if !problems.is_empty() {
        bail!(
            "{} imports break the rules: the table of floors in ARCHITECTURE.md, no circles, nothing unused",
            problems.len()
        );
    }
    println!("{count} crates keep to their floors, {} folders to theirs", APART.len());
    Ok(())
}

pub(crate) fn manifests(crates: &Path) -> Result<Vec<PathBuf>> {
    let listing = std::fs::read_dir(crates).with_context(|| format!("list {}", crates.display()))?;
    let mut manifests: Vec<PathBuf> =
        listing.flatten().map(|entry| entry.path().join("Cargo.toml")).filter(|path| path.exists()).collect();
    manifests.sort();
    Ok(manifests)
}

/// All files of a folder that are compiled, in order.
pub(crate) fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let listing = std::fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = listing.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(files)
}

/// Lines of a source, counted from one, that name something by one of these paths. Comments may.
fn named<'a>(text: &'a str, unknown: &'a [&str]) -> impl Iterator<Item = (usize, &'a str)> {
    let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    code.flat_map(move |(number, line)| {
        unknown.iter().filter(move |word| names(line, word)).map(move |word| (number + 1, *word))
    })
}

/// Whether a line names a path, and not one that only begins like it.
fn names(line: &str, path: &str) -> bool {
    let is_end = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    line.match_indices(path).any(|(at, _)| is_end(&line[at + path.len()..]))
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
    fn what_a_folder_must_not_know_is_found_in_code_and_not_in_comments() {
        let text =
            "// use wayfs_fuse::Errno;\nuse wayfs_fuse::Errno;\nuse wayfs_fuse_of_another;\n    crate::fuse::errno(x)";
        let found: Vec<_> = named(text, &["wayfs_fuse", "crate::fuse"]).collect();
        assert_eq!(found, [(2, "wayfs_fuse"), (4, "crate::fuse")]);
    }

    #[test]
    fn this_workspace_keeps_to_its_floors() {
        main().unwrap();
    }
}
