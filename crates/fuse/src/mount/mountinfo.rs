//! Reading `/proc/self/mountinfo`.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The number of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceNumber {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

/// One line of the table, as far as we need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountEntry {
    /// Of the file system.
    pub(crate) device: DeviceNumber,
    /// Where it is mounted.
    pub(crate) point: PathBuf,
    /// Its type, as `fuse.wayfs`.
    pub(crate) fs_type: String,
}

/// The uppermost mount at exactly this path, if there is one.
pub(crate) fn top_mount_at(path: &Path) -> io::Result<Option<MountEntry>> {
    mounts_at(path).map(|mut mounts| mounts.pop())
}

/// All mounts at exactly this path, the uppermost last.
pub(crate) fn mounts_at(path: &Path) -> io::Result<Vec<MountEntry>> {
    // Mounts are listed in the order in which they were made, so the last one covers the others.
    let table = std::fs::read("/proc/self/mountinfo")?;
    Ok(entries(&table).filter(|entry| entry.point == path).collect())
}

/// The lines of the table that make sense.
pub(crate) fn entries(table: &[u8]) -> impl Iterator<Item = MountEntry> {
    table.split(|byte| *byte == b'\n').filter_map(parse_line)
}

/// `36 35 98:0 /root /point options optional... - type source options`
fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = std::str::from_utf8(fields.nth(2)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let point = unescape(fields.nth(1)?);
    let fs_type = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(MountEntry {
        device: DeviceNumber { major: major.parse().ok()?, minor: minor.parse().ok()? },
        point: PathBuf::from(OsString::from_vec(point)),
        fs_type: String::from_utf8_lossy(fs_type).into_owned(),
    })
}

/// Undoes the table's `\040` for spaces and the like.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        match (byte, tail) {
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) => {
                out.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest = after;
            }
            _ => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_understood() {
        let line = b"36 35 0:47 / /mnt/with\\040space rw,noatime shared:1 master:2 - fuse.wayfs home rw,user_id=0";
        let entry = parse_line(line).unwrap();
        assert_eq!(entry.device, DeviceNumber { major: 0, minor: 47 });
        assert_eq!(entry.point, Path::new("/mnt/with space"));
        assert_eq!(entry.fs_type, "fuse.wayfs");
    }

    #[test]
    fn nonsense_is_no_entry() {
        for line in [&b""[..], b"1 2", b"1 2 3:x / / -", b"1 2 3:4 / / - ", b"a b 1:2 / \\0 rw"] {
            let _ = parse_line(line);
        }
        assert_eq!(parse_line(b"1 2 nodevice / /x rw - ext4 s rw"), None);
        assert_eq!(unescape(b"\\9\\04\\"), b"\\9\\04\\");
    }

    #[test]
    fn the_root_is_mounted_and_nonsense_is_not() {
        assert!(top_mount_at(Path::new("/proc")).unwrap().is_some());
        assert_eq!(top_mount_at(Path::new("/no/such/mount")).unwrap(), None);
    }
}
