//! The first exchange: what we would like, what the kernel can do, what holds.

use crate::attributes::Fixed;
use crate::cursor::Cursor;
use crate::decode::{DecodeError, Header};
use crate::flag_set::flag_set;
use crate::uapi;

flag_set! {
    /// Abilities of the protocol, as agreed at the start of a mount.
    InitFlags: u64 {
        /// Several reads of one file at a time.
        ASYNC_READ = 1 << 0;
        /// POSIX record locks come to the handler.
        POSIX_LOCKS = 1 << 1;
        /// `O_TRUNC` comes with the open, not as a setattr before it.
        ATOMIC_O_TRUNC = 1 << 3;
        /// Lookups of `.` and `..` by inode number are answered.
        EXPORT_SUPPORT = 1 << 4;
        /// Writes of more than a page.
        BIG_WRITES = 1 << 5;
        /// The kernel leaves it to the handler to take the umask off.
        DONT_MASK = 1 << 6;
        /// flock locks come to the handler.
        FLOCK_LOCKS = 1 << 10;
        /// The kernel drops cached pages when it sees the size or mtime change.
        AUTO_INVAL_DATA = 1 << 12;
        /// Listings with attributes.
        DO_READDIRPLUS = 1 << 13;
        /// The kernel chooses between the two listings by what the caller does with them.
        READDIRPLUS_AUTO = 1 << 14;
        /// Several direct reads and writes of one caller at a time.
        ASYNC_DIO = 1 << 15;
        /// Writes stay in the page cache and come later.
        WRITEBACK_CACHE = 1 << 16;
        /// Lookups and listings in one directory at the same time.
        PARALLEL_DIROPS = 1 << 18;
        /// The kernel checks POSIX access control lists.
        POSIX_ACL = 1 << 20;
        /// After an abort, reading the device says so.
        ABORT_ERROR = 1 << 21;
        /// Requests of more than 32 pages.
        MAX_PAGES = 1 << 22;
        /// Targets of symbolic links are cached.
        CACHE_SYMLINKS = 1 << 23;
        /// Cached pages go only when asked to by a notification, or at open.
        EXPLICIT_INVAL_DATA = 1 << 25;
        /// The handler clears set-user-id and set-group-id bits on write, truncate and chown.
        HANDLE_KILLPRIV_V2 = 1 << 28;
        /// There is a second word of flags.
        INIT_EXT = 1 << 30;
        /// Entries can be expired without being dropped.
        HAS_EXPIRE_ONLY = 1 << 35;
        /// Files opened for direct input and output can be mapped.
        DIRECT_IO_ALLOW_MMAP = 1 << 36;
        /// Opens can be handed to a backing file.
        PASSTHROUGH = 1 << 37;
    }
}

/// What the session would like. Everything that the kernel does not offer is silently done without;
/// [`Granted`] tells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Largest write in bytes. Default 1 MiB, the most that kernels allow without a sysctl; at least
    /// a page. Smaller saves memory (one buffer per reader) and costs requests.
    pub max_write: u32,
    /// How far the kernel reads ahead, in bytes. Default 1 MiB. The kernel's own default is 128 KiB;
    /// more needs root, and is granted after the mount where the system lets us.
    pub max_readahead: u32,
    /// Asynchronous requests (read-ahead, late writes) that the kernel keeps in flight. Default 64.
    pub max_background: u16,
    /// `O_TRUNC` comes with the open. Default true: one request less.
    pub atomic_truncate: bool,
    /// flock locks come to the handler; else they hold on this machine only. Default true.
    pub flock_locks: bool,
    /// POSIX record locks come to the handler; else they hold on this machine only. Default true.
    pub posix_locks: bool,
    /// Listings bring attributes where the kernel finds that useful. Default true.
    pub readdirplus: bool,
    /// Writes are collected by the kernel. Default false: only right while no one else writes the
    /// files, since sizes and times are then the kernel's. Excludes passthrough.
    pub writeback_cache: bool,
    /// Cached pages stay until a notification or an open drops them. Default true. False lets the
    /// kernel drop a file's pages whenever it sees the file's size or mtime differ.
    ///
    /// With true, a handler that answers with a larger size before it has dropped the pages shows
    /// old bytes, then zeros, up to the new size: notify first, then answer with new attributes.
    pub explicit_invalidation: bool,
    /// The handler clears set-id bits where a request says so. Default true: saves the kernel a
    /// getxattr before every write.
    pub handle_kill_privileges: bool,
    /// Targets of symbolic links are cached. Default true; drop one with `inval_inode`.
    pub cache_symlinks: bool,
    /// Offer passthrough. Default true. Works only for root, and not with `writeback_cache`.
    pub passthrough: bool,
    /// Answer lookups of `.` and `..`, so that files can be found by handle (NFS re-export).
    /// Default false.
    pub export_support: bool,
    /// The kernel checks POSIX access control lists, which it reads as `system.posix_acl_*`; modes come with the umask still
    /// on them, and whoever makes a file takes it off where the directory has no default list. Default false.
    pub posix_acl: bool,
    /// Each reader thread gets a request queue of its own. Default true; without right to open the
    /// device a second time the readers share one.
    pub clone_device: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_write: 1 << 20,
            max_readahead: 1 << 20,
            max_background: 64,
            atomic_truncate: true,
            flock_locks: true,
            posix_locks: true,
            readdirplus: true,
            writeback_cache: false,
            explicit_invalidation: true,
            handle_kill_privileges: true,
            cache_symlinks: true,
            passthrough: true,
            export_support: false,
            posix_acl: false,
            clone_device: true,
        }
    }
}

