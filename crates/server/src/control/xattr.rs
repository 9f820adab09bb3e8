//! Extended attributes of files outside, as far as a volume keeps them.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use wayfs_types::XattrName;

/// Longest list of names, and longest value: the kernel's own bounds.
const LEN_MAX: usize = 64 * 1024;

/// Whether a volume keeps attributes of this name. Those that only tell about a mounted file are never copied.
pub(super) fn is_kept(name: &[u8]) -> bool {
    let kept = [&b"user."[..], b"security.", b"trusted."];
    kept.iter().any(|space| name.starts_with(space)) && !name.starts_with(b"user.wayfs.")
}

/// The attributes of a file that is no symbolic link. A file system without any has none.
pub(super) fn read(path: &Path) -> io::Result<BTreeMap<XattrName, Bytes>> {
    let mut names = vec![0; LEN_MAX];
    let len = match rustix::fs::llistxattr(path, names.as_mut_slice()) {
        Ok(len) => len,
        Err(rustix::io::Errno::OPNOTSUPP) => return Ok(BTreeMap::new()),
        Err(errno) => return Err(errno.into()),
    };
    let mut found = BTreeMap::new();
    for name in names[..len].split(|byte| *byte == 0).filter(|name| is_kept(name)) {
        let Ok(key) = XattrName::new(name) else { continue };
        let mut value = vec![0; LEN_MAX];
        match rustix::fs::lgetxattr(path, name, value.as_mut_slice()) {
            Ok(len) => {
                found.insert(key, Bytes::copy_from_slice(&value[..len]));
            }
            // Removed since it was listed.
            Err(rustix::io::Errno::NODATA) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(found)
}

/// Gives some of them to a file.
pub(super) fn write(
    path: &Path,
    xattrs: &BTreeMap<XattrName, Bytes>,
    is_written: impl Fn(&[u8]) -> bool,
) -> io::Result<()> {
    for (name, value) in xattrs.iter().filter(|(name, _)| is_written(name.as_bytes())) {
        rustix::fs::lsetxattr(path, name.as_bytes(), value, rustix::fs::XattrFlags::empty())?;
    }
    Ok(())
}
