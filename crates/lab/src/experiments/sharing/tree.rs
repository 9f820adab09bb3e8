//! The source tree that is shared, and what is done to it: the sizes are those of the published benchmark.
//!
//! 333 files of 1.91 MB in all. Of these 13, of 246 KB in all, are changed, and 4 of 7 KB are new. The lines are made of
//! few words, as programs are, so that contents compress as source does. Everything comes from one seed.

use crate::LabError;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::path::{Path, PathBuf};

/// Files at the start.
const FILES: usize = 333;
/// Their bytes.
const LEN: usize = 1_910_000;
/// Files that are changed.
const CHANGED: usize = 13;
/// Their bytes.
const CHANGED_LEN: usize = 246_000;
/// New files.
const NEW: usize = 4;
/// Their bytes.
const NEW_LEN: usize = 7_000;
/// Directories that they lie in.
const DIRECTORIES: usize = 24;
/// One line in so many of a changed file is another one afterwards.
const LINES_PER_EDIT: usize = 20;

const WORDS: [&str; 32] = [
    "int", "static", "return", "if", "else", "for", "struct", "replica", "log", "record", "volume", "client", "server",
    "size", "count", "error", "offset", "buffer", "(", ")", "{", "}", ";", "=", "==", "->", "&&", "0", "1", "NULL",
    "lock", "void",
];

/// A file of the tree, relative to its top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceFile {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
}

/// The tree as it is at the start.
pub(super) fn tree(seed: u64) -> Vec<SourceFile> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let changed = shares(&mut random, Files { count: CHANGED, len: CHANGED_LEN });
    let others = shares(&mut random, Files { count: FILES - CHANGED, len: LEN - CHANGED_LEN });
    // Those to be changed lie here and there.
    let mut lens = others;
    for (number, len) in changed.into_iter().enumerate() {
        lens.insert(place_of_changed(number), len);
    }
    let file = |(number, len)| SourceFile { path: path(number), bytes: text(&mut random, len) };
    lens.into_iter().enumerate().map(file).collect()
}

/// What the first user does: the files that are changed as they are afterwards, and the new ones.
#[derive(Debug)]
pub(super) struct Edit {
    pub(super) changed: Vec<SourceFile>,
    pub(super) new: Vec<SourceFile>,
}

/// The edit of a tree.
pub(super) fn edit(tree: &[SourceFile], seed: u64) -> Edit {
    let mut random = ChaCha8Rng::seed_from_u64(seed.wrapping_add(1));
    let changed = (0..CHANGED).map(|number| {
        let old = &tree[place_of_changed(number)];
        SourceFile { path: old.path.clone(), bytes: edited(&mut random, &old.bytes) }
    });
    let changed = changed.collect();
    let lens = shares(&mut random, Files { count: NEW, len: NEW_LEN });
    let new = lens.into_iter().enumerate().map(|(number, len)| {
        let directory = directory(number * 5);
        SourceFile { path: directory.join(format!("new_{number}.c")), bytes: text(&mut random, len) }
    });
    Edit { changed, new: new.collect() }
}

/// Writes files below a directory.
pub(super) fn write(top: &Path, files: &[SourceFile]) -> Result<(), LabError> {
    for file in files {
        let path = top.join(&file.path);
        let doing = || format!("write {}", path.display());
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(LabError::io(doing()))?;
        }
        std::fs::write(&path, &file.bytes).map_err(LabError::io(doing()))?;
    }
    Ok(())
}

/// Files that are not as they should be below a directory; what else is there does not matter.
pub(super) fn differences(top: &Path, files: &[SourceFile]) -> Vec<PathBuf> {
    let differs = |file: &&SourceFile| std::fs::read(top.join(&file.path)).ok().as_ref() != Some(&file.bytes);
    files.iter().filter(differs).map(|file| file.path.clone()).collect()
}

const fn place_of_changed(number: usize) -> usize {
    number * (FILES / CHANGED)
}

fn path(number: usize) -> PathBuf {
    directory(number).join(format!("file_{number:03}.c"))
}

fn directory(number: usize) -> PathBuf {
    PathBuf::from(format!("part_{:02}", number % DIRECTORIES))
}

/// Files, and the bytes of all of them.
#[derive(Debug, Clone, Copy)]
struct Files {
    count: usize,
    len: usize,
}

/// Sizes that differ by a factor of up to eight and come to a sum.
fn shares(random: &mut ChaCha8Rng, Files { count, len: sum }: Files) -> Vec<usize> {
    let weights: Vec<usize> = (0..count).map(|_| 1 + random.next_u32() as usize % 8).collect();
    let total: usize = weights.iter().sum();
    let mut lens: Vec<usize> = weights.iter().map(|weight| sum * weight / total).collect();
    let rest = sum - lens.iter().sum::<usize>();
    lens[0] += rest;
    lens
}

/// Exactly so many bytes of lines.
fn text(random: &mut ChaCha8Rng, len: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(len + 80);
    while text.len() < len {
        text.extend(line(random));
    }
    text.truncate(len.saturating_sub(1));
    text.push(b'\n');
    text
}

fn line(random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut line = vec![b' '; 4 * (random.next_u32() as usize % 4)];
    for _ in 0..2 + random.next_u32() % 8 {
        line.extend(WORDS[random.next_u32() as usize % WORDS.len()].bytes());
        line.push(b' ');
    }
    line.push(b'\n');
    line
}

fn edited(random: &mut ChaCha8Rng, old: &[u8]) -> Vec<u8> {
    let mut new = Vec::with_capacity(old.len());
    for (number, old) in old.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if number % LINES_PER_EDIT == 0 { new.extend(line(random)) } else { new.extend(old) }
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn len(files: &[SourceFile]) -> usize {
        files.iter().map(|file| file.bytes.len()).sum()
    }

    #[test]
    fn the_tree_is_that_of_the_benchmark_and_always_the_same() {
        let tree = tree(1);
        assert_eq!((tree.len(), len(&tree)), (FILES, LEN));
        assert_eq!(tree.iter().map(|file| &file.path).collect::<BTreeSet<_>>().len(), FILES);
        assert_eq!(tree, super::tree(1));
        assert_ne!(tree, super::tree(2));
    }

    #[test]
    fn the_edit_is_that_of_the_benchmark() {
        let tree = tree(1);
        let edit = edit(&tree, 1);
        assert_eq!((edit.new.len(), len(&edit.new)), (NEW, NEW_LEN));
        let old: Vec<SourceFile> = (0..CHANGED).map(|number| tree[place_of_changed(number)].clone()).collect();
        assert_eq!((edit.changed.len(), len(&old)), (CHANGED, CHANGED_LEN));
        assert!(edit.changed.iter().zip(&old).all(|(new, old)| new.path == old.path && new.bytes != old.bytes));
        assert!(edit.new.iter().all(|new| tree.iter().all(|old| old.path != new.path)));
    }

    #[test]
    fn a_tree_that_was_written_has_no_differences_until_it_is_edited() {
        let place = tempfile::tempdir().unwrap();
        let tree = tree(1);
        write(place.path(), &tree).unwrap();
        assert!(differences(place.path(), &tree).is_empty());
        let edit = edit(&tree, 1);
        assert_eq!(differences(place.path(), &edit.changed).len(), CHANGED);
        write(place.path(), &edit.changed).unwrap();
        assert!(differences(place.path(), &edit.changed).is_empty());
    }
}
