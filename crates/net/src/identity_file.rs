//! The file of an identity: lines of text, with base32 in lower case and without padding.
//!
//! ```text
//!  wayfs-identity-1               wayfs-identity-sealed-1
//!  KEY                            SEALED
//!  follows CHANGE                 follows CHANGE               at most 8 of these, the newest last
//! ```
//!
//! KEY holds the 32 bytes of the seed and the first 4 bytes of its BLAKE3 digest, by which a damaged file is told from a good one.
//! SEALED holds a salt of 16 bytes, and the seed sealed with a passphrase (`passphrase.rs`). CHANGE holds the 128 bytes of a
//! [`KeyChange`].

use crate::identity::{IdentityError, NodeIdentity, SEED_LEN, io_error};
use crate::key_change::{KEY_CHANGES_MAX, KeyChange};
use crate::passphrase::{Passphrase, SALT_LEN, TAG_LEN};
use data_encoding::BASE32_NOPAD;
use rand::TryRngCore as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

const CLEAR: &str = "wayfs-identity-1";
const SEALED: &str = "wayfs-identity-sealed-1";
const FOLLOWS: &str = "follows ";
const CHECK_LEN: usize = 4;
/// More than any identity file holds; a larger one is something else.
const FILE_LEN_MAX: u64 = 4096;

/// What a file holds.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) key: Key,
    pub(crate) changes: Vec<KeyChange>,
}

/// The private half.
#[derive(Debug)]
pub(crate) enum Key {
    Clear(Zeroizing<[u8; SEED_LEN]>),
    Sealed(SealedKey),
}

/// A seed that only its passphrase opens.
#[derive(Debug)]
pub(crate) struct SealedKey {
    salt: [u8; SALT_LEN],
    bytes: Vec<u8>,
}

impl SealedKey {
    pub(crate) fn open(&self, passphrase: &Passphrase) -> Option<Zeroizing<[u8; SEED_LEN]>> {
        let opened = passphrase.open(&self.salt, SEALED.as_bytes(), &self.bytes)?;
        Some(Zeroizing::new(opened.as_slice().try_into().ok()?))
    }
}

pub(crate) fn read(path: &Path) -> Result<Content, IdentityError> {
    let file = File::open(path).map_err(io_error("open", path))?;
    let mode = file.metadata().map_err(io_error("open", path))?.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(IdentityError::Exposed { path: path.to_owned(), mode });
    }
    let mut text = Zeroizing::new(String::new());
    let damaged = |why| IdentityError::Damaged { path: path.to_owned(), why };
    match file.take(FILE_LEN_MAX).read_to_string(&mut text) {
        Ok(_) => parse(&text).map_err(damaged),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(damaged("not text")),
        Err(error) => Err(io_error("read", path)(error)),
    }
}

pub(crate) fn parse(text: &str) -> Result<Content, &'static str> {
    let mut lines = text.lines();
    let parse_key = match lines.next() {
        Some(CLEAR) => clear_key,
        Some(SEALED) => sealed_key,
        None => return Err("it is empty"),
        Some(line) if line.starts_with("wayfs-identity-") => return Err("it was written by a newer version"),
        Some(_) => return Err("the first line is not that of an identity"),
    };
    let key = parse_key(&decode(lines.next().ok_or("the key is missing")?).ok_or("the key is not base32")?)?;
    let mut changes = Vec::new();
    for line in lines {
        let code = line.strip_prefix(FOLLOWS).ok_or("a line is none of an identity")?;
        let change = decode(code).and_then(|bytes| KeyChange::try_from(&bytes[..]).ok());
        changes.push(change.ok_or("a change of the key is not signed by the key of before")?);
    }
    if changes.len() > KEY_CHANGES_MAX {
        return Err("it holds too many changes of the key");
    }
    Ok(Content { key, changes })
}

fn clear_key(bytes: &[u8]) -> Result<Key, &'static str> {
    let (seed, sum) = bytes.split_at_checked(SEED_LEN).ok_or("the key has the wrong length")?;
    let seed = Zeroizing::new(<[u8; SEED_LEN]>::try_from(seed).expect("split there"));
    match sum.len() {
        CHECK_LEN if sum == check(&seed) => Ok(Key::Clear(seed)),
        CHECK_LEN => Err("the key does not match its check"),
        _ => Err("the key has the wrong length"),
    }
}

fn sealed_key(bytes: &[u8]) -> Result<Key, &'static str> {
    let (salt, sealed) = bytes.split_at_checked(SALT_LEN).ok_or("the key has the wrong length")?;
    if sealed.len() != SEED_LEN + TAG_LEN {
        return Err("the key has the wrong length");
    }
    let salt = salt.try_into().expect("split there");
    Ok(Key::Sealed(SealedKey { salt, bytes: sealed.to_vec() }))
}