impl Config {
    fn wanted(&self) -> InitFlags {
        // Not `ASYNC_DIO`: the kernel would keep pages that a reader filled while such a write was under way.
        let always = InitFlags::ASYNC_READ
            | InitFlags::BIG_WRITES
            | InitFlags::PARALLEL_DIROPS
            | InitFlags::ABORT_ERROR
            | InitFlags::MAX_PAGES
            | InitFlags::INIT_EXT
            | InitFlags::HAS_EXPIRE_ONLY
            | InitFlags::DIRECT_IO_ALLOW_MMAP;
        let optional = [
            (self.atomic_truncate, InitFlags::ATOMIC_O_TRUNC),
            (self.flock_locks, InitFlags::FLOCK_LOCKS),
            (self.posix_locks, InitFlags::POSIX_LOCKS),
            (self.readdirplus, InitFlags::DO_READDIRPLUS | InitFlags::READDIRPLUS_AUTO),
            (self.writeback_cache, InitFlags::WRITEBACK_CACHE),
            (self.explicit_invalidation, InitFlags::EXPLICIT_INVAL_DATA),
            (!self.explicit_invalidation, InitFlags::AUTO_INVAL_DATA),
            (self.handle_kill_privileges, InitFlags::HANDLE_KILLPRIV_V2),
            (self.cache_symlinks, InitFlags::CACHE_SYMLINKS),
            (self.passthrough && !self.writeback_cache, InitFlags::PASSTHROUGH),
            (self.export_support, InitFlags::EXPORT_SUPPORT),
            (self.posix_acl, InitFlags::POSIX_ACL | InitFlags::DONT_MASK),
        ];
        let chosen = optional.iter().filter(|(wanted, _)| *wanted);
        chosen.fold(always, |flags, (_, flag)| flags.with(*flag))
    }

    /// `max_write` within what makes sense: a page at least, the protocol's 256 pages at most.
    pub(crate) fn max_write_bounded(&self) -> u32 {
        self.max_write.clamp(4096, 1 << 20)
    }
}

/// What holds for this mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The minor version of the protocol that both sides speak.
    pub protocol_minor: u32,
    /// The abilities that both sides have.
    pub flags: InitFlags,
    /// Largest write in bytes.
    pub max_write: u32,
    /// Read-ahead in bytes.
    pub max_readahead: u32,
    /// Asynchronous requests in flight.
    pub max_background: u16,
}

