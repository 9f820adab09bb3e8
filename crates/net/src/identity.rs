//! A machine's identity: an ed25519 key pair, and how its key was changed, kept in a file that only its owner can read
//! (`identity_file.rs`).

use crate::identity_file::{self, Content, Key};
use crate::key_change::{KEY_CHANGES_MAX, KeyChange};
use crate::passphrase::Passphrase;
use rand::TryRngCore;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wayfs_types::NodeId;
use zeroize::Zeroizing;

/// Bytes that a key pair is made of.
pub(crate) const SEED_LEN: usize = 32;

/// A machine's key pair. The public half is its [`NodeId`]; the private half never leaves
/// this value, is wiped with it, and is not shown by `Debug`.
#[derive(Clone)]
pub struct NodeIdentity {
    seed: Arc<Zeroizing<[u8; SEED_LEN]>>,
    pair: Arc<Ed25519KeyPair>,
    id: NodeId,
    changes: Arc<[KeyChange]>,
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
    /// The key is sealed, and no passphrase was given.
    #[error("identity file {} is sealed: give its passphrase (`--passphrase-file FILE`, or the credential `wayfs-passphrase` of the unit)", path.display())]
    Sealed {
        /// The file.
        path: PathBuf,
    },
    /// The key is sealed with another passphrase, or was damaged since.
    #[error("identity file {} does not open with this passphrase: give the one that it was sealed with, or restore the file from a backup if it is damaged", path.display())]
    WrongPassphrase {
        /// The file.
        path: PathBuf,
    },
    /// A file that is to hold a passphrase holds none.
    #[error("the first line of {} is no passphrase: it is empty, or the file is longer than 1024 bytes", path.display())]
    NoPassphrase {
        /// The file.
        path: PathBuf,
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
        Ok(Self::from_seed(seed, Arc::default()))
    }

    /// The identity in the file at `path`; if there is no file, a new one, stored there with
    /// mode 0600. Two processes that do this at once get the same identity.
    ///
    /// # Errors
    /// [`IdentityError::Exposed`] if others can read the file, [`IdentityError::Damaged`] if
    /// it is not whole, [`IdentityError::Sealed`] if it is sealed, [`IdentityError::Io`] if the system refuses.
    pub fn load_or_create(path: &Path) -> Result<Self, IdentityError> {
        Self::open(path, None)
    }

