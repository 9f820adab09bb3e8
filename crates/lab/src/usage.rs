//! What programs use of a machine: memory and disk.

use std::path::Path;

/// Most bytes that a process ever had in memory; zero if it cannot be asked.
pub(crate) fn peak_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

/// Bytes of the disk that a directory takes, with all below it. What goes while it is looked at counts as gone.
pub fn space(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    let of_entry = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => space(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(of_entry).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_counts_what_lies_below() {
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("below");
        std::fs::create_dir(&below).unwrap();
        std::fs::write(below.join("file"), vec![1; 100_000]).unwrap();
        assert!((100_000..200_000).contains(&space(directory.path())), "{}", space(directory.path()));
        assert_eq!(space(&directory.path().join("nothing")), 0);
    }

    #[test]
    fn a_living_process_has_memory() {
        assert!(peak_memory(std::process::id()) > 100_000);
        assert_eq!(peak_memory(u32::MAX), 0);
    }
}
