//! The kernel's requests, each on a thread that may wait.

use crate::asker::Asker;
use crate::fail::Fail;
use crate::names::NewNode;
use crate::open_file::Access;
use crate::users::Waiter;
use crate::vfs::Vfs;
use crate::workers::Work;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Weak};
use std::time::Duration;
use wayfs_fuse::{Delivery, Errno, Handler, Inode, OpenFlags, Opened, Operation, Reply, Request, Unique};
use wayfs_nfs::operations::{Detail, IfTaken};

/// How long threads that wait have to end after the mount is gone.
const STOP: Duration = Duration::from_secs(5);

/// What the session gives requests to.
pub(crate) struct Front(pub(crate) Arc<Vfs>);

impl Front {
    pub(crate) fn new(vfs: Arc<Vfs>) -> Self {
        let weak: Weak<Vfs> = Arc::downgrade(&vfs);
        vfs.workers.serve(Arc::new(move |request, reply| match weak.upgrade() {
            Some(vfs) => vfs.carry_out(&request, reply),
            None => {
                reply.error(Errno::NODEV);
            }
        }));
        Self(vfs)
    }
}

impl Handler for Front {
    fn handle(&self, request: Request, reply: Reply) {
        match request.operation() {
            // Closing is not waited for: what is left to do goes on behind it.
            Operation::Release { handle, .. } => {
                self.0.release(handle);
                reply.ok();
            }
            Operation::ReleaseDirectory { handle } => {
                self.0.release_directory(handle);
                reply.ok();
            }
            _ => self.0.workers.push(Work::Request(request, reply)),
        }
    }

    fn forget(&self, inode: Inode, lookups: u64) {
        self.0.nodes.forget(inode, lookups);
    }

    fn interrupted(&self, unique: Unique) {
        self.0.workers.withdraw(unique);
    }

    fn destroy(&self) {
        self.0.workers.stop(STOP);
    }
}

impl Vfs {
    fn carry_out(self: &Arc<Self>, request: &Request, reply: Reply) {
        let mut asker = self.asker(self.users.of(request), Waiter::of(request));
        let inode = request.inode();
        match request.operation() {
            Operation::Lookup { .. }
            | Operation::Symlink { .. }
            | Operation::MakeNode { .. }
            | Operation::MakeDirectory { .. }
            | Operation::Link { .. } => self.reply_entry(&mut asker, request, reply),
            Operation::Create { name, flags, mode, .. } => {
                self.reply_created(&mut asker, (inode, name), (flags, mode), reply)
            }
            Operation::Unlink { .. } | Operation::RemoveDirectory { .. } | Operation::Rename { .. } => {
                done(reply, self.change_names(&mut asker, request));
            }
            Operation::GetAttributes { .. } => {
                let found = self.node(inode).and_then(|node| self.attributes(&mut asker, &node));
                answer(reply, found, |reply, (attributes, ttl)| reply.attributes(&attributes, ttl));
            }
            Operation::SetAttributes(change) => {
                let found = self.node(inode).and_then(|node| self.set_attributes(&mut asker, &node, &change));
                answer(reply, found, |reply, (attributes, ttl)| reply.attributes(&attributes, ttl));
            }
            Operation::ReadLink => {
                let target = self.node(inode).and_then(|node| self.read_link(&mut asker, &node));
                answer(reply, target, |reply, target| reply.link_target(OsStr::from_bytes(&target)));
            }
            Operation::Open { flags, .. } => {
                let opened = self.node(inode).and_then(|node| self.open(&mut asker, &node, flags));
                self.deliver_open(reply, opened);
            }
            Operation::Read { offset, size, .. } => {
                let bytes = self.node(inode).and_then(|node| self.read(&mut asker, &node, (offset, size)));
                answer(reply, bytes, |reply, bytes| reply.data(&bytes));
            }
            Operation::Write { handle, offset, data, .. } => {
                let written = self.write(&mut asker, handle, (offset, data));
                answer(reply, written, Reply::written);
            }
            Operation::Flush { handle, .. } | Operation::Fsync { handle, .. } => {
                done(reply, self.sync(&mut asker, handle));
            }
            Operation::OpenDirectory { .. } => {
                let opened = self.open_directory(inode).map(|handle| Opened::new(handle, OpenFlags::default()));
                answer(reply, opened, |reply, opened| reply.opened(&opened));
            }
            Operation::ReadDirectory { handle, offset, size } => {
                let listed = self.read_directory(&mut asker, (handle, offset, size), Detail::Names);
                answer(reply, listed, |reply, (buffer, _)| reply.directory(&buffer));
            }
            Operation::ReadDirectoryPlus { handle, offset, size } => {
                let listed = self.read_directory(&mut asker, (handle, offset, size), Detail::Attributes);
                self.deliver_plus(reply, listed);
            }
            Operation::StatFs => {
                let found = self.statistics(&mut asker);
                answer(reply, found, |reply, statistics| reply.statistics(&statistics));
            }
            other => {
                reply.result(without_server(&other));
            }
        }
    }

