//! Texts that this machine's files and its user give, for the fuzzer.

use crate::commands::{our_mounts, redact};
use crate::config::{ConfigFile, check_options};

/// Reads text as a configuration file, with one variable set and all others not.
pub fn configuration(text: &str) {
    let variable = |name: &str| (name == "A").then(|| text.chars().rev().collect());
    let Ok(file) = ConfigFile::parse(text, &variable) else { return };
    if let Some(size) = &file.mount.cache_size {
        let _ = crate::config::parse_size(size);
    }
    let _ = file.network.apply(wayfs_net::NetConfig::default());
}

/// Reads text as `-o` of a mount of a volume, and of one of an NFS export.
pub fn mount_options(text: &str) {
    let options: Vec<String> = text.split(',').map(str::to_owned).collect();
    let _ = check_options(&options);
    let _ = wayfs_nfsmount::Settings::parse(text.split(','));
}

/// Reads text as `/proc/self/mountinfo`.
pub fn mount_table(text: &str) {
    let _ = our_mounts(text);
}

/// Takes the secrets out of a log.
///
/// # Panics
/// If a ticket is left in it.
pub fn log(text: &str) {
    let clean = redact(text).to_ascii_lowercase();
    let is_ticket = |at: usize| clean[at + "wayfs1-".len()..].starts_with(|c: char| c.is_ascii_alphanumeric());
    assert!(!clean.match_indices("wayfs1-").any(|(at, _)| is_ticket(at)), "a ticket is left in {clean:?}");
}
