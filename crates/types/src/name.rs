//! Names of entries and of extended attributes, checked once at the edge.

use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Why bytes are not a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No bytes at all, `.` or `..`.
    #[error("a name must not be empty, `.` or `..`")]
    Reserved,
    /// More than 255 bytes.
    #[error("the name is longer than 255 bytes")]
    TooLong,
    /// Holds `/` or a zero byte.
    #[error("a name must not hold `/` or a zero byte")]
    BadByte,
}

/// The name of a directory entry: 1..=255 bytes, no `/`, no zero, not `.` or `..`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct Name(Vec<u8>);

impl Name {
    /// Longest name in bytes (`NAME_MAX`).
    pub const LEN_MAX: usize = 255;

    /// Checks the bytes.
    ///
    /// # Errors
    /// [`NameError`] says what is wrong with them.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, NameError> {
        let bytes = bytes.into();
        match bytes.as_slice() {
            [] | b"." | b".." => Err(NameError::Reserved),
            long if long.len() > Self::LEN_MAX => Err(NameError::TooLong),
            bad if bad.iter().any(|b| matches!(b, 0 | b'/')) => Err(NameError::BadByte),
            _ => Ok(Self(bytes)),
        }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// As the operating system's string.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// Gives up the bytes as the operating system's string.
    pub fn into_os_string(self) -> OsString {
        OsString::from_vec(self.0)
    }
}

impl TryFrom<Vec<u8>> for Name {
    type Error = NameError;
    fn try_from(bytes: Vec<u8>) -> Result<Self, NameError> {
        Self::new(bytes)
    }
}

impl TryFrom<&OsStr> for Name {
    type Error = NameError;
    fn try_from(text: &OsStr) -> Result<Self, NameError> {
        Self::new(text.as_bytes())
    }
}

impl TryFrom<&str> for Name {
    type Error = NameError;
    fn try_from(text: &str) -> Result<Self, NameError> {
        Self::new(text.as_bytes())
    }
}

impl From<Name> for Vec<u8> {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// The name of an extended attribute: 1..=255 bytes, no zero byte.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct XattrName(Vec<u8>);

impl XattrName {
    /// Checks the bytes.
    ///
    /// # Errors
    /// [`NameError`] if empty, too long or with a zero byte.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, NameError> {
        let bytes = bytes.into();
        match bytes.as_slice() {
            [] => Err(NameError::Reserved),
            long if long.len() > Name::LEN_MAX => Err(NameError::TooLong),
            bad if bad.contains(&0) => Err(NameError::BadByte),
            _ => Ok(Self(bytes)),
        }
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<Vec<u8>> for XattrName {
    type Error = NameError;
    fn try_from(bytes: Vec<u8>) -> Result<Self, NameError> {
        Self::new(bytes)
    }
}

impl From<XattrName> for Vec<u8> {
    fn from(name: XattrName) -> Self {
        name.0
    }
}

impl fmt::Debug for XattrName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reserved_and_bad_names_are_refused() {
        assert_eq!(Name::new(""), Err(NameError::Reserved));
        assert_eq!(Name::new(".."), Err(NameError::Reserved));
        assert_eq!(Name::new("a/b"), Err(NameError::BadByte));
        assert_eq!(Name::new(vec![b'x'; 256]), Err(NameError::TooLong));
        assert!(Name::new(vec![b'x'; 255]).is_ok());
    }

    proptest! {
        #[test]
        fn what_is_accepted_holds_no_separator(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(name) = Name::new(bytes.clone()) {
                prop_assert_eq!(name.as_bytes(), bytes.as_slice());
                prop_assert!(!bytes.contains(&b'/') && !bytes.contains(&0));
            }
        }
    }
}