/// Writes the file whole under another name first, and then gives it its name only if
/// the name is free: nobody ever sees half a file, and nobody's file is replaced.
pub(crate) fn store(path: &Path, identity: &NodeIdentity, passphrase: Option<&Passphrase>) -> io::Result<()> {
    let folder = folder_of(path);
    fs::create_dir_all(folder)?;
    let temporary = temporary_of(path)?;
    let result = write_new(&temporary, identity, passphrase)
        .and_then(|()| fs::hard_link(&temporary, path))
        .and_then(|()| File::open(folder)?.sync_all());
    // Left behind, it would be a second copy of a secret.
    let removed = fs::remove_file(&temporary);
    result.and(removed)
}

/// The same in place of the file that is there.
pub(crate) fn replace(path: &Path, identity: &NodeIdentity, passphrase: Option<&Passphrase>) -> io::Result<()> {
    let temporary = temporary_of(path)?;
    let replaced = write_new(&temporary, identity, passphrase).and_then(|()| fs::rename(&temporary, path));
    if replaced.is_err() {
        // It may not have been made.
        let _ = fs::remove_file(&temporary);
    }
    replaced.and_then(|()| File::open(folder_of(path))?.sync_all())
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn temporary_of(path: &Path) -> io::Result<PathBuf> {
    let nonce = rand::rngs::OsRng.try_next_u64().map_err(io::Error::other)?;
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".new-{nonce:016x}"));
    Ok(PathBuf::from(temporary))
}

fn write_new(path: &Path, identity: &NodeIdentity, passphrase: Option<&Passphrase>) -> io::Result<()> {
    let text = compose(identity, passphrase)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn compose(identity: &NodeIdentity, passphrase: Option<&Passphrase>) -> io::Result<Zeroizing<String>> {
    let seed = identity.seed();
    let (first, key) = match passphrase {
        None => (CLEAR, Zeroizing::new([&seed[..], &check(seed)].concat())),
        Some(passphrase) => {
            let mut salt = [0; SALT_LEN];
            rand::rngs::OsRng.try_fill_bytes(&mut salt).map_err(io::Error::other)?;
            let sealed = passphrase.seal(&salt, SEALED.as_bytes(), seed);
            (SEALED, Zeroizing::new([&salt[..], &sealed].concat()))
        }
    };
    let mut text = Zeroizing::new(String::with_capacity(usize::try_from(FILE_LEN_MAX).unwrap_or(0)));
    for part in [first, "\n", &encode(&key), "\n"] {
        text.push_str(part);
    }
    for change in identity.changes() {
        for part in [FOLLOWS, &encode(&change.to_bytes()), "\n"] {
            text.push_str(part);
        }
    }
    Ok(text)
}

fn encode(bytes: &[u8]) -> Zeroizing<String> {
    let mut code = Zeroizing::new(BASE32_NOPAD.encode(bytes));
    code.make_ascii_lowercase();
    code
}

fn decode(code: &str) -> Option<Zeroizing<Vec<u8>>> {
    let code = Zeroizing::new(code.trim().to_uppercase());
    BASE32_NOPAD.decode(code.as_bytes()).ok().map(Zeroizing::new)
}

fn check(seed: &[u8; SEED_LEN]) -> [u8; CHECK_LEN] {
    let digest = blake3::derive_key("wayfs identity file check 1", seed);
    [digest[0], digest[1], digest[2], digest[3]]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_an_identity_or_refused(text in "(wayfs-identity(-sealed)?-1\n)?[a-z2-7 \n]{0,300}") {
            let _ = parse(&text);
        }

        #[test]
        fn any_bytes_are_a_change_of_a_key_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(KeyChange::try_from(&bytes[..]).is_err(), "nobody signed that");
        }
    }

    #[test]
    fn a_line_that_was_altered_is_none_of_the_identity() {
        let identity = NodeIdentity::generate().unwrap().successor().unwrap();
        let text = compose(&identity, None).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(parse(&text).is_ok_and(|content| content.changes == identity.changes()));
        for other in ["", "follows ", "follows aaaa", "precedes aaaa", lines[0], lines[1]] {
            // A last line that is empty is none.
            for at in 0..=lines.len() - usize::from(other.is_empty()) {
                let mut altered = lines.clone();
                altered.insert(at, other);
                assert!(parse(&altered.join("\n")).is_err(), "{other:?} as line {at}");
            }
        }
        let many = [text.as_str(), &format!("{}\n", lines[2]).repeat(KEY_CHANGES_MAX)].concat();
        assert!(parse(&many).is_err(), "too many");
    }
}
