//! Calls of the NFS version 3 protocol (RFC 1813), one function each.

use super::rpc::{CallStatistics, Caller, Procedure, Retry, RpcError, Transport};
use super::server::{MOUNT_PORT, NFS_PORT};
use crate::{LabError, Topology};
use nfs3_types::nfs3::{
    ACCESS3args, ACCESS3res, COMMIT3args, COMMIT3res, CREATE3args, CREATE3res, FSSTAT3args, FSSTAT3res, GETATTR3args,
    GETATTR3res, LOOKUP3args, LOOKUP3res, NFS_PROGRAM, Nfs3Option, Nfs3Result, PROGRAM, READ3args, READ3res,
    READDIR3args, READDIR3res, READDIRPLUS3args, READDIRPLUS3res, READLINK3args, READLINK3res, REMOVE3args, REMOVE3res,
    SETATTR3args, SETATTR3res, VERSION, WRITE3args, WRITE3res, cookieverf3, createhow3, diropargs3, filename3, nfs_fh3,
    nfsstat3, sattr3, stable_how,
};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack};
use nfs3_types::{mount, nfs3};
use std::io::Cursor;
use std::net::SocketAddr;

/// A file as the server names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handle(nfs_fh3);

/// How durable a write is when it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stability {
    /// After the next commit.
    Unstable,
    /// At once.
    FileSync,
}

/// Why a call gave no result.
#[derive(Debug, thiserror::Error)]
pub enum NfsError {
    /// No answer, or none that could be read.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The server says no.
    #[error("{procedure}: {status}")]
    Status {
        /// To what.
        procedure: NFS_PROGRAM,
        /// And why.
        status: nfsstat3,
    },
}

/// A client of one export, with one call outstanding at a time. Its socket belongs to the host it was made on.
#[derive(Debug)]
pub struct NfsClient {
    caller: Caller,
    root: Handle,
}

impl NfsClient {
    /// Mounts the export of the server on a host, from another.
    ///
    /// # Errors
    /// [`LabError`] if a host is unknown or the server does not let us.
    pub fn mount(
        lab: &Topology,
        from: &str,
        server: &str,
        export: &str,
        (transport, retry): (Transport, Retry),
    ) -> Result<Self, LabError> {
        let address = lab.address(server)?;
        let connect = |port| {
            let retry = retry.clone();
            lab.inside(from, move || Caller::connect(transport, SocketAddr::new(address.into(), port), retry))?
                .map_err(LabError::io("connect to the NFS server"))
        };
        let (mut mounter, caller) = (connect(MOUNT_PORT)?, connect(NFS_PORT)?);
        let root = mount_root(&mut mounter, export)
            .map_err(|error| LabError::Experiment(format!("mount {export} of {server}: {error}")))?;
        Ok(Self { caller, root })
    }

    /// The root of the export.
    pub fn root(&self) -> Handle {
        self.root.clone()
    }

    /// What calls cost so far.
    pub const fn statistics(&self) -> CallStatistics {
        self.caller.statistics
    }

    /// The file of a name.
    ///
    /// # Errors
    /// [`NfsError`], as all of these.
    pub fn lookup(&mut self, directory: &Handle, name: &str) -> Result<Handle, NfsError> {
        let what = entry(directory, name);
        let found: LOOKUP3res = self.call(NFS_PROGRAM::NFSPROC3_LOOKUP, &LOOKUP3args { what })?;
        ok(NFS_PROGRAM::NFSPROC3_LOOKUP, found).map(|found| Handle(found.object))
    }

