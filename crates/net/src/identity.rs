//! A machine's identity: an ed25519 key pair, kept in a file that only its owner can read.
//!
//! The file is two lines of text: `wayfs-identity-1`, and 58 letters and digits (base32,
//! lower case, no padding) that hold the 32 bytes of the seed and the first 4 bytes of its
//! BLAKE3 digest, by which a damaged file is told from a good one.

use data_encoding::BASE32_NOPAD;
use rand::TryRngCore;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wayfs_types::NodeId;
use zeroize::{Zeroize, Zeroizing};

const FILE_FIRST_LINE: &str = "wayfs-identity-1";
const SEED_LEN: usize = 32;
const CHECK_LEN: usize = 4;
/// More than any identity file holds; a larger one is something else.
const FILE_LEN_MAX: u64 = 4096;

/// A machine's key pair. The public half is its [`NodeId`]; the private half never leaves
/// this value, is wiped with it, and is not shown by `Debug`.
#[derive(Clone)]
pub struct NodeIdentity {
    seed: Arc<Zeroizing<[u8; SEED_LEN]>>,
    pair: Arc<Ed25519KeyPair>,
    id: NodeId,
}

/// Why there is no identity. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file cannot be read or written.
    #[error("{what} identity file {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Others than the owner may read or change the file, so the key may be known to them.
    #[error("identity file {} can be read by others (mode {mode:04o}): run `chmod 600` on it, or remove it to get a new identity if others may have read it", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file is not a whole identity.
    #[error("identity file {} is damaged ({why}): restore it from a backup, or remove it to get a new identity", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The system gave no random numbers.
    #[error("the system gives no random numbers")]
    NoRandomness,
}

impl NodeIdentity {
    /// A new identity from the system's random numbers.
    ///
    /// # Errors
    /// [`IdentityError::NoRandomness`].
    pub fn generate() -> Result<Self, IdentityError> {
        let mut seed = Zeroizing::new([0; SEED_LEN]);
        rand::rngs::OsRng.try_fill_bytes(seed.as_mut()).map_err(|_| IdentityError::NoRandomness)?;
        Ok(Self::from_seed(seed))
    }

    /// The identity in the file at `path`; if there is no file, a new one, stored there with
    /// mode 0600. Two processes that do this at once get the same identity.
    ///
    /// # Errors
    /// [`IdentityError::Exposed`] if others can read the file, [`IdentityError::Damaged`] if
    /// it is not whole, [`IdentityError::Io`] if the system refuses.
    pub fn load_or_create(path: &Path) -> Result<Self, IdentityError> {
        match Self::load(path) {
            Err(IdentityError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            loaded => return loaded,
        }
        let fresh = Self::generate()?;
        match fresh.store(path) {
            Ok(()) => Ok(fresh),
            Err(source) if source.kind() == io::ErrorKind::AlreadyExists => Self::load(path),
            Err(source) => Err(io_error("create", path)(source)),
        }
    }

    /// The identity in the file at `path`.
    ///
    /// # Errors
    /// As [`NodeIdentity::load_or_create`]; a missing file is [`IdentityError::Io`].
    pub fn load(path: &Path) -> Result<Self, IdentityError> {
        let file = File::open(path).map_err(io_error("open", path))?;
        let mode = file.metadata().map_err(io_error("open", path))?.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(IdentityError::Exposed { path: path.to_owned(), mode });
        }
        let mut text = Zeroizing::new(String::new());
        let damaged = |why| IdentityError::Damaged { path: path.to_owned(), why };
        match file.take(FILE_LEN_MAX).read_to_string(&mut text) {
            Ok(_) => parse(&text).map(Self::from_seed).map_err(damaged),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(damaged("not text")),
            Err(error) => Err(io_error("read", path)(error)),
        }
    }

    /// The public half: who this machine is to others.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Signs a message. Whoever signs more than one kind of message must make the kinds
    /// differ in their first bytes.
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        let mut signature = [0; 64];
        signature.copy_from_slice(self.pair.sign(message).as_ref());
        signature
    }

    pub(crate) fn pair(&self) -> &Arc<Ed25519KeyPair> {
        &self.pair
    }

    fn from_seed(seed: Zeroizing<[u8; SEED_LEN]>) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.as_ref()).expect("any 32 bytes are a seed of ed25519");
        let mut id = [0; 32];
        id.copy_from_slice(pair.public_key().as_ref());
        Self { seed: Arc::new(seed), pair: Arc::new(pair), id: NodeId::from_bytes(id) }
    }

    /// Writes the file whole under another name first, and then gives it its name only if
    /// the name is free: nobody ever sees half a file, and nobody's file is replaced.
    fn store(&self, path: &Path) -> io::Result<()> {
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        fs::create_dir_all(folder)?;
        let nonce = rand::rngs::OsRng.try_next_u64().map_err(io::Error::other)?;
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(format!(".new-{nonce:016x}"));
        let temporary = PathBuf::from(temporary);
        let result = self
            .write_new(&temporary)
            .and_then(|()| fs::hard_link(&temporary, path))
            .and_then(|()| File::open(folder)?.sync_all());
        // Left behind, it would be a second copy of a secret.
        let removed = fs::remove_file(&temporary);
        result.and(removed)
    }

    fn write_new(&self, path: &Path) -> io::Result<()> {
        let mut bytes = Zeroizing::new([0; SEED_LEN + CHECK_LEN]);
        bytes[..SEED_LEN].copy_from_slice(self.seed.as_ref().as_ref());
        bytes[SEED_LEN..].copy_from_slice(&check(self.seed.as_ref()));
        let mut code = Zeroizing::new(BASE32_NOPAD.encode(bytes.as_ref()));
        code.make_ascii_lowercase();
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(FILE_FIRST_LINE.as_bytes())?;
        file.write_all(b"\n")?;
        file.write_all(code.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()
    }
}

