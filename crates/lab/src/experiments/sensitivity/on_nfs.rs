//! The load on an NFS server: the calls themselves, with nothing cached.

use super::file_set::{FileSet, directory_name, link_name};
use crate::LabError;
use crate::experiments::noise::noise;
use crate::load::{Operation, Worker};
use crate::nfs::{Handle, NfsClient, NfsError, Stability};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Handles of the set, which clients of NFS keep.
pub(super) struct Handles {
    set: FileSet,
    directories: BTreeMap<usize, Handle>,
    files: Vec<Handle>,
    links: BTreeMap<usize, Vec<Handle>>,
}

impl Handles {
    /// Asks for all of them.
    pub(super) fn of(set: FileSet, client: &mut NfsClient) -> Result<Arc<Self>, LabError> {
        let failed = |error: NfsError| LabError::Experiment(format!("look the file set up: {error}"));
        let root = client.root();
        let (mut directories, mut files, mut links) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
        for file in &set.files {
            let number = file.directory;
            if let std::collections::btree_map::Entry::Vacant(place) = directories.entry(number) {
                let directory = client.lookup(&root, &directory_name(number)).map_err(failed)?;
                let found: Result<Vec<Handle>, NfsError> =
                    (0..5).map(|link| client.lookup(&directory, &link_name(link))).collect();
                links.insert(number, found.map_err(failed)?);
                place.insert(directory);
            }
            files.push(client.lookup(&directories[&number], &file.name).map_err(failed)?);
        }
        Ok(Arc::new(Self { set, directories, files, links }))
    }
}

/// A worker with a client of its own.
pub(super) struct NfsWorker {
    client: NfsClient,
    handles: Arc<Handles>,
    number: usize,
    made: u64,
    written: usize,
}

impl NfsWorker {
    pub(super) fn new(client: NfsClient, handles: &Arc<Handles>, number: usize) -> Self {
        Self { client, handles: Arc::clone(handles), number, made: 0, written: 0 }
    }

    fn try_to(&mut self, operation: Operation, random: u64) -> Result<(), NfsError> {
        let handles = Arc::clone(&self.handles);
        let (number, block) = handles.set.pick(random);
        let (file, member) = (&handles.files[number], &handles.set.files[number]);
        let directory = &handles.directories[&member.directory];
        let client = &mut self.client;
        match operation {
            Operation::Lookup => client.lookup(directory, &member.name).map(drop),
            Operation::Read => client.read(file, block.offset, block.len as u32).map(drop),
            Operation::Write => {
                self.written = number;
                client.write(file, block.offset, &noise(random, block.len as usize), Stability::Unstable)
            }
            Operation::Getattr => client.getattr(file).map(drop),
            Operation::Readlink => {
                let links = &handles.links[&member.directory];
                client.readlink(&links[(random >> 8) as usize % links.len()]).map(drop)
            }
            Operation::Readdir => client.readdir(directory).map(drop),
            Operation::Readdirplus => client.readdirplus(directory).map(drop),
            Operation::Create => {
                self.made += 1;
                client.create(directory, &format!("own-{}-{}", self.number, self.made % 50))
            }
            Operation::Remove => match client.remove(directory, &format!("own-{}-{}", self.number, self.made % 50)) {
                // Nothing was made there: asking for it is the operation then.
                Err(NfsError::Status { status: nfs3_types::nfs3::nfsstat3::NFS3ERR_NOENT, .. }) => Ok(()),
                other => other,
            },
            Operation::Fsstat => client.fsstat().map(drop),
            Operation::Setattr => client.setattr(file, 0o600 | random as u32 & 0o77),
            Operation::Access => client.access(file).map(drop),
            Operation::Commit => client.commit(&handles.files[self.written]),
        }
    }
}

impl Worker for NfsWorker {
    fn carry_out(&mut self, operation: Operation, random: u64) -> Result<(), String> {
        self.try_to(operation, random).map_err(|error| format!("{operation:?}: {error}"))
    }
}
