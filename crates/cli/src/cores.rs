//! No memory of a daemon on disk: keys, tickets and contents of others are in it.

use rustix::process::{DumpableBehavior, Resource, Rlimit};

/// Set to `1`, core dumps are allowed, to look for the cause of a crash.
const ALLOWED_BY: &str = "WAYFS_CORE_DUMPS";

/// Sees to it that this process leaves no core dump, and that no other process of its user can read its memory. A program that
/// takes cores in place of the kernel (`systemd-coredump`) does not ask for the limit of their size, so that alone would not do.
pub(crate) fn forbid() {
    if std::env::var_os(ALLOWED_BY).is_some_and(|value| value == "1") {
        return;
    }
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let limited = rustix::process::setrlimit(Resource::Core, none);
    let hidden = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    if let Err(error) = limited.and(hidden) {
        tracing::warn!(%error, "this process may leave a core dump, with keys in it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_leaves_no_core() {
        forbid();
        assert_eq!(rustix::process::getrlimit(Resource::Core).current, Some(0));
        assert_eq!(rustix::process::dumpable_behavior(), Ok(DumpableBehavior::NotDumpable));
    }
}
