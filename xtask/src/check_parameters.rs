//! `check-parameters`: functions take nothing that can be mixed up at the call: no `bool`s, no two bare numbers of one type.
//!
//! Both are counted for each crate's product code and compared with a bound, which only goes down: a crate with fewer fails, too, until its
//! bound is lowered. What a trait dictates is counted where the trait is declared, and not again where it is implemented; that of
//! another's trait is not counted at all. Closures and tests are left out.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use syn::{Attribute, FnArg, ImplItem, Item, ItemMod, Meta, Signature, Stmt, TraitItem, Type};

/// Crates, by their folders, that have more than none. What stays for good: conditions that a function only turns into an error
/// (`wire`), calls of the kernel (`fuse`), arithmetic (`hop`), tables as they were published (`lab`), and numbers of a protocol (`nfs`).
const BOUNDS: &[(&str, Bound)] = &[
    ("fuse", Bound { flags: 0, pairs: 2 }),
    ("hop", Bound { flags: 0, pairs: 3 }),
    ("lab", Bound { flags: 0, pairs: 1 }),
    ("nfs", Bound { flags: 0, pairs: 2 }),
    ("sim", Bound { flags: 4, pairs: 0 }),
    ("wire", Bound { flags: 1, pairs: 0 }),
];

/// What counts as a bare number.
const NUMBERS: &[&str] = &[
    "u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f32", "f64", "Duration",
    "Time",
];

/// How many functions of a crate may take what they should not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Bound {
    /// A `bool`.
    flags: usize,
    /// Two numbers of one type.
    pairs: usize,
}

/// Functions of a crate that take what they should not, by file and name.
#[derive(Debug, Default)]
struct Found {
    flags: Vec<String>,
    pairs: Vec<String>,
}

/// Checks every crate of the workspace.
pub(crate) fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("find the workspace")?;
    let mut problems = Vec::new();
    let mut sum = Bound::default();
    for folder in crates(&root.join("crates"))? {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let found = Found::in_crate(&folder)?;
        (sum.flags, sum.pairs) = (sum.flags + found.flags.len(), sum.pairs + found.pairs.len());
        let bound = BOUNDS.iter().find(|(of, _)| *of == name).map(|(_, bound)| *bound).unwrap_or_default();
        problems.extend(found.problems(&name, bound));
    }
    for problem in &problems {
        eprintln!("{problem}");
    }
    if !problems.is_empty() {
        bail!("parameters can be mixed up: name them, or lower a bound in xtask/src/check_parameters.rs");
    }
    println!("{} functions take a bool, {} two numbers of one type", sum.flags, sum.pairs);
    Ok(())
}

fn crates(folder: &Path) -> Result<Vec<PathBuf>> {
    let listing = std::fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    let mut crates: Vec<PathBuf> =
        listing.flatten().map(|entry| entry.path()).filter(|path| path.join("src").is_dir()).collect();
    crates.sort();
    Ok(crates)
}

impl Found {
    fn in_crate(folder: &Path) -> Result<Self> {
        let source = folder.join("src");
        let mut found = Self::default();
        for root in ["lib.rs", "main.rs"].map(|name| source.join(name)) {
            if root.is_file() {
                found.file(&root, &source)?;
            }
        }
        Ok(found)
    }

    /// Reads a module; its submodules are in `folder`.
    fn file(&mut self, file: &Path, folder: &Path) -> Result<()> {
        let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        let parsed = syn::parse_file(&text).with_context(|| format!("parse {}", file.display()))?;
        self.items(&parsed.items, file, folder)
    }

    fn items(&mut self, items: &[Item], file: &Path, folder: &Path) -> Result<()> {
        for item in items {
            self.item(item, file, folder)?;
        }
        Ok(())
    }

    fn item(&mut self, item: &Item, file: &Path, folder: &Path) -> Result<()> {
        match item {
            Item::Fn(function) if !is_of_tests(&function.attrs) => {
                self.signature(&function.sig, file);
                for statement in &function.block.stmts {
                    if let Stmt::Item(inner) = statement {
                        self.item(inner, file, folder)?;
                    }
                }
            }
            Item::Impl(block) if block.trait_.is_none() && !is_of_tests(&block.attrs) => {
                for inner in &block.items {
                    if let ImplItem::Fn(method) = inner
                        && !is_of_tests(&method.attrs)
                    {
                        self.signature(&method.sig, file);
                    }
                }
            }
            Item::Trait(declared) => {
                for inner in &declared.items {
                    if let TraitItem::Fn(method) = inner {
                        self.signature(&method.sig, file);
                    }
                }
            }
            Item::Mod(module) if !is_of_tests(&module.attrs) => self.module(module, file, folder)?,
            _ => {}
        }
        Ok(())
    }

    fn module(&mut self, module: &ItemMod, file: &Path, folder: &Path) -> Result<()> {
        let inside = folder.join(module.ident.to_string());
        if let Some((_, items)) = &module.content {
            return self.items(items, file, &inside);
        }
        let beside = inside.with_extension("rs");
        let path = if beside.is_file() { beside } else { inside.join("mod.rs") };
        self.file(&path, &inside)
    }

