//! Every paragraph of SEMANTICS.md that promises something is quoted by a test that proves it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The project's root.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("two levels below the root")
}

/// Ids such as `[S-fsync]` in a text.
fn ids(text: &str) -> BTreeSet<String> {
    let id = |part: &str| part.split_once(']').map(|(id, _)| id.to_owned());
    let is_word = |id: &String| id.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    text.split("[S-").skip(1).filter_map(id).filter(is_word).collect()
}

fn sources(directory: &Path, found: &mut String) {
    for entry in fs::read_dir(directory).expect("read a source directory").flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") && path != Path::new(file!()) {
            let text = fs::read_to_string(&path).expect("read a source file");
            // Only what stands above a test counts.
            for (before, _) in text.match_indices("#[test]").map(|(at, _)| text.split_at(at)) {
                found.push_str(
                    before
                        .trim_end()
                        .lines()
                        .rev()
                        .take_while(|line| line.trim().starts_with("///"))
                        .collect::<Vec<_>>()
                        .join(" ")
                        .as_str(),
                );
            }
        }
    }
}

#[test]
fn each_promise_is_quoted_above_a_test() {
    let promised = ids(&fs::read_to_string(root().join("SEMANTICS.md")).expect("SEMANTICS.md is there"));
    assert!(promised.len() > 15, "{promised:?}");
    let mut text = String::new();
    sources(&root().join("crates"), &mut text);
    sources(&root().join("tests"), &mut text);
    let proved = ids(&text);
    let missing: Vec<&String> = promised.difference(&proved).collect();
    assert!(missing.is_empty(), "no test quotes {missing:?}");
    let unknown: Vec<&String> = proved.difference(&promised).collect();
    assert!(unknown.is_empty(), "SEMANTICS.md does not know {unknown:?}");
}

/// So nothing is promised, or excepted, that no test has to prove.
#[test]
fn each_paragraph_has_an_id() {
    let text = fs::read_to_string(root().join("SEMANTICS.md")).expect("SEMANTICS.md is there");
    let lacking: Vec<&str> =
        text.lines().filter(|line| line.starts_with("* ") && !line.starts_with("* **[S-")).collect();
    assert!(lacking.is_empty(), "{lacking:?}");
}

/// Whether a test of that name is in some source file below a directory.
fn has_test(directory: &Path, name: &str) -> bool {
    fs::read_dir(directory).expect("read a source directory").flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return path.file_name().is_some_and(|name| name != "target") && has_test(&path, name);
        }
        let is_source = path.extension().is_some_and(|kind| kind == "rs");
        is_source && fs::read_to_string(&path).is_ok_and(|text| text.contains(&format!("fn {name}(")))
    })
}

#[test]
fn each_test_that_is_named_is_there() {
    let text: String = ["SEMANTICS.md", "docs/attacks.md"]
        .map(|name| fs::read_to_string(root().join(name)).expect("the document is there"))
        .concat();
    let is_test = |word: &&str| {
        word.matches('_').count() > 3 && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    let named: BTreeSet<&str> = text.split('`').filter(is_test).collect();
    assert!(named.len() > 10, "the table of losses names its tests: {named:?}");
    let is_there = |name: &&str| ["crates", "tests"].iter().any(|part| has_test(&root().join(part), name));
    let missing: Vec<&&str> = named.iter().filter(|name| !is_there(name)).collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
}

/// The tests that `docs/faults.md` names are there.
#[test]
fn every_test_that_holds_a_fault_is_there() {
    let text = fs::read_to_string(root().join("docs/faults.md")).expect("read docs/faults.md");
    let named: BTreeSet<&str> =
        text.split('`').skip(1).step_by(2).filter(|word| word.matches('_').count() > 2).collect();
    assert!(named.len() > 40, "{named:?}");
    let mut tests = String::new();
    for directory in ["crates", "tests"] {
        collect(&root().join(directory), &mut tests);
    }
    let lacking: Vec<&&str> = named.iter().filter(|name| !tests.contains(&format!("fn {name}()"))).collect();
    assert!(lacking.is_empty(), "{lacking:?}");
}

/// A row of `docs/limits.md`: the file, the constant in it, and its value as the source writes it.
fn limit(row: &str) -> Option<(&str, &str, &str)> {
    let words: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
    match words[..] {
        [.., value, file, name] if file.ends_with(".rs") => Some((file, name, value)),
        _ => None,
    }
}

/// What `docs/limits.md` says of a bound is what the code has.
#[test]
fn every_limit_is_the_one_in_the_code() {
    let text = fs::read_to_string(root().join("docs/limits.md")).expect("read docs/limits.md");
    let limits: Vec<(&str, &str, &str)> = text.lines().filter_map(limit).collect();
    assert!(limits.len() > 40, "{limits:?}");
    let is_so = |(file, name, value): &&(&str, &str, &str)| {
        let source = fs::read_to_string(root().join(file)).unwrap_or_default();
        let declared = source.lines().filter_map(|line| line.split_once(&format!("const {name}: ")));
        declared.into_iter().any(|(_, rest)| {
            rest.split_once(" = ").is_some_and(|(_, is)| is == format!("{value};") || is == format!("Self({value});"))
        })
    };
    let wrong: Vec<_> = limits.iter().filter(|limit| !is_so(limit)).collect();
    assert!(wrong.is_empty(), "docs/limits.md says what the code does not: {wrong:?}");
}

/// All Rust below a directory.
fn collect(directory: &Path, found: &mut String) {
    for entry in fs::read_dir(directory).expect("read a source directory").flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            collect(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push_str(&fs::read_to_string(&path).expect("read a source file"));
        }
    }
}
