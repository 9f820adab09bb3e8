//! Results of operations as the kernel's answers: one form for each kind of result.

use super::errno::errno;
use super::kernel_form::{absent, attributes, entry, inode, kind, opened, opened_directory, tested};
use crate::fs::Error;
use crate::fs::reply::{Delivery, Respond, RespondWith};
use crate::fs::results::{
    Absent, CachedAttributes, Copied, Created, Entry, LinkTarget, Opened, OpenedDirectory, Position, Statistics,
    Written, XattrNames, XattrValue,
};
use crate::fs::{Detail, DirectoryEntry, DirectoryPage, LockTest, Taken};
use bytes::Bytes;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use wayfs_fuse::{DirectoryBuffer, FileLock, FileSystemStatistics, Pushed, Reply};

/// Whether the kernel took it.
fn delivery(delivery: wayfs_fuse::Delivery) -> Delivery {
    match delivery {
        wayfs_fuse::Delivery::Delivered => Delivery::Delivered,
        wayfs_fuse::Delivery::Gone => Delivery::Gone,
    }
}

impl Respond for Reply {
    fn refuse(self, error: Error) {
        let _ = self.error(errno(error));
    }
}

impl RespondWith<()> for Reply {
    fn give(self, (): ()) -> Delivery {
        delivery(self.ok())
    }
}

impl RespondWith<Entry> for Reply {
    fn give(self, result: Entry) -> Delivery {
        delivery(self.entry(&entry(&result)))
    }
}

impl RespondWith<Absent> for Reply {
    fn give(self, result: Absent) -> Delivery {
        delivery(self.entry(&absent(result)))
    }
}

impl RespondWith<CachedAttributes> for Reply {
    fn give(self, result: CachedAttributes) -> Delivery {
        delivery(self.attributes(&attributes(&result.attributes), result.ttl))
    }
}

impl RespondWith<Opened> for Reply {
    fn give(self, result: Opened) -> Delivery {
        delivery(self.opened(&opened(&result)))
    }
}

impl RespondWith<OpenedDirectory> for Reply {
    fn give(self, result: OpenedDirectory) -> Delivery {
        delivery(self.opened(&opened_directory(result)))
    }
}

impl RespondWith<Created> for Reply {
    fn give(self, result: Created) -> Delivery {
        delivery(self.created(&entry(&result.entry), &opened(&result.opened)))
    }
}

impl RespondWith<Bytes> for Reply {
    fn give(self, result: Bytes) -> Delivery {
        delivery(self.data(&result))
    }
}

impl RespondWith<LinkTarget> for Reply {
    fn give(self, LinkTarget(target): LinkTarget) -> Delivery {
        delivery(self.link_target(OsStr::from_bytes(&target)))
    }
}

impl RespondWith<XattrValue> for Reply {
    fn give(self, XattrValue(value): XattrValue) -> Delivery {
        delivery(self.xattr(&value))
    }
}

impl RespondWith<XattrNames> for Reply {
    fn give(self, XattrNames(names): XattrNames) -> Delivery {
        let mut list = Vec::new();
        for name in names {
            list.extend_from_slice(name.as_bytes());
            list.push(0);
        }
        delivery(self.xattr(&list))
    }
}

impl RespondWith<Written> for Reply {
    fn give(self, Written(len): Written) -> Delivery {
        delivery(self.written(u32::try_from(len).unwrap_or(u32::MAX)))
    }
}

impl RespondWith<Copied> for Reply {
    fn give(self, Copied(len): Copied) -> Delivery {
        delivery(self.copied(len))
    }
}

impl RespondWith<Position> for Reply {
    fn give(self, Position(offset): Position) -> Delivery {
        delivery(self.position(offset))
    }
}

impl RespondWith<Statistics> for Reply {
    fn give(self, result: Statistics) -> Delivery {
        let Statistics { blocks, blocks_free, blocks_available, files, files_free, .. } = result;
        delivery(self.statistics(&FileSystemStatistics {
            blocks,
            blocks_free,
            blocks_available,
            files,
            files_free,
            block_size: result.block_size,
            name_len_max: result.name_len_max,
            fragment_size: result.fragment_size,
        }))
    }
}

/// To a test for a lock, which is answered in terms of what was asked.
pub(super) struct LockTestReply {
    pub(super) reply: Reply,
    pub(super) asked: FileLock,
}

impl Respond for LockTestReply {
    fn refuse(self, error: Error) {
        self.reply.refuse(error);
    }
}

impl RespondWith<LockTest> for LockTestReply {
    fn give(self, result: LockTest) -> Delivery {
        delivery(self.reply.lock(&tested(result, self.asked)))
    }
}

/// To a request for entries of a directory, which says how much room there is.
pub(super) struct ListingReply {
    pub(super) reply: Reply,
    /// In bytes.
    pub(super) room: u32,
    pub(super) detail: Detail,
}

impl Respond for ListingReply {
    fn refuse(self, error: Error) {
        self.reply.refuse(error);
    }
}

impl RespondWith<DirectoryPage> for ListingReply {
    fn give(self, page: DirectoryPage) -> Delivery {
        let mut buffer = DirectoryBuffer::new(self.room);
        page.fill(|entry| push(&mut buffer, entry, self.detail));
        delivery(self.reply.directory(&buffer))
    }
}

fn push(buffer: &mut DirectoryBuffer, listed: &DirectoryEntry<'_>, detail: Detail) -> Taken {
    let named = wayfs_fuse::DirectoryEntry {
        inode: inode(listed.file),
        kind: kind(listed.kind),
        next_offset: listed.next_offset,
        name: listed.name,
    };
    let pushed = match detail {
        Detail::Names => buffer.push(&named),
        Detail::Attributes => {
            let nothing = Absent { ttl: Duration::ZERO };
            buffer.push_plus(&named, &listed.entry.as_ref().map_or_else(|| absent(nothing), entry))
        }
    };
    match pushed {
        Pushed::Yes => Taken::Yes,
        Pushed::Full => Taken::Full,
    }
}