    /// The size of a file.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn getattr(&mut self, file: &Handle) -> Result<u64, NfsError> {
        let arguments = GETATTR3args { object: file.0.clone() };
        let found: GETATTR3res = self.call(NFS_PROGRAM::NFSPROC3_GETATTR, &arguments)?;
        ok(NFS_PROGRAM::NFSPROC3_GETATTR, found).map(|found| found.obj_attributes.size)
    }

    /// Sets the mode of a file.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn setattr(&mut self, file: &Handle, mode: u32) -> Result<(), NfsError> {
        let new_attributes = sattr3 { mode: Nfs3Option::Some(mode), ..sattr3::default() };
        let arguments = SETATTR3args { object: file.0.clone(), new_attributes, guard: Nfs3Option::None };
        let done: SETATTR3res = self.call(NFS_PROGRAM::NFSPROC3_SETATTR, &arguments)?;
        ok(NFS_PROGRAM::NFSPROC3_SETATTR, done).map(drop)
    }

    /// Which rights we have.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn access(&mut self, file: &Handle) -> Result<u32, NfsError> {
        let access = nfs3::ACCESS3_READ | nfs3::ACCESS3_MODIFY | nfs3::ACCESS3_EXECUTE;
        let arguments = ACCESS3args { object: file.0.clone(), access };
        let found: ACCESS3res = self.call(NFS_PROGRAM::NFSPROC3_ACCESS, &arguments)?;
        ok(NFS_PROGRAM::NFSPROC3_ACCESS, found).map(|found| found.access)
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn readlink(&mut self, link: &Handle) -> Result<Vec<u8>, NfsError> {
        let arguments = READLINK3args { symlink: link.0.clone() };
        let found: READLINK3res<'static> = self.call(NFS_PROGRAM::NFSPROC3_READLINK, &arguments)?;
        ok(NFS_PROGRAM::NFSPROC3_READLINK, found).map(|found| found.data.0.into_owned())
    }

    /// Bytes of a file; fewer at its end.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn read(&mut self, file: &Handle, offset: u64, count: u32) -> Result<Vec<u8>, NfsError> {
        let arguments = READ3args { file: file.0.clone(), offset, count };
        let found: READ3res<'static> = self.call(NFS_PROGRAM::NFSPROC3_READ, &arguments)?;
        ok(NFS_PROGRAM::NFSPROC3_READ, found).map(|found| found.data.into_owned())
    }

    /// Writes bytes into a file.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn write(&mut self, file: &Handle, offset: u64, bytes: &[u8], stability: Stability) -> Result<(), NfsError> {
        let stable = match stability {
            Stability::Unstable => stable_how::UNSTABLE,
            Stability::FileSync => stable_how::FILE_SYNC,
        };
        let (file, count, data) = (file.0.clone(), bytes.len() as u32, Opaque::borrowed(bytes));
        let arguments = WRITE3args { file, offset, count, stable, data };
        let done: WRITE3res = self.call(NFS_PROGRAM::NFSPROC3_WRITE, &arguments)?;
        ok(NFS_PROGRAM::NFSPROC3_WRITE, done).map(drop)
    }

    /// Makes all writes to a file durable.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn commit(&mut self, file: &Handle) -> Result<(), NfsError> {
        let arguments = COMMIT3args { file: file.0.clone(), offset: 0, count: 0 };
        let done: COMMIT3res = self.call(NFS_PROGRAM::NFSPROC3_COMMIT, &arguments)?;
        ok(NFS_PROGRAM::NFSPROC3_COMMIT, done).map(drop)
    }

    /// Makes an empty file, or finds the one of that name.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn create(&mut self, directory: &Handle, name: &str) -> Result<(), NfsError> {
        let attributes = sattr3 { mode: Nfs3Option::Some(0o644), ..sattr3::default() };
        let arguments = CREATE3args { where_: entry(directory, name), how: createhow3::UNCHECKED(attributes) };
        let done: CREATE3res = self.call(NFS_PROGRAM::NFSPROC3_CREATE, &arguments)?;
        ok(NFS_PROGRAM::NFSPROC3_CREATE, done).map(drop)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn remove(&mut self, directory: &Handle, name: &str) -> Result<(), NfsError> {
        let object = entry(directory, name);
        let done: REMOVE3res = self.call(NFS_PROGRAM::NFSPROC3_REMOVE, &REMOVE3args { object })?;
        ok(NFS_PROGRAM::NFSPROC3_REMOVE, done).map(drop)
    }

    /// Names in a directory, as many as fit into 4 KiB.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn readdir(&mut self, directory: &Handle) -> Result<usize, NfsError> {
        let (dir, cookieverf) = (directory.0.clone(), cookieverf3::default());
        let arguments = READDIR3args { dir, cookie: 0, cookieverf, count: 4096 };
        let found: READDIR3res<'static> = self.call(NFS_PROGRAM::NFSPROC3_READDIR, &arguments)?;
        ok(NFS_PROGRAM::NFSPROC3_READDIR, found).map(|found| found.reply.entries.0.len())
    }

    /// Names in a directory with handles and attributes, as many as fit into 8 KiB.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn readdirplus(&mut self, directory: &Handle) -> Result<usize, NfsError> {
        let (dir, cookieverf) = (directory.0.clone(), cookieverf3::default());
        let arguments = READDIRPLUS3args { dir, cookie: 0, cookieverf, dircount: 4096, maxcount: 8192 };
        let found: READDIRPLUS3res<'static> = self.call(NFS_PROGRAM::NFSPROC3_READDIRPLUS, &arguments)?;
        ok(NFS_PROGRAM::NFSPROC3_READDIRPLUS, found).map(|found| found.reply.entries.0.len())
    }

    /// Free bytes.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn fsstat(&mut self) -> Result<u64, NfsError> {
        let arguments = FSSTAT3args { fsroot: self.root.0.clone() };
        let found: FSSTAT3res = self.call(NFS_PROGRAM::NFSPROC3_FSSTAT, &arguments)?;
        ok(NFS_PROGRAM::NFSPROC3_FSSTAT, found).map(|found| found.fbytes)
    }

    fn call<R: Unpack>(&mut self, procedure: NFS_PROGRAM, arguments: &impl Pack) -> Result<R, NfsError> {
        let procedure = Procedure { program: PROGRAM, version: VERSION, number: procedure as u32 };
        let results = self.caller.call(procedure, arguments)?;
        let (result, _) = R::unpack(&mut Cursor::new(results)).map_err(RpcError::from)?;
        Ok(result)
    }
}

fn entry<'a>(directory: &Handle, name: &'a str) -> diropargs3<'a> {
    diropargs3 { dir: directory.0.clone(), name: filename3(Opaque::borrowed(name.as_bytes())) }
}

fn ok<T, E>(procedure: NFS_PROGRAM, result: Nfs3Result<T, E>) -> Result<T, NfsError> {
    match result {
        Nfs3Result::Ok(result) => Ok(result),
        Nfs3Result::Err((status, _)) => Err(NfsError::Status { procedure, status }),
    }
}

fn mount_root(caller: &mut Caller, export: &str) -> Result<Handle, RpcError> {
    let number = mount::MOUNT_PROGRAM::MOUNTPROC3_MNT as u32;
    let procedure = Procedure { program: mount::PROGRAM, version: mount::VERSION, number };
    let results = caller.call(procedure, &mount::dirpath(Opaque::borrowed(export.as_bytes())))?;
    match mount::mountres3::unpack(&mut Cursor::new(results))?.0 {
        mount::mountres3::Ok(found) => Ok(Handle(nfs_fh3 { data: Opaque::owned(found.fhandle.0.into_owned()) })),
        mount::mountres3::Err(status) => Err(RpcError::Refused(status.to_string())),
    }
}