    fn reply_entry(self: &Arc<Self>, asker: &mut Asker<'_>, request: &Request, reply: Reply) {
        let inode = request.inode();
        let entry = match request.operation() {
            Operation::Symlink { name, target } => {
                self.place(inode, name).and_then(|at| self.symlink(asker, &at, target))
            }
            Operation::MakeNode { name, mode, device, .. } => {
                self.place(inode, name).and_then(|at| self.make_node(asker, &at, NewNode { mode, device }))
            }
            Operation::MakeDirectory { name, mode, .. } => {
                self.place(inode, name).and_then(|at| self.make_directory(asker, &at, mode))
            }
            Operation::Link { inode: file, new_name } => self.place(inode, new_name).and_then(|at| {
                let file = self.node(file)?;
                self.link(asker, &file, &at)
            }),
            Operation::Lookup { name } => self.place(inode, name).and_then(|at| self.lookup(asker, &at)),
            _ => Err(Fail(Errno::NOSYS)),
        };
        match entry {
            Ok(entry) => {
                if reply.entry(&entry) == Delivery::Gone && entry.inode != Inode::NONE {
                    self.nodes.forget(entry.inode, 1);
                }
            }
            Err(Fail(errno)) => {
                reply.error(errno);
            }
        }
    }

    fn reply_created(
        self: &Arc<Self>,
        asker: &mut Asker<'_>,
        (inode, name): (Inode, &OsStr),
        (flags, mode): (i32, u32),
        reply: Reply,
    ) {
        let if_taken = if flags & libc::O_EXCL != 0 { IfTaken::Refuse } else { IfTaken::Use };
        let created = self.place(inode, name).and_then(|at| self.create(asker, &at, mode, if_taken));
        let (node, entry) = match created {
            Ok(created) => created,
            Err(Fail(errno)) => {
                reply.error(errno);
                return;
            }
        };
        // Somebody else made it meanwhile.
        if flags & libc::O_TRUNC != 0 && entry.attributes.size > 0 {
            let change = wayfs_fuse::SetAttributes { size: Some(0), ..wayfs_fuse::SetAttributes::default() };
            if let Err(Fail(errno)) = self.set_attributes(asker, &node, &change) {
                self.nodes.forget(entry.inode, 1);
                reply.error(errno);
                return;
            }
        }
        let handle = self.add_open(asker, &node, Access::of(flags));
        self.may_keep_pages(&node);
        let entry = wayfs_fuse::Entry { attributes: self.shown(&node), ..entry };
        if reply.created(&entry, &Opened::new(handle, OpenFlags::default())) == Delivery::Gone {
            self.release(handle);
            self.nodes.forget(entry.inode, 1);
        }
    }

    fn change_names(self: &Arc<Self>, asker: &mut Asker<'_>, request: &Request) -> Result<(), Fail> {
        let inode = request.inode();
        match request.operation() {
            Operation::Unlink { name } => self.unlink(asker, &self.place(inode, name)?),
            Operation::RemoveDirectory { name } => self.remove_directory(asker, &self.place(inode, name)?),
            Operation::Rename { name, new_parent, new_name, flags } => {
                let (from, to) = (self.place(inode, name)?, self.place(new_parent, new_name)?);
                self.rename(asker, &from, &to, flags)
            }
            _ => Err(Fail(Errno::NOSYS)),
        }
    }

    fn deliver_open(self: &Arc<Self>, reply: Reply, opened: Result<Opened, Fail>) {
        match opened {
            Ok(opened) => {
                if reply.opened(&opened) == Delivery::Gone {
                    self.release(opened.handle());
                }
            }
            Err(Fail(errno)) => {
                reply.error(errno);
            }
        }
    }

    fn deliver_plus(&self, reply: Reply, listed: Result<(wayfs_fuse::DirectoryBuffer, Vec<Inode>), Fail>) {
        match listed {
            Ok((buffer, known)) => {
                if reply.directory(&buffer) == Delivery::Gone {
                    known.into_iter().for_each(|inode| self.nodes.forget(inode, 1));
                }
            }
            Err(Fail(errno)) => {
                reply.error(errno);
            }
        }
    }
}

/// What version 3 has no procedure for.
fn without_server(operation: &Operation<'_>) -> Result<(), Errno> {
    match operation {
        // Changes of directories are on the server's disk when they are answered.
        Operation::FsyncDirectory { .. } | Operation::SyncFileSystem => Ok(()),
        Operation::Fallocate { .. } | Operation::TemporaryFile { .. } => Err(Errno::OPNOTSUPP),
        Operation::Ioctl { .. } => Err(Errno::NOTTY),
        _ => Err(Errno::NOSYS),
    }
}

fn answer<T>(reply: Reply, outcome: Result<T, Fail>, with: impl FnOnce(Reply, T) -> Delivery) {
    match outcome {
        Ok(value) => with(reply, value),
        Err(Fail(errno)) => reply.error(errno),
    };
}

fn done(reply: Reply, outcome: Result<(), Fail>) {
    reply.result(outcome.map_err(|Fail(errno)| errno));
}