impl fmt::Debug for NodeIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeIdentity").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Whether `signature` over `message` was made by the machine with this identity.
pub fn verify_signature(signer: NodeId, message: &[u8], signature: &[u8; 64]) -> bool {
    UnparsedPublicKey::new(&ED25519, signer.as_bytes()).verify(message, signature).is_ok()
}

fn io_error<'a>(what: &'static str, path: &'a Path) -> impl Fn(io::Error) -> IdentityError + 'a {
    move |source| IdentityError::Io { what, path: path.to_owned(), source }
}

fn parse(text: &str) -> Result<Zeroizing<[u8; SEED_LEN]>, &'static str> {
    let mut lines = text.lines();
    match lines.next() {
        Some(FILE_FIRST_LINE) => {}
        None => return Err("it is empty"),
        Some(line) if line.starts_with("wayfs-identity-") => {
            return Err("it was written by a newer version");
        }
        Some(_) => return Err("the first line is not that of an identity"),
    }
    let code = Zeroizing::new(lines.next().ok_or("the key is missing")?.trim().to_uppercase());
    let mut bytes = BASE32_NOPAD.decode(code.as_bytes()).map_err(|_| "the key is not base32")?;
    let mut seed = Zeroizing::new([0; SEED_LEN]);
    let whole = bytes.len() == SEED_LEN + CHECK_LEN;
    if whole {
        seed.copy_from_slice(&bytes[..SEED_LEN]);
    }
    let right = whole && bytes[SEED_LEN..] == check(&seed);
    bytes.zeroize();
    match (whole, right) {
        (false, _) => Err("the key has the wrong length"),
        (true, false) => Err("the key does not match its check"),
        (true, true) => Ok(seed),
    }
}

fn check(seed: &[u8; SEED_LEN]) -> [u8; CHECK_LEN] {
    let digest = blake3::derive_key("wayfs identity file check 1", seed);
    [digest[0], digest[1], digest[2], digest[3]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_survives_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/identity");
        let made = NodeIdentity::load_or_create(&path).unwrap();
        let loaded = NodeIdentity::load_or_create(&path).unwrap();
        assert_eq!(made.id(), loaded.id());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path().join("sub")).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        NodeIdentity::load_or_create(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = NodeIdentity::load_or_create(&path).unwrap_err();
        assert!(matches!(error, IdentityError::Exposed { mode: 0o640, .. }), "{error}");
        assert!(error.to_string().contains("chmod 600"));
    }

    #[test]
    fn every_damage_is_refused_and_the_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        NodeIdentity::load_or_create(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        let mut damages: Vec<Vec<u8>> = (0..whole.len() - 1).map(|n| whole[..n].to_vec()).collect();
        for at in 0..whole.len() - 1 {
            let mut damage = whole.clone();
            damage[at] = if damage[at] == b'a' { b'b' } else { b'a' };
            damages.push(damage);
        }
        damages.push(vec![0xff; 40]);
        damages.push(b"wayfs-identity-2\nabc\n".to_vec());
        for damage in damages {
            fs::write(&path, &damage).unwrap();
            let error = NodeIdentity::load_or_create(&path).unwrap_err();
            assert!(matches!(error, IdentityError::Damaged { .. }), "{error}");
            assert_eq!(fs::read(&path).unwrap(), damage);
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        let identity = NodeIdentity::generate().unwrap();
        let shown = format!("{identity:?}");
        assert!(shown.contains(&identity.id().short()));
        assert!(shown.len() < 60, "{shown}");
    }

    #[test]
    fn signatures_hold_for_their_message_and_signer_only() {
        let (one, two) = (NodeIdentity::generate().unwrap(), NodeIdentity::generate().unwrap());
        let signature = one.sign(b"hello");
        assert!(verify_signature(one.id(), b"hello", &signature));
        assert!(!verify_signature(two.id(), b"hello", &signature));
        assert!(!verify_signature(one.id(), b"hullo", &signature));
    }
}
