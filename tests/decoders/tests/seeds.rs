//! Whatever is made of a seed by small changes is read or refused: nobody panics.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

/// Texts made of each seed.
const CHANGED: u64 = 400;

/// A directory in memory: small files are written durably again and again.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (bound as u64).max(1)).unwrap()
    }
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let directory = std::fs::read_dir(fuzz().join("seeds").join(target)).unwrap();
    let mut paths: Vec<PathBuf> = directory.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{target} has seeds");
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Words of a dictionary, as `libfuzzer` has them: a quoted string on a line.
fn words(target: &str) -> Vec<Vec<u8>> {
    let text = std::fs::read_to_string(fuzz().join("dictionaries").join(format!("{target}.dict"))).unwrap_or_default();
    let word = |line: &str| Some(line.strip_prefix('"')?.strip_suffix('"')?.replace("\\\"", "\"").into_bytes());
    text.lines().filter_map(word).collect()
}

fn change(bytes: &mut Vec<u8>, others: &[Vec<u8>], words: &[Vec<u8>], dice: &mut Dice) {
    let at = dice.below(bytes.len() + 1);
    match dice.below(6) {
        0 => bytes.truncate(at),
        1 if at < bytes.len() => bytes[at] = u8::try_from(dice.below(256)).unwrap(),
        2 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
        3 if !words.is_empty() => drop(bytes.splice(at..at, words[dice.below(words.len())].clone())),
        4 => {
            let other = &others[dice.below(others.len())];
            let from = dice.below(other.len() + 1);
            bytes.truncate(at);
            bytes.extend(&other[from..]);
        }
        _ => {
            let until = at + dice.below(bytes.len() - at + 1);
            let part = bytes[at..until].to_vec();
            bytes.splice(at..at, part);
        }
    }
}

fn each(target: &str, mut read: impl FnMut(&[u8])) {
    let (seeds, words) = (seeds(target), words(target));
    for (number, seed) in (1..).zip(&seeds) {
        read(seed);
        let mut dice = Dice(number);
        for _ in 0..CHANGED {
            let mut bytes = seed.clone();
            for _ in 0..=dice.below(4) {
                change(&mut bytes, &seeds, &words, &mut dice);
            }
            read(&bytes);
        }
    }
}

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

#[test]
fn small_files_are_read_or_refused() {
    let scratch = scratch();
    let signers = wayfs_node::fuzzing::Signers::draw();
    each("data_files", |bytes| {
        wayfs_client::fuzzing::read_files(scratch.path(), bytes);
        wayfs_control::fuzzing::read(bytes);
        wayfs_node::fuzzing::read_files(scratch.path(), bytes, &signers);
        wayfs_server::fuzzing::read_files(scratch.path(), bytes);
        wayfs_store::file_fuzzing::read_files(scratch.path(), bytes);
        wayfs_net::fuzzing::read_identity(&text(bytes));
    });
}

#[test]
fn archives_are_read_or_refused() {
    each("tar_archive", wayfs_server::fuzzing::archive);
}

#[test]
fn configurations_and_options_are_read_or_refused() {
    each("configuration", |bytes| wayfs_cli::fuzzing::configuration(&text(bytes)));
    each("mount_options", |bytes| wayfs_cli::fuzzing::mount_options(&text(bytes)));
}

#[test]
fn no_ticket_is_left_in_a_log() {
    each("log_redaction", |bytes| wayfs_cli::fuzzing::log(&text(bytes)));
}

#[test]
fn tables_of_the_kernel_are_read_or_left_out() {
    each("proc_tables", |bytes| {
        wayfs_fuse::fuzzing::read_mount_table(bytes);
        let text = text(bytes);
        wayfs_cli::fuzzing::mount_table(&text);
        wayfs_client::fuzzing::read_watch(&text);
        wayfs_nfsmount::read_process_tables(&text);
        wayfs_server::fuzzing::addresses(&text);
    });
}

#[test]
fn traces_networks_and_lines_are_read_or_refused() {
    each("lab_texts", |bytes| wayfs_lab::fuzzing::read(&text(bytes)));
}
