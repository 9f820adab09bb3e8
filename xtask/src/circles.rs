//! Circles: files of a crate that import each other in a loop. Nobody understands one of them without all.
//!
//! Each crate has a bound, the largest circle it has: it goes down with the code and never up.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Files of the largest circle of a crate. None may be in one of more than two elsewhere.
const BOUNDS: &[(&str, usize)] = &[("cli", 3), ("fuse", 3), ("lab", 3)];
/// A file and what is split from it.
const BOUND: usize = 2;

/// A module by its path inside the crate.
type Module = Vec<String>;
/// What each module imports.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// What is wrong with the crates in a folder, one sentence each.
pub(crate) fn problems(crates: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut names: Vec<PathBuf> = std::fs::read_dir(crates)?.flatten().map(|entry| entry.path()).collect();
    names.sort();
    for path in names.iter().filter(|path| path.join("src").is_dir()) {
        let name = path.file_name().and_then(|name| name.to_str()).context("a crate's name")?;
        let largest = largest(&imports(&path.join("src"))?);
        let bound = BOUNDS.iter().find(|(of, _)| *of == name).map_or(BOUND, |(_, bound)| *bound);
        let files = || largest.iter().map(|module| module.join("::")).collect::<Vec<_>>().join(", ");
        if largest.len() > bound {
            problems.push(format!("{name}: {} files import each other, {bound} may: {}", largest.len(), files()));
        } else if largest.len() < bound && bound > BOUND {
            problems
                .push(format!("{name}: the largest circle has {} files: lower its bound of {bound}", largest.len()));
        }
    }
    Ok(problems)
}

/// What the files of a crate import, those of tests left out.
fn imports(sources: &Path) -> Result<Imports> {
    let mut texts = BTreeMap::new();
    for file in crate::check_imports::sources(sources)? {
        let inside = file.strip_prefix(sources)?.with_extension("");
        let mut module: Module = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if module.iter().any(|part| part.contains("test") || part.contains("fuzzing")) {
            continue;
        }
        if module.last().is_some_and(|last| last == "mod") || module == ["lib"] || module == ["main"] {
            module.pop();
        }
        texts.insert(module, std::fs::read_to_string(&file)?);
    }
    let of = |module: &Module, text: &str| {
        let named = named(module, text).into_iter().filter_map(|path| existing(path, |it| texts.contains_key(it)));
        named.filter(|import| import != module).collect()
    };
    Ok(texts.iter().map(|(module, text)| (module.clone(), of(module, text))).collect())
}

/// The module that a path leads into; not the crate's root, whose modules are below it.
fn existing(mut path: Module, is_module: impl Fn(&Module) -> bool) -> Option<Module> {
    while !path.is_empty() && !is_module(&path) {
        path.pop();
    }
    (!path.is_empty()).then_some(path)
}

/// Paths inside the crate that a module's code names.
fn named(module: &Module, text: &str) -> Vec<Module> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    let code = lines.collect::<Vec<_>>().join(" ");
    let mut paths = Vec::new();
    for statement in code.split(';') {
        for (at, _) in ["crate::", "super::"].iter().flat_map(|word| statement.match_indices(word)) {
            let before = &statement[..at];
            let is_begin = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            // What is handed on is not used here.
            let is_handed_on = before.trim_end().ends_with("pub use");
            if is_begin && !is_handed_on {
                expand(&mut paths, &mut Vec::new(), &statement[at..]);
            }
        }
    }
    paths.iter().map(|path| absolute(module, path)).collect()
}

/// All paths of `a::{b, c::d}`; what follows is left.
fn expand(paths: &mut Vec<Module>, prefix: &mut Module, text: &str) {
    let depth = prefix.len();
    let mut rest = text;
    loop {
        let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if len > 0 {
            prefix.push(rest[..len].to_owned());
        }
        rest = &rest[len..];
        match rest.strip_prefix("::") {
            Some(after) => rest = after,
            None => break,
        }
    }
    match rest.strip_prefix('{').and_then(|inner| inner.rfind('}').map(|end| &inner[..end])) {
        Some(inner) => parts(inner).into_iter().for_each(|part| expand(paths, prefix, part.trim())),
        None => paths.push(prefix.clone()),
    }
    prefix.truncate(depth);
}

/// What stands between the commas that are in no braces.
fn parts(text: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut parts) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts
}

/// A path from the crate's root on.
fn absolute(module: &Module, path: &Module) -> Module {
    let up = path.iter().take_while(|part| *part == "super").count();
    let base = if up == 0 { 0 } else { module.len().saturating_sub(up) };
    let rest = path.iter().skip(if up == 0 { 1 } else { up });
    module[..base].iter().chain(rest).cloned().collect()
}

/// The largest set of modules each of which imports, by others, each other one.
fn largest(imports: &Imports) -> Vec<Module> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        imports.keys().map(|module| (module, reached(imports, module))).collect();
    let circle = |module: &&Module| {
        let back = |other: &&&Module| reached[**other].contains(*module);
        reached[module].iter().filter(back).map(|other| (*other).clone()).collect::<Vec<_>>()
    };
    imports.keys().map(|module| circle(&module)).max_by_key(Vec::len).unwrap_or_default()
}

/// What a module imports, and what that does.
fn reached<'a>(imports: &'a Imports, from: &Module) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&Module> = imports[from].iter().collect();
    while let Some(module) = left.pop() {
        if reached.insert(module) {
            left.extend(imports.get(module).into_iter().flatten());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(path: &str) -> Module {
        path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn paths_are_read_through_braces_and_from_above() {
        let text = "use crate::a::{b, c::{D, self}};\nuse super::e::F;\n// crate::no\nfn f() -> crate::g::H { my_crate::x() }\npub use crate::not::Used;";
        let found = named(&module("m::n"), text);
        let expected = ["a::b", "a::c::D", "a::c::self", "g::H", "m::e::F"].map(module);
        assert_eq!(BTreeSet::from_iter(found), BTreeSet::from(expected));
    }

    #[test]
    fn a_circle_is_found_and_who_only_looks_at_it_is_not_in_it() {
        let imports = |of: &[(&str, &[&str])]| -> Imports {
            of.iter().map(|(from, to)| (module(from), to.iter().map(|to| module(to)).collect())).collect()
        };
        let circle = imports(&[("a", &["b"]), ("b", &["c"]), ("c", &["a", "d"]), ("d", &[]), ("e", &["a"])]);
        assert_eq!(largest(&circle), ["a", "b", "c"].map(module));
        assert_eq!(largest(&imports(&[("a", &["b"]), ("b", &[])])), Vec::<Module>::new());
    }
}
