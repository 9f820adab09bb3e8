//! What the program is made of: notices of its dependencies' licences, and a bill of materials.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The package that is given away.
const PROGRAM: &str = "wayfs";

/// A crate that is linked into the program and is not ours.
struct Dependency {
    id: String,
    name: String,
    version: String,
    licence: String,
    repository: String,
    /// Its licences and notices, as it ships them: name of the file, and text.
    texts: Vec<(String, String)>,
}

/// `cargo xtask notices [FILE]`: what licences ask to be given away with the binary.
pub(crate) fn notices(arguments: &[String]) -> Result<()> {
    let dependencies = Graph::read()?.dependencies()?;
    let mut texts: BTreeMap<&str, Vec<&Dependency>> = BTreeMap::new();
    for dependency in &dependencies {
        for (_, text) in &dependency.texts {
            texts.entry(text.trim()).or_default().push(dependency);
        }
    }
    let mut out =
        String::from("WayFS is linked with the crates below. Their licences, as each of them ships them, follow.\n\n");
    for Dependency { name, version, licence, repository, texts, .. } in &dependencies {
        let lacks = if texts.is_empty() { " (ships no text)" } else { "" };
        out.push_str(&format!("{name} {version}: {licence}{lacks}  {repository}\n"));
    }
    for (text, of) in texts {
        let names: BTreeSet<String> = of.iter().map(|it| format!("{} {}", it.name, it.version)).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        out.push_str(&format!("\n{}\n{names}\n\n{text}\n", "-".repeat(78)));
    }
    write(arguments, &out)
}

/// `cargo xtask sbom [FILE]`: a bill of materials, CycloneDX 1.5 in JSON.
pub(crate) fn bill_of_materials(arguments: &[String]) -> Result<()> {
    let graph = Graph::read()?;
    let dependencies = graph.dependencies()?;
    let checksums = checksums()?;
    let components: Vec<Value> = dependencies
        .iter()
        .map(|it| {
            let checksum = checksums.get(&(it.name.clone(), it.version.clone()));
            json!({
                "type": "library", "bom-ref": it.id, "name": it.name, "version": it.version,
                "purl": format!("pkg:cargo/{}@{}", it.name, it.version),
                // Cargo's older way to write OR.
                "licenses": [{ "expression": it.licence.replace('/', " OR ") }],
                "hashes": checksum.map(|hash| json!({ "alg": "SHA-256", "content": hash })).into_iter().collect::<Vec<_>>(),
            })
        })
        .collect();
    let known: BTreeSet<&str> = dependencies.iter().map(|it| it.id.as_str()).collect();
    let edges: Vec<Value> = dependencies
        .iter()
        .map(|it| {
            let on: Vec<String> = graph.links(&it.id).into_iter().filter(|id| known.contains(id.as_str())).collect();
            json!({ "ref": it.id, "dependsOn": on })
        })
        .collect();
    let bill = json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": {
            "type": "application", "name": PROGRAM, "version": env!("CARGO_PKG_VERSION"),
            "licenses": [{ "expression": "Apache-2.0" }],
        } },
        "components": components, "dependencies": edges,
    });
    write(arguments, &format!("{bill:#}\n"))
}

fn write(arguments: &[String], text: &str) -> Result<()> {
    match arguments {
        [] => print!("{text}"),
        [file] => std::fs::write(file, text).with_context(|| format!("write {file}"))?,
        _ => bail!("one file at most"),
    }
    Ok(())
}

/// What cargo says of the packages and who links whom.
struct Graph(Value);

impl Graph {
    fn read() -> Result<Self> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let platform = "x86_64-unknown-linux-gnu";
        let output = Command::new(cargo)
            .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", platform])
            .output()
            .context("run cargo metadata")?;
        if !output.status.success() {
            bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(Self(serde_json::from_slice(&output.stdout).context("read what cargo metadata says")?))
    }

    fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
        value[name].as_array().map_or(&[], Vec::as_slice)
    }

    /// The packages that one is linked with: not those that only build or test it.
    fn links(&self, id: &str) -> Vec<String> {
        let node = Self::list(&self.0["resolve"], "nodes").iter().find(|node| node["id"] == id);
        let is_linked = |dep: &&Value| Self::list(dep, "dep_kinds").iter().any(|kind| kind["kind"].is_null());
        let deps = node.map_or(&[][..], |node| Self::list(node, "deps"));
        deps.iter().filter(is_linked).filter_map(|dep| dep["pkg"].as_str().map(str::to_owned)).collect()
    }

    /// All that is linked into the program and is not of this project, by name and version.
    fn dependencies(&self) -> Result<Vec<Dependency>> {
        let packages = Self::list(&self.0, "packages");
        let program = packages.iter().find(|package| package["name"] == PROGRAM).context("the program's package")?;
        let mut waiting = vec![program["id"].as_str().unwrap_or_default().to_owned()];
        let mut seen = BTreeSet::new();
        while let Some(id) = waiting.pop() {
            if seen.insert(id.clone()) {
                waiting.extend(self.links(&id));
            }
        }
        let is_linked = |package: &&Value| package["id"].as_str().is_some_and(|id| seen.contains(id));
        let is_foreign = |package: &&Value| !package["source"].is_null();
        let mut found: Vec<Dependency> =
            packages.iter().filter(is_linked).filter(is_foreign).map(Dependency::of).collect::<Result<_>>()?;
        found.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        Ok(found)
    }
}

impl Dependency {
    fn of(package: &Value) -> Result<Self> {
        let text = |name: &str| package[name].as_str().unwrap_or_default().to_owned();
        let manifest = text("manifest_path");
        let directory = Path::new(&manifest).parent().context("the directory of a package")?;
        Ok(Self {
            id: text("id"),
            name: text("name"),
            version: text("version"),
            licence: text("license"),
            repository: text("repository"),
            texts: texts(directory)?,
        })
    }
}

/// Licences, copyrights and notices in a package's directory.
fn texts(directory: &Path) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(|| format!("list {}", directory.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let upper = name.to_uppercase();
        let is_text = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
        if entry.file_type()?.is_file() && is_text.iter().any(|start| upper.starts_with(start)) {
            found.push((name, String::from_utf8_lossy(&std::fs::read(entry.path())?).into_owned()));
        }
    }
    found.sort();
    Ok(found)
}

/// SHA-256 of each package as `Cargo.lock` has it, by name and version.
fn checksums() -> Result<BTreeMap<(String, String), String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the project's root")?;
    let lock: toml::Table = std::fs::read_to_string(root.join("Cargo.lock"))?.parse()?;
    let packages = lock.get("package").and_then(toml::Value::as_array).context("packages in Cargo.lock")?;
    let text = |package: &toml::Value, name: &str| package.get(name)?.as_str().map(str::to_owned);
    let row =
        |package: &toml::Value| Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?));
    Ok(packages.iter().filter_map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Licences that ask for their text: whoever ships none here would break them.
    #[test]
    fn every_dependency_has_a_licence_and_nearly_all_ship_its_text() {
        let dependencies = Graph::read().unwrap().dependencies().unwrap();
        assert!(dependencies.len() > 60, "{}", dependencies.len());
        assert!(dependencies.iter().all(|it| !it.licence.is_empty()));
        let is_there = |name: &str| dependencies.iter().any(|it| it.name == name);
        assert!(is_there("quinn") && is_there("blake3"), "linked by other crates of ours");
        assert!(!is_there("proptest"), "what only tests link is not given away");
        let checksums = checksums().unwrap();
        for it in &dependencies {
            assert_eq!(checksums[&(it.name.clone(), it.version.clone())].len(), 64, "{}", it.name);
        }
        let without: Vec<&str> =
            dependencies.iter().filter(|it| it.texts.is_empty()).map(|it| it.name.as_str()).collect();
        assert!(without.len() * 10 < dependencies.len(), "{without:?}");
    }
}
