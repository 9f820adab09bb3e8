//! Looking up, making, moving and removing names.

use crate::asker::Asker;
use crate::fail::Fail;
use crate::nodes::{Name, Node};
use crate::users::Waiter;
use crate::vfs::{Vfs, fresh_mark, random};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use wayfs_fuse::{Entry, Errno, Inode, RenameFlags};
use wayfs_nfs::calls::{self, Place};
use wayfs_nfs::operations::{self, IfTaken, Located};
use wayfs_nfs::{FileKind, Handle, SetAttributes, Status};

/// Longest name that version 3 servers take.
const NAME_MAX: usize = 255;
/// Names that are tried for a file that is removed while it is open.
const SILLY_TRIES: u32 = 100;

/// A name in a directory that the kernel knows.
pub(crate) struct At<'a> {
    pub(crate) parent: Arc<Node>,
    pub(crate) name: &'a [u8],
}

impl At<'_> {
    pub(crate) fn key(&self) -> Name {
        (self.parent.number, self.name.to_vec())
    }
}

/// What is to be made by `mknod`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewNode {
    pub(crate) mode: u32,
    /// As the kernel packs it.
    pub(crate) device: u32,
}

impl Vfs {
    pub(crate) fn place<'a>(&self, parent: Inode, name: &'a OsStr) -> Result<At<'a>, Fail> {
        if name.len() > NAME_MAX {
            return Err(Fail(Errno::NAMETOOLONG));
        }
        Ok(At { parent: self.node(parent)?, name: name.as_bytes() })
    }

    /// Looks a name up; one that is not there is an entry, too.
    pub(crate) fn lookup(&self, asker: &mut Asker<'_>, at: &At<'_>) -> Result<Entry, Fail> {
        match self.find(asker, at) {
            Ok(found) => Ok(self.entry(found, at.key()).1),
            Err(Fail(Errno::NOENT)) => Ok(Entry::negative(self.caching.absent)),
            Err(fail) => Err(fail),
        }
    }

    fn find(&self, asker: &mut Asker<'_>, at: &At<'_>) -> Result<Located, Fail> {
        let name = at.name;
        self.on(asker, &at.parent, |asker, directory| operations::lookup(asker, Place { directory, name }))
    }

    pub(crate) fn make_directory(&self, asker: &mut Asker<'_>, at: &At<'_>, mode: u32) -> Result<Entry, Fail> {
        let (with, mark, name) = (with_mode(mode), fresh_mark(), at.name);
        let made = self.on(asker, &at.parent, |asker, directory| {
            operations::make_directory(asker, Place { directory, name }, &with, mark)
        })?;
        Ok(self.entry(made, at.key()).1)
    }

    pub(crate) fn symlink(&self, asker: &mut Asker<'_>, at: &At<'_>, target: &OsStr) -> Result<Entry, Fail> {
        let (with, mark, name) = (SetAttributes::default(), fresh_mark(), at.name);
        let made = self.on(asker, &at.parent, |asker, directory| {
            operations::symlink(asker, Place { directory, name }, target.as_bytes(), &with, mark)
        })?;
        Ok(self.entry(made, at.key()).1)
    }

    pub(crate) fn make_node(&self, asker: &mut Asker<'_>, at: &At<'_>, new: NewNode) -> Result<Entry, Fail> {
        let NewNode { mode, device } = new;
        // As the kernel packs device numbers.
        let (major, minor) = ((device >> 8) & 0xfff, (device & 0xff) | ((device >> 12) & 0xf_ff00));
        let node = match mode & libc::S_IFMT {
            libc::S_IFREG => return Ok(self.create(asker, at, mode, IfTaken::Refuse)?.1),
            libc::S_IFCHR => calls::Node::CharacterDevice(major, minor),
            libc::S_IFBLK => calls::Node::BlockDevice(major, minor),
            libc::S_IFSOCK => calls::Node::Socket,
            libc::S_IFIFO => calls::Node::Pipe,
            _ => return Err(Fail(Errno::INVAL)),
        };
        let (with, mark, name) = (with_mode(mode), fresh_mark(), at.name);
        let made = self.on(asker, &at.parent, |asker, directory| {
            operations::make_node(asker, Place { directory, name }, node, &with, mark)
        })?;
        Ok(self.entry(made, at.key()).1)
    }

    pub(crate) fn create(
        &self,
        asker: &mut Asker<'_>,
        at: &At<'_>,
        mode: u32,
        if_taken: IfTaken,
    ) -> Result<(Arc<Node>, Entry), Fail> {
        let (with, mark, name) = (with_mode(mode), fresh_mark(), at.name);
        let made = self.on(asker, &at.parent, |asker, directory| {
            operations::create(asker, Place { directory, name }, if_taken, &with, mark)
        })?;
        if made.attributes.kind != FileKind::Regular {
            // Somebody else made something of this name meanwhile: the kernel looks again.
            return Err(Fail(Errno::STALE));
        }
        Ok(self.entry(made, at.key()))
    }

    pub(crate) fn link(&self, asker: &mut Asker<'_>, file: &Arc<Node>, at: &At<'_>) -> Result<Entry, Fail> {
        let (name, directory) = (at.name, at.parent.handle());
        let attributes =
            self.on(asker, file, |asker, file| operations::link(asker, file, Place { directory: &directory, name }))?;
        let handle = file.handle();
        Ok(self.entry(Located { handle, attributes }, at.key()).1)
    }

    pub(crate) fn remove_directory(&self, asker: &mut Asker<'_>, at: &At<'_>) -> Result<(), Fail> {
        let name = at.name;
        self.on(asker, &at.parent, |asker, directory| operations::remove_directory(asker, Place { directory, name }))?;
        self.nodes.unname(&at.key());
        Ok(())
    }

    /// Removes a file's name; a file that is open here gets another name until it is closed.
    pub(crate) fn unlink(&self, asker: &mut Asker<'_>, at: &At<'_>) -> Result<(), Fail> {
        if let Some(node) = self.open_under(at) {
            return self.make_silly(asker, at, &node);
        }
        let name = at.name;
        self.on(asker, &at.parent, |asker, directory| operations::remove(asker, Place { directory, name }))?;
        self.nodes.unname(&at.key());
        Ok(())
    }

    /// The file of a name, if it is open and has no other place to wait.
    fn open_under(&self, at: &At<'_>) -> Option<Arc<Node>> {
        let node = self.nodes.by_name(&at.key())?;
        let is_open = {
            let state = node.lock();
            state.opens > 0 && state.silly.is_none() && state.attributes.kind == FileKind::Regular
        };
        is_open.then_some(node)
    }

    fn make_silly(&self, asker: &mut Asker<'_>, at: &At<'_>, node: &Arc<Node>) -> Result<(), Fail> {
        let file_id = node.lock().attributes.file_id;
        for _ in 0..SILLY_TRIES {
            let silly = format!(".nfs{file_id:016x}{:08x}", random()).into_bytes();
            // A rename would replace whatever has that name.
            let other = At { parent: Arc::clone(&at.parent), name: &silly };
            match self.find(asker, &other) {
                Err(Fail(Errno::NOENT)) => {}
                Ok(_) => continue,
                Err(fail) => return Err(fail),
            }
            self.move_name(asker, at, &other, node)?;
            node.lock().silly = Some(other.key());
            self.nodes.renamed(&at.key(), &other.key());
            return Ok(());
        }
        Err(Fail(Errno::BUSY))
    }

    fn move_name(&self, asker: &mut Asker<'_>, from: &At<'_>, to: &At<'_>, moved: &Node) -> Result<(), Fail> {
        let (moved, to_directory) = (moved.handle(), to.parent.handle());
        let (name, new_name) = (from.name, to.name);
        self.on(asker, &from.parent, |asker, directory| {
            let to = Place { directory: &to_directory, name: new_name };
            operations::rename(asker, Place { directory, name }, to, &moved)
        })
    }

    pub(crate) fn rename(
        &self,
        asker: &mut Asker<'_>,
        from: &At<'_>,
        to: &At<'_>,
        flags: RenameFlags,
    ) -> Result<(), Fail> {
        // Version 3 knows no other way of moving.
        if flags != RenameFlags::default() {
            return Err(Fail(Errno::INVAL));
        }
        let moved = match self.nodes.by_name(&from.key()) {
            Some(node) => node,
            None => {
                let found = self.find(asker, from)?;
                let node = self.nodes.looked_up(found, from.key());
                self.nodes.forget(node.inode(), 1);
                node
            }
        };
        let target = self.open_under(to).filter(|target| target.number != moved.number);
        if let Some(target) = &target {
            self.make_silly(asker, to, target)?;
        }
        if let Err(fail) = self.move_name(asker, from, to, &moved) {
            self.give_back(asker, to, target);
            return Err(fail);
        }
        self.nodes.renamed(&from.key(), &to.key());
        Ok(())
    }

    /// The file that made room for one that did not come gets its name again.
    fn give_back(&self, asker: &mut Asker<'_>, to: &At<'_>, target: Option<Arc<Node>>) {
        let Some(target) = target else { return };
        let Some(silly) = target.lock().silly.take() else { return };
        let from = At { parent: Arc::clone(&to.parent), name: &silly.1 };
        match self.move_name(asker, &from, to, &target) {
            Ok(()) => self.nodes.renamed(&silly, &to.key()),
            Err(Fail(errno)) => {
                tracing::warn!(%errno, "a file that was open keeps the name it got");
                target.lock().silly = Some(silly);
            }
        }
    }

    /// A file that was removed while it was open was closed.
    pub(crate) fn remove_silly(&self, name: &Name) {
        let Some(parent) = self.nodes.find(Inode::new(name.0)) else { return };
        let mut asker = self.asker(Arc::clone(&self.own), Waiter::nobody());
        let removed = self.on(&mut asker, &parent, |asker, directory: &Handle| {
            match operations::remove(asker, Place { directory, name: &name.1 })? {
                Err(Status::NOENT) => Ok(Ok(())),
                other => Ok(other),
            }
        });
        if let Err(Fail(errno)) = removed {
            tracing::warn!(%errno, "a file that was removed while it was open is left");
        }
        self.nodes.unname(name);
    }
}

/// The attributes of something new.
fn with_mode(mode: u32) -> SetAttributes {
    SetAttributes { mode: Some(mode & 0o7777), ..SetAttributes::default() }
}