    fn signature(&mut self, signature: &Signature, file: &Path) {
        let types: Vec<&Type> = signature
            .inputs
            .iter()
            .filter_map(|input| match input {
                FnArg::Typed(typed) => Some(&*typed.ty),
                FnArg::Receiver(_) => None,
            })
            .collect();
        let place = || format!("{}: {}", file.display(), signature.ident);
        if types.iter().any(|taken| is_flag(taken)) {
            self.flags.push(place());
        }
        let mut numbers: Vec<String> = types.iter().filter_map(|taken| number(taken)).collect();
        numbers.sort();
        if numbers.windows(2).any(|two| two[0] == two[1]) {
            self.pairs.push(place());
        }
    }

    /// What differs from a bound, a sentence for each.
    fn problems(&self, name: &str, bound: Bound) -> Vec<String> {
        let flags = compare(&self.flags, bound.flags, &format!("{name}: functions that take a bool"));
        let pairs = compare(&self.pairs, bound.pairs, &format!("{name}: functions that take two numbers of one type"));
        flags.into_iter().chain(pairs).collect()
    }
}

fn compare(found: &[String], bound: usize, what: &str) -> Option<String> {
    match found.len() {
        count if count > bound => {
            Some(format!("{what}: {count}, and {bound} were there before:\n  {}", found.join("\n  ")))
        }
        count if count < bound => Some(format!("{what}: {count}, so lower the bound of {bound}")),
        _ => None,
    }
}

/// Whether something is compiled for tests only.
fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) => {
            let names_test = |text: &str| text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "test");
            list.path.is_ident("cfg") && names_test(&list.tokens.to_string())
        }
        Meta::NameValue(_) => false,
    })
}

/// Whether it is a `bool`, perhaps one, or a tuple with one in it. One that the function sets is none.
fn is_flag(taken: &Type) -> bool {
    match taken {
        Type::Tuple(tuple) => tuple.elems.iter().any(is_flag),
        Type::Reference(reference) => reference.mutability.is_none() && is_flag(&reference.elem),
        _ => last_name(taken).is_some_and(|name| name == "bool") || is_option_of_flag(taken),
    }
}

fn is_option_of_flag(taken: &Type) -> bool {
    let Type::Path(path) = taken else { return false };
    let Some(last) = path.path.segments.last().filter(|last| last.ident == "Option") else { return false };
    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else { return false };
    arguments.args.iter().any(|argument| matches!(argument, syn::GenericArgument::Type(inner) if is_flag(inner)))
}

/// The name of a bare number's type.
fn number(taken: &Type) -> Option<String> {
    match taken {
        Type::Reference(reference) if reference.mutability.is_none() => number(&reference.elem),
        _ => last_name(taken).filter(|name| NUMBERS.contains(&name.as_str())),
    }
}

fn last_name(taken: &Type) -> Option<String> {
    let Type::Path(path) = taken else { return None };
    path.path.segments.last().map(|last| last.ident.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Found {
        let mut found = Found::default();
        let parsed = syn::parse_file(text).unwrap();
        found.items(&parsed.items, Path::new("x.rs"), Path::new("x")).unwrap();
        found
    }

    #[test]
    fn flags_are_found_in_functions_methods_and_traits() {
        let text = "
            fn plain(is_on: bool) { fn inner((a, b): (u8, bool)) {} }
            impl Thing { fn method(&self, wanted: Option<bool>, at: &bool) {} }
            trait Hook { fn declared(&self, is_last: bool); }
            mod below { fn deep(x: &bool) {} }";
        assert_eq!(
            found(text).flags,
            ["plain", "inner", "method", "declared", "deep"].map(|name| format!("x.rs: {name}"))
        );
    }

    #[test]
    fn what_is_dictated_set_or_for_tests_is_no_flag() {
        let text = "
            impl Hook for Thing { fn declared(&self, is_last: bool) {} }
            fn sets(done: &mut bool) -> bool { let inner = |is_on: bool| is_on; inner(*done) }
            fn asks(is_on: impl Fn(u8) -> bool) {}
            #[cfg(test)] mod tests { fn helper(is_on: bool) {} }
            #[cfg(any(test, feature = \"testing\"))] fn made(is_on: bool) {}
            #[test] fn proves() { fn helper(is_on: bool) {} }";
        assert_eq!(found(text).flags, [""; 0]);
    }

    #[test]
    fn two_numbers_of_one_type_are_a_pair_and_those_of_two_types_are_none() {
        let text = "
            fn swapped(from: u64, at: usize, to: u64) {}
            fn spans(least: std::time::Duration, most: &Duration) {}
            fn fine(from: u64, to: u32, ids: Vec<u64>, range: Range<u64>) {}
            fn sets(from: u64, to: &mut u64) {}";
        assert_eq!(found(text).pairs, ["x.rs: swapped", "x.rs: spans"]);
    }

    #[test]
    fn a_bound_holds_both_ways() {
        let found = found("fn one(a: bool) {} fn two(a: u8, b: u8) {}");
        let is_problem = |flags, pairs| found.problems("x", Bound { flags, pairs }).len();
        assert_eq!((is_problem(1, 1), is_problem(0, 1), is_problem(1, 2), is_problem(0, 0)), (0, 1, 1, 2));
    }

    #[test]
    fn this_workspace_keeps_to_its_bounds() {
        main().unwrap();
    }
}
