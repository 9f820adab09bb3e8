//! Paths in JSON: text where they are UTF-8, else a list of byte values. Use as `#[serde(with = "path_text")]`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Text(String),
    Bytes(Vec<u8>),
}

impl Form {
    fn of(path: &Path) -> Self {
        match path.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes(path.as_os_str().as_bytes().to_vec()),
        }
    }

    fn into_path(self) -> PathBuf {
        match self {
            Self::Text(text) => PathBuf::from(text),
            Self::Bytes(bytes) => PathBuf::from(OsString::from_vec(bytes)),
        }
    }
}

/// Writes a path.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    Form::of(path).serialize(serializer)
}

/// Reads a path.
///
/// # Errors
/// Those of the deserializer, and whatever is neither text nor a list of bytes.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Form::deserialize(deserializer).map(Form::into_path)
}

/// The same for a path that may be missing. Use as `#[serde(with = "path_text::optional")]`.
pub mod optional {
    use super::Form;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::path::PathBuf;

    /// Writes a path or null.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
        path.as_deref().map(Form::of).serialize(serializer)
    }

    /// Reads a path or null.
    ///
    /// # Errors
    /// Those of the deserializer, and whatever is neither null, text nor a list of bytes.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<Form>::deserialize(deserializer)?.map(Form::into_path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Holder {
        #[serde(with = "super")]
        path: PathBuf,
        #[serde(with = "super::optional", default)]
        other: Option<PathBuf>,
    }

    #[test]
    fn any_path_survives() {
        for bytes in [b"plain/text".to_vec(), vec![0xff, b'/', 0x80], Vec::new()] {
            let path = PathBuf::from(OsString::from_vec(bytes));
            let holder = Holder { path: path.clone(), other: Some(path) };
            let json = serde_json::to_string(&holder).unwrap();
            assert_eq!(serde_json::from_str::<Holder>(&json).unwrap(), holder);
        }
    }

    #[test]
    fn a_missing_path_is_none() {
        let holder: Holder = serde_json::from_str(r#"{"path":"a"}"#).unwrap();
        assert_eq!(holder.other, None);
    }
}
