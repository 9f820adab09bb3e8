//! What a key file is sealed with.
//!
//! The key of the seal is PBKDF2-HMAC-SHA256 of the passphrase and a salt that is drawn anew for each file, so that no two
//! seals have one key and the nonce can be constant. ChaCha20-Poly1305 seals.

use crate::IdentityError;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::pbkdf2;
use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use zeroize::{Zeroize as _, Zeroizing};

/// Bytes of a salt.
pub(crate) const SALT_LEN: usize = 16;
/// What sealing adds.
pub(crate) const TAG_LEN: usize = 16;
/// Rounds of PBKDF2: some 0.2 s of a core, once at each start; the number that OWASP advised in 2023.
const ROUNDS: NonZeroU32 = NonZeroU32::new(600_000).expect("not zero");
/// Longest passphrase, in bytes.
const LEN_MAX: u64 = 1024;

/// A passphrase, wiped with its last copy and not shown by `Debug`.
#[derive(Clone)]
pub struct Passphrase(Arc<Zeroizing<Vec<u8>>>);

impl Passphrase {
    /// From text; `None`: it is empty.
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self(Arc::new(Zeroizing::new(text.as_bytes().to_vec()))))
    }

    /// The first line of a file, such as a credential of systemd.
    ///
    /// # Errors
    /// [`IdentityError::Exposed`] if others can read the file, [`IdentityError::NoPassphrase`] if there is none in it, or
    /// [`IdentityError::Io`].
    pub fn load(path: &Path) -> Result<Self, IdentityError> {
        let io = |source| IdentityError::Io { what: "read", path: path.to_owned(), source };
        let file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        let mode = metadata.permissions().mode() & 0o7777;
        if metadata.is_file() && mode & 0o077 != 0 {
            return Err(IdentityError::Exposed { path: path.to_owned(), mode });
        }
        let mut text = Zeroizing::new(String::new());
        file.take(LEN_MAX + 1).read_to_string(&mut text).map_err(io)?;
        let line = text.lines().next().unwrap_or_default();
        Self::new(line)
            .filter(|_| text.len() as u64 <= LEN_MAX)
            .ok_or_else(|| IdentityError::NoPassphrase { path: path.to_owned() })
    }

    /// Seals; `context` is no secret and must be the same when it is opened.
    pub(crate) fn seal(&self, salt: &[u8; SALT_LEN], context: &[u8], secret: &[u8]) -> Vec<u8> {
        let mut sealed = secret.to_vec();
        self.key(salt)
            .seal_in_place_append_tag(nonce(), Aad::from(context), &mut sealed)
            .expect("a key's few bytes are not too long to be sealed");
        sealed
    }

    /// Opens; `None`: another passphrase, or damage.
    pub(crate) fn open(&self, salt: &[u8; SALT_LEN], context: &[u8], sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let mut bytes = Zeroizing::new(sealed.to_vec());
        let len = self.key(salt).open_in_place(nonce(), Aad::from(context), &mut bytes).ok()?.len();
        bytes.truncate(len);
        Some(bytes)
    }

    fn key(&self, salt: &[u8; SALT_LEN]) -> LessSafeKey {
        let mut bytes = [0; 32];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, salt, &self.0, &mut bytes);
        let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes).expect("32 bytes are a key of this cipher");
        bytes.zeroize();
        LessSafeKey::new(key)
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase")
    }
}

fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_with_the_same_passphrase_and_no_other() {
        let (passphrase, other) = (Passphrase::new("correct horse").unwrap(), Passphrase::new("battery").unwrap());
        let salt = [7; SALT_LEN];
        let sealed = passphrase.seal(&salt, b"context", b"secret");
        assert_eq!(sealed.len(), 6 + TAG_LEN);
        assert_eq!(passphrase.open(&salt, b"context", &sealed).unwrap()[..], b"secret"[..]);
        assert!(other.open(&salt, b"context", &sealed).is_none());
        assert!(passphrase.open(&[8; SALT_LEN], b"context", &sealed).is_none());
        assert!(passphrase.open(&salt, b"another", &sealed).is_none());
        assert_eq!(format!("{passphrase:?}"), "Passphrase");
    }

    #[test]
    fn a_passphrase_is_the_first_line_of_a_file_that_nobody_else_can_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passphrase");
        std::fs::write(&path, "correct horse\nnote\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(Passphrase::load(&path), Err(IdentityError::Exposed { mode: 0o644, .. })));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
        assert_eq!(Passphrase::load(&path).unwrap().0.as_slice(), b"correct horse");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(Passphrase::load(&path), Err(IdentityError::NoPassphrase { .. })));
    }
}
