//! Descriptors are room, too: what is kept back for the stores, and what running out of them means.
//!
//! A process may have so many files open and no more. Running out is no failure of the disk: nothing was written, and the
//! same succeeds when somebody closes a file. So it never ends a store. What the stores open by themselves (files of
//! the log, tables, segments) must not fail because programs opened many files: [`DESCRIPTORS_RESERVED`] are theirs.

/// Descriptors of a process that nobody but its stores and sessions may use: the tables
/// ([`TABLE_FILES_MAX`]), files of the log, chunk segments, sockets. Whoever opens files on behalf of programs stays so far below
/// the limit of the process, or below half of it if the limit is lower than twice as many.
pub const DESCRIPTORS_RESERVED: u64 = 512;

/// Table files that the index keeps open.
pub(crate) const TABLE_FILES_MAX: usize = 128;

/// Whether a system error says that something was not opened for want of descriptors or memory: nothing was written.
pub(crate) fn is_exhausted(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let code = error.raw_os_error();
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM].iter().any(|errno| code == Some(errno.raw_os_error()))
}
