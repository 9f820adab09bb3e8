use std::ffi::OsStr;

use proptest::prelude::*;

use super::*;

/// A whole message with this body, from user 1000, group 100, thread 77, about inode 7, numbered 42.
pub(crate) fn message(opcode: u32, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(crate::uapi::IN_HEADER + body.len()).unwrap();
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend_from_slice(&opcode.to_ne_bytes());
    for word in [42_u64, 7] {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    for word in [1000_u32, 100, 77, 0] {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes.extend_from_slice(body);
    bytes
}

/// A body under construction.
#[derive(Default)]
struct Body(Vec<u8>);

impl Body {
    fn w(mut self, words: &[u32]) -> Self {
        self.0.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        self
    }

    fn l(mut self, longs: &[u64]) -> Self {
        self.0.extend(longs.iter().flat_map(|long| long.to_ne_bytes()));
        self
    }

    fn s(mut self, text: &str) -> Self {
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }
}

fn body() -> Body {
    Body::default()
}

fn decode_whole(message: &[u8]) -> Result<Operation<'_>, DecodeError> {
    decode(&Header::decode(message)?, message)
}

fn name(text: &str) -> &OsStr {
    OsStr::new(text)
}

const HANDLE: FileHandle = FileHandle::new(5);
const OWNER: LockOwner = LockOwner::new(6);

/// One message of each kind that names things, and what it means.
fn about_names() -> Vec<(u32, Body, Operation<'static>)> {
    let (x, y) = (name("x"), name("yy"));
    let to = Inode::new(9);
    let (mode, umask) = (0o644, 0o22);
    vec![
        (opcode::LOOKUP, body().s("x"), Operation::Lookup { name: x }),
        (opcode::READLINK, body(), Operation::ReadLink),
        (opcode::SYMLINK, body().s("x").s("yy"), Operation::Symlink { name: x, target: y }),
        (opcode::MKNOD, body().w(&[mode, 3, umask, 0]).s("x"), Operation::MakeNode { name: x, mode, umask, device: 3 }),
        (opcode::MKDIR, body().w(&[mode, umask]).s("x"), Operation::MakeDirectory { name: x, mode, umask }),
        (opcode::UNLINK, body().s("x"), Operation::Unlink { name: x }),
        (opcode::RMDIR, body().s("x"), Operation::RemoveDirectory { name: x }),
        (
            opcode::RENAME,
            body().l(&[9]).s("x").s("yy"),
            Operation::Rename { name: x, new_parent: to, new_name: y, flags: RenameFlags::EMPTY },
        ),
        (
            opcode::RENAME2,
            body().l(&[9]).w(&[2, 0]).s("x").s("yy"),
            Operation::Rename { name: x, new_parent: to, new_name: y, flags: RenameFlags::EXCHANGE },
        ),
        (opcode::LINK, body().l(&[9]).s("x"), Operation::Link { inode: to, new_name: x }),
        (
            opcode::SETXATTR,
            body().w(&[3, 1]).s("x").raw(b"abc"),
            Operation::SetXattr { name: x, value: b"abc", flags: 1 },
        ),
        (opcode::GETXATTR, body().w(&[99, 0]).s("x"), Operation::GetXattr { name: x, size: 99 }),
        (opcode::LISTXATTR, body().w(&[99, 0]), Operation::ListXattr { size: 99 }),
        (opcode::REMOVEXATTR, body().s("x"), Operation::RemoveXattr { name: x }),
        (opcode::ACCESS, body().w(&[4, 0]), Operation::Access { mask: 4 }),
        (opcode::STATFS, body(), Operation::StatFs),
        (opcode::SYNCFS, body().l(&[0]), Operation::SyncFileSystem),
        (
            opcode::CREATE,
            body().w(&[0x8001, mode, umask, 1]).s("x"),
            Operation::Create { name: x, flags: 0x8001, mode, umask, kill_suid_gid: true },
        ),
        (opcode::TMPFILE, body().w(&[2, mode, umask, 0]).s("/"), Operation::TemporaryFile { flags: 2, mode, umask }),
        (opcode::OPEN, body().w(&[2, 0]), Operation::Open { flags: 2, kill_suid_gid: false }),
        (opcode::OPENDIR, body().w(&[4, 0]), Operation::OpenDirectory { flags: 4 }),
        (999, body(), Operation::Unsupported { opcode: 999 }),
    ]
}

/// One message of each kind that uses a handle, and what it means.
fn about_handles() -> Vec<(u32, Body, Operation<'static>)> {
    let (handle, offset, size) = (HANDLE, 70, 30);
    let read = || body().l(&[5, 70]).w(&[30, 2]).l(&[6]).w(&[0, 0]);
    vec![
        (opcode::GETATTR, body().w(&[1, 0]).l(&[5]), Operation::GetAttributes { handle: Some(HANDLE) }),
        (opcode::GETATTR, body().w(&[0, 0]).l(&[5]), Operation::GetAttributes { handle: None }),
        (opcode::STATX, body().w(&[1, 0]).l(&[5]).w(&[0, 0xfff]), Operation::GetAttributes { handle: Some(HANDLE) }),
        (opcode::READ, read(), Operation::Read { handle, offset, size, lock_owner: Some(OWNER), flags: 0 }),
        (opcode::READDIR, read(), Operation::ReadDirectory { handle, offset, size }),
        (opcode::READDIRPLUS, read(), Operation::ReadDirectoryPlus { handle, offset, size }),
        (
            opcode::WRITE,
            body().l(&[5, 70]).w(&[3, 5]).l(&[6]).w(&[1, 0]).raw(b"abc"),
            Operation::Write {
                handle,
                offset,
                data: b"abc",
                lock_owner: None,
                flags: 1,
                from_cache: true,
                kill_suid_gid: true,
            },
        ),
        (
            opcode::RELEASE,
            body().l(&[5]).w(&[1, 2]).l(&[6]),
            Operation::Release { handle, flags: 1, lock_owner: OWNER, flush: false, unlock_flock: true },
        ),
        (opcode::RELEASEDIR, body().l(&[5]).w(&[1, 2]).l(&[6]), Operation::ReleaseDirectory { handle }),
        (opcode::FLUSH, body().l(&[5, 0, 6]), Operation::Flush { handle, lock_owner: OWNER }),
        (opcode::FSYNC, body().l(&[5]).w(&[1, 0]), Operation::Fsync { handle, data_only: true }),
        (opcode::FSYNCDIR, body().l(&[5]).w(&[0, 0]), Operation::FsyncDirectory { handle, data_only: false }),
        (
            opcode::IOCTL,
            body().l(&[5]).w(&[0, 77]).l(&[88]).w(&[2, 9]).raw(b"hi"),
            Operation::Ioctl { handle, command: 77, argument: 88, input: b"hi", output_size: 9 },
        ),
        (opcode::POLL, body().l(&[5, 1]).w(&[0, 4]), Operation::Poll { handle, events: 4 }),
        (
            opcode::FALLOCATE,
            body().l(&[5, 70, 8]).w(&[1, 0]),
            Operation::Fallocate { handle, offset, length: 8, mode: 1 },
        ),
        (opcode::LSEEK, body().l(&[5, 70]).w(&[3, 0]), Operation::Seek { handle, offset, whence: SeekWhence::Data }),
        (
            opcode::COPY_FILE_RANGE,
            body().l(&[5, 70, 9, 8, 1, 2, 0]),
            Operation::CopyFileRange {
                handle,
                offset,
                target: Inode::new(9),
                target_handle: FileHandle::new(8),
                target_offset: 1,
                length: 2,
                flags: 0,
            },
        ),
    ]
}

fn about_locks() -> Vec<(u32, Body, Operation<'static>)> {
    let ask = |flags| body().l(&[5, 6, 10, 20]).w(&[1, 77, flags, 0]);
    let lock = FileLock { range: LockRange { start: 10, end: 20 }, kind: LockKind::Write, pid: 77 };
    let set = |wait, scope| Operation::SetLock { handle: HANDLE, owner: OWNER, lock, wait, scope };
    vec![
        (opcode::GETLK, ask(0), Operation::GetLock { handle: HANDLE, owner: OWNER, lock }),
        (opcode::SETLK, ask(0), set(LockWait::Try, LockScope::Record)),
        (opcode::SETLKW, ask(0), set(LockWait::Block, LockScope::Record)),
        (opcode::SETLKW, ask(1), set(LockWait::Block, LockScope::Flock)),
    ]
}

fn all() -> Vec<(u32, Body, Operation<'static>)> {
    let mut all = about_names();
    all.extend(about_handles());
    all.extend(about_locks());
    all
}

#[test]
fn every_request_is_understood() {
    for (opcode, body, expected) in all() {
        let message = message(opcode, &body.0);
        assert_eq!(decode_whole(&message), Ok(expected), "opcode {opcode}");
    }
}

#[test]
fn truncated_requests_are_errors_or_shorter_requests() {
    for (opcode, body, expected) in all() {
        for len in 0..body.0.len() {
            let cut = message(opcode, &body.0[..len]);
            // Trailing padding may be missing, and the last string may have lost its end only as an error.
            if let Ok(operation) = decode_whole(&cut) {
                assert_eq!(operation, expected, "opcode {opcode} cut to {len}");
            }
        }
        let whole = message(opcode, &body.0);
        for len in 0..whole.len() {
            assert!(Header::decode(&whole[..len]).is_err());
        }
    }
}

#[test]
fn the_header_tells_who_and_what() {
    let message = message(opcode::STATFS, &[]);
    let header = Header::decode(&message).unwrap();
    assert_eq!((header.unique, header.inode), (Unique::new(42), Inode::new(7)));
    assert_eq!((header.uid, header.gid, header.pid), (1000, 100, 77));
}

#[test]
fn extensions_are_not_part_of_the_body() {
    let mut bytes = message(opcode::LOOKUP, b"x\0EXTENDED");
    bytes[36..38].copy_from_slice(&1_u16.to_ne_bytes());
    let header = Header::decode(&bytes).unwrap();
    assert_eq!(header.body(&bytes), b"x\0");
    bytes[36..38].copy_from_slice(&2_u16.to_ne_bytes());
    assert_eq!(Header::decode(&bytes), Err(DecodeError::Extensions));
}

#[test]
fn set_attributes_takes_only_what_is_marked() {
    let values = |valid: u32| body().w(&[valid, 0]).l(&[5, 100, 6, 11, 12, 13]).w(&[1, 2, 3, 0o600, 0, 1000, 100, 0]);
    let nothing = message(opcode::SETATTR, &values(0).0);
    assert_eq!(decode_whole(&nothing), Ok(Operation::SetAttributes(SetAttributes::default())));
    let everything = message(opcode::SETATTR, &values(0x7f | 1 << 9 | 1 << 10 | 1 << 11).0);
    let at = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
    let expected = SetAttributes {
        mode: Some(0o600),
        uid: Some(1000),
        gid: Some(100),
        size: Some(100),
        atime: Some(TimeChange::To(at(11, 1))),
        mtime: Some(TimeChange::To(at(12, 2))),
        ctime: Some(at(13, 3)),
        handle: Some(HANDLE),
        lock_owner: Some(OWNER),
        kill_suid_gid: true,
    };
    assert_eq!(decode_whole(&everything), Ok(Operation::SetAttributes(expected)));
    let now = message(opcode::SETATTR, &values(fattr::MTIME | fattr::MTIME_NOW).0);
    let Ok(Operation::SetAttributes(change)) = decode_whole(&now) else { panic!("decodes") };
    assert_eq!((change.mtime, change.atime), (Some(TimeChange::Now), None));
}

#[test]
fn nonsense_in_fields_is_refused() {
    let lock = message(opcode::SETLK, &body().l(&[5, 6, 10, 20]).w(&[9, 77, 0, 0]).0);
    assert_eq!(decode_whole(&lock), Err(DecodeError::LockKind(9)));
    assert_eq!(decode_whole(&message(opcode::LOOKUP, b"\0")), Err(DecodeError::EmptyName));
    assert_eq!(decode_whole(&message(opcode::LOOKUP, b"x")), Err(DecodeError::Unterminated));
    let long = message(opcode::WRITE, &body().l(&[5, 70]).w(&[u32::MAX, 0]).l(&[6]).w(&[1, 0]).0);
    assert!(matches!(decode_whole(&long), Err(DecodeError::Truncated { .. })));
}

#[test]
fn forgets_come_one_by_one() {
    let collect = |message: &[u8]| {
        let header = Header::decode(message).unwrap();
        let mut seen = Vec::new();
        let result = decode_forget(&header, message, |inode, count| seen.push((inode.number(), count)));
        (seen, result.is_ok())
    };
    assert_eq!(collect(&message(opcode::FORGET, &body().l(&[3]).0)), (vec![(7, 3)], true));
    let batch = body().w(&[2, 0]).l(&[10, 1, 11, 2]);
    assert_eq!(collect(&message(opcode::BATCH_FORGET, &batch.0)), (vec![(10, 1), (11, 2)], true));
    let liar = body().w(&[u32::MAX, 0]).l(&[10, 1]);
    assert_eq!(collect(&message(opcode::BATCH_FORGET, &liar.0)), (vec![(10, 1)], false));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode_whole(&bytes);
    }

    #[test]
    fn random_bodies_never_panic(opcode in 0_u32..60, extensions in 0_u16..6,
                                 body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut bytes = message(opcode, &body);
        bytes[36..38].copy_from_slice(&extensions.to_ne_bytes());
        let _ = decode_whole(&bytes);
        if let Ok(header) = Header::decode(&bytes) {
            let _ = decode_forget(&header, &bytes, |_, _| {});
            let _ = decode_interrupt(&header, &bytes);
            let _ = crate::init::negotiate(&header, &bytes, &crate::Config::default());
        }
    }
}