/// Why the first exchange failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InitError {
    /// The message is not an init request.
    #[error("decode the first request")]
    Decode(#[source] DecodeError),
    /// The kernel is too old (before 5.4) or speaks a protocol from the future.
    #[error("the kernel speaks FUSE {major}.{minor}; we need 7.{oldest} or newer", oldest = uapi::MINOR_OLDEST)]
    Version {
        /// Its major version.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// The kernel sent no first request.
    #[error("the kernel did not open the conversation within {0} seconds")]
    Silent(u64),
    /// The device failed or was closed from the other side.
    #[error("talk to the kernel")]
    Device(#[source] std::io::Error),
}

/// Size of `fuse_init_out`.
const INIT_OUT_LEN: usize = 64;

/// What to answer to an init request.
#[derive(Debug)]
pub(crate) enum InitAnswer {
    /// The kernel is of a later major version: say which one we speak and wait for its next init.
    TryOurMajor([u8; INIT_OUT_LEN]),
    /// Agreed.
    Agreed(Box<Granted>, [u8; INIT_OUT_LEN]),
}

/// Works out the answer to an init request.
///
/// # Errors
/// [`InitError::Decode`] for a message that is too short, [`InitError::Version`] for an old kernel.
pub(crate) fn negotiate(header: &Header, message: &[u8], config: &Config) -> Result<InitAnswer, InitError> {
    let mut body = Cursor::new(header.body(message));
    let [major, minor] = [body.u32(), body.u32()];
    let (major, minor) = (major.map_err(InitError::Decode)?, minor.map_err(InitError::Decode)?);
    if major > uapi::MAJOR {
        let mut answer = [0; INIT_OUT_LEN];
        answer[..4].copy_from_slice(&uapi::MAJOR.to_ne_bytes());
        answer[4..8].copy_from_slice(&uapi::MINOR.to_ne_bytes());
        return Ok(InitAnswer::TryOurMajor(answer));
    }
    if major < uapi::MAJOR || minor < uapi::MINOR_OLDEST {
        return Err(InitError::Version { major, minor });
    }
    let readahead = body.u32().map_err(InitError::Decode)?;
    let mut offered = u64::from(body.u32().map_err(InitError::Decode)?);
    if InitFlags::from_bits(offered).contains(InitFlags::INIT_EXT) {
        offered |= u64::from(body.u32().unwrap_or(0)) << 32;
    }
    let flags = config.wanted().intersection(InitFlags::from_bits(offered));
    let mut max_write = config.max_write_bounded();
    if !flags.contains(InitFlags::MAX_PAGES) {
        max_write = max_write.min(32 * 4096);
    }
    let granted = Granted {
        protocol_minor: minor.min(uapi::MINOR),
        flags,
        max_write,
        max_readahead: readahead.min(config.max_readahead),
        max_background: config.max_background.max(1),
    };
    let answer = encode(&granted);
    Ok(InitAnswer::Agreed(Box::new(granted), answer))
}

/// `fuse_init_out`.
fn encode(granted: &Granted) -> [u8; INIT_OUT_LEN] {
    let bits = granted.flags.bits();
    let low = u32::try_from(bits & u64::from(u32::MAX)).expect("masked to 32 bits");
    let high = u32::try_from(bits >> 32).expect("shifted down to 32 bits");
    let pages = u16::try_from(granted.max_write.div_ceil(page_size())).unwrap_or(u16::MAX);
    // One level: a backing file on a plain file system, nothing stacked below it or above us.
    let stack_depth = u32::from(granted.flags.contains(InitFlags::PASSTHROUGH));
    let mut out = Fixed::<INIT_OUT_LEN>::new();
    out.u32(uapi::MAJOR).u32(granted.protocol_minor).u32(granted.max_readahead).u32(low);
    out.u16(granted.max_background);
    // Congestion at three quarters, the proportion that the kernel uses for its own default.
    out.u16(granted.max_background - granted.max_background / 4);
    out.u32(granted.max_write);
    // Times have a granularity of one nanosecond.
    out.u32(1);
    out.u16(pages).u16(0).u32(high).u32(stack_depth);
    out.bytes(&[0; 24]);
    out.finish()
}

fn page_size() -> u32 {
    u32::try_from(rustix::param::page_size()).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::tests::message;
    use crate::uapi::opcode;

    fn body(major: u32, minor: u32, flags: u64) -> Vec<u8> {
        let low = u32::try_from(flags & 0xffff_ffff).unwrap();
        let high = u32::try_from(flags >> 32).unwrap();
        [major, minor, 128 * 1024, low, high].iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn answer(bytes: &[u8], config: &Config) -> Result<InitAnswer, InitError> {
        let message = message(opcode::INIT, bytes);
        negotiate(&Header::decode(&message).unwrap(), &message, config)
    }

    #[test]
    fn everything_offered_is_granted_as_configured() {
        let bytes = body(7, 45, u64::MAX >> 20 | 0xffff_ffff);
        let InitAnswer::Agreed(granted, out) = answer(&bytes, &Config::default()).unwrap() else {
            panic!("version 7 is ours");
        };
        assert!(granted.flags.contains(InitFlags::PASSTHROUGH | InitFlags::EXPLICIT_INVAL_DATA));
        assert!(!granted.flags.contains(InitFlags::WRITEBACK_CACHE));
        assert_eq!(granted.max_write, 1 << 20);
        assert_eq!(out[28..30], 256_u16.to_ne_bytes());
        assert_eq!(out[36..40], 1_u32.to_ne_bytes(), "stack depth");
    }

    #[test]
    fn writeback_excludes_passthrough() {
        let config = Config { writeback_cache: true, ..Config::default() };
        let InitAnswer::Agreed(granted, _) = answer(&body(7, 45, u64::MAX), &config).unwrap() else {
            panic!("version 7 is ours");
        };
        assert!(granted.flags.contains(InitFlags::WRITEBACK_CACHE));
        assert!(!granted.flags.contains(InitFlags::PASSTHROUGH));
    }

    #[test]
    fn a_modest_kernel_gets_modest_sizes() {
        let bytes = &body(7, 31, InitFlags::ASYNC_READ.bits())[..16];
        let InitAnswer::Agreed(granted, _) = answer(bytes, &Config::default()).unwrap() else {
            panic!("version 7 is ours");
        };
        assert_eq!((granted.protocol_minor, granted.max_write), (31, 128 * 1024));
        assert_eq!(granted.flags, InitFlags::ASYNC_READ);
    }

    #[test]
    fn other_versions_are_refused_or_asked_down() {
        assert!(matches!(answer(&body(8, 0, 0), &Config::default()), Ok(InitAnswer::TryOurMajor(_))));
        assert!(matches!(answer(&body(7, 12, 0), &Config::default()), Err(InitError::Version { .. })));
        assert!(matches!(answer(&body(6, 50, 0), &Config::default()), Err(InitError::Version { .. })));
        assert!(matches!(answer(&[7], &Config::default()), Err(InitError::Decode(_))));
    }
}