    /// The same for a file that is, or is to be, sealed with a passphrase: one that lies there in the clear is sealed now.
    ///
    /// # Errors
    /// As [`NodeIdentity::load_or_create`], and [`IdentityError::WrongPassphrase`].
    pub fn open(path: &Path, passphrase: Option<&Passphrase>) -> Result<Self, IdentityError> {
        match Self::load(path, passphrase) {
            Err(IdentityError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            loaded => return loaded,
        }
        let fresh = Self::generate()?;
        match identity_file::store(path, &fresh, passphrase) {
            Ok(()) => Ok(fresh),
            Err(source) if source.kind() == io::ErrorKind::AlreadyExists => Self::load(path, passphrase),
            Err(source) => Err(io_error("create", path)(source)),
        }
    }

    /// The identity in the file at `path`.
    ///
    /// # Errors
    /// As [`NodeIdentity::open`]; a missing file is [`IdentityError::Io`].
    pub fn load(path: &Path, passphrase: Option<&Passphrase>) -> Result<Self, IdentityError> {
        let Content { key, changes } = identity_file::read(path)?;
        let is_clear = matches!(key, Key::Clear(_));
        let seed = match (key, passphrase) {
            (Key::Clear(seed), _) => seed,
            (Key::Sealed(_), None) => return Err(IdentityError::Sealed { path: path.to_owned() }),
            (Key::Sealed(sealed), Some(passphrase)) => {
                sealed.open(passphrase).ok_or_else(|| IdentityError::WrongPassphrase { path: path.to_owned() })?
            }
        };
        let identity = Self::from_seed(seed, changes.into());
        if is_clear && passphrase.is_some() {
            identity.replace(path, passphrase)?;
            tracing::info!(path = %path.display(), "the key is sealed from now on");
        }
        Ok(identity)
    }

    /// Puts this identity in place of the one in the file at `path`, durably: after a crash either is there, whole.
    ///
    /// # Errors
    /// [`IdentityError::Io`].
    pub fn replace(&self, path: &Path, passphrase: Option<&Passphrase>) -> Result<(), IdentityError> {
        identity_file::replace(path, self, passphrase).map_err(io_error("replace", path))
    }

    /// The public half: who this machine is to others.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// How its key was changed: each says which key followed one that it had before.
    pub fn changes(&self) -> &[KeyChange] {
        &self.changes
    }

    /// A new key for the same machine, with the word of this one that it follows. Of more than [`KEY_CHANGES_MAX`] changes the
    /// oldest is forgotten.
    ///
    /// # Errors
    /// [`IdentityError::NoRandomness`].
    pub fn successor(&self) -> Result<Self, IdentityError> {
        let next = Self::generate()?;
        let mut changes = self.changes.to_vec();
        changes.push(KeyChange::sign(self, next.id));
        let extra = changes.len().saturating_sub(KEY_CHANGES_MAX);
        Ok(Self { changes: changes.split_off(extra).into(), ..next })
    }

    /// The same key, which says nothing of those that it had before.
    #[must_use]
    pub fn without_changes(&self) -> Self {
        Self { changes: Arc::default(), ..self.clone() }
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

    pub(crate) fn seed(&self) -> &[u8; SEED_LEN] {
        &self.seed
    }

    fn from_seed(seed: Zeroizing<[u8; SEED_LEN]>, changes: Arc<[KeyChange]>) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.as_ref()).expect("any 32 bytes are a seed of ed25519");
        let mut id = [0; 32];
        id.copy_from_slice(pair.public_key().as_ref());
        Self { seed: Arc::new(seed), pair: Arc::new(pair), id: NodeId::from_bytes(id), changes }
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

pub(crate) fn io_error<'a>(what: &'static str, path: &'a Path) -> impl Fn(io::Error) -> IdentityError + 'a {
    move |source| IdentityError::Io { what, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_change::follow;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

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
        let changed = NodeIdentity::generate().unwrap().successor().unwrap();
        changed.replace(&path, None).unwrap();
        let whole = fs::read(&path).unwrap();
        let of_key = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(1).unwrap().0;
        // Cut off behind the key it is whole, and has forgotten a change.
        let cuts = (0..whole.len() - 1).filter(|n| *n != of_key && *n != of_key + 1);
        let mut damages: Vec<Vec<u8>> = cuts.map(|n| whole[..n].to_vec()).collect();
        for at in (0..whole.len() - 1).filter(|at| *at != of_key) {
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

    #[test]
    fn a_new_key_says_whom_it_follows_and_may_forget_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        let first = NodeIdentity::load_or_create(&path).unwrap();
        let second = first.successor().unwrap();
        second.replace(&path, None).unwrap();
        let third = NodeIdentity::load_or_create(&path).unwrap().successor().unwrap();
        third.replace(&path, None).unwrap();
        let loaded = NodeIdentity::load_or_create(&path).unwrap();
        assert_eq!(loaded.id(), third.id());
        assert_eq!(follow(loaded.changes(), first.id()), third.id());
        assert_eq!(follow(loaded.changes(), second.id()), third.id());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        loaded.without_changes().replace(&path, None).unwrap();
        let loaded = NodeIdentity::load_or_create(&path).unwrap();
        assert_eq!((loaded.id(), loaded.changes()), (third.id(), &[][..]));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn only_the_newest_changes_are_kept() {
        let mut identity = NodeIdentity::generate().unwrap();
        let mut ids = vec![identity.id()];
        for _ in 0..=KEY_CHANGES_MAX {
            identity = identity.successor().unwrap();
            ids.push(identity.id());
        }
        assert_eq!(identity.changes().len(), KEY_CHANGES_MAX);
        assert_eq!(follow(identity.changes(), ids[0]), ids[0], "forgotten");
        assert_eq!(follow(identity.changes(), ids[1]), identity.id());
    }

    #[test]
    fn a_key_is_sealed_when_a_passphrase_is_given_and_stays_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        let (right, wrong) = (Passphrase::new("right").unwrap(), Passphrase::new("wrong").unwrap());
        let made = NodeIdentity::load_or_create(&path).unwrap();
        let clear = fs::read_to_string(&path).unwrap();
        let code = clear.lines().nth(1).unwrap();
        assert_eq!(NodeIdentity::open(&path, Some(&right)).unwrap().id(), made.id(), "what lay there is sealed now");
        assert!(!fs::read_to_string(&path).unwrap().contains(code));
        assert!(matches!(NodeIdentity::load_or_create(&path), Err(IdentityError::Sealed { .. })));
        assert!(matches!(NodeIdentity::open(&path, Some(&wrong)), Err(IdentityError::WrongPassphrase { .. })));
        let next = NodeIdentity::open(&path, Some(&right)).unwrap().successor().unwrap();
        next.replace(&path, Some(&right)).unwrap();
        let loaded = NodeIdentity::open(&path, Some(&right)).unwrap();
        assert_eq!((loaded.id(), loaded.changes()), (next.id(), next.changes()));
        let other = folder.path().join("other");
        let sealed_at_once = NodeIdentity::open(&other, Some(&right)).unwrap();
        assert!(matches!(NodeIdentity::load_or_create(&other), Err(IdentityError::Sealed { .. })));
        assert_eq!(NodeIdentity::open(&other, Some(&right)).unwrap().id(), sealed_at_once.id());
    }
}
