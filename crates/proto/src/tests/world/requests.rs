//! What programs ask of a host.

use super::{World, name};
use crate::Input;
use std::sync::Arc;
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Level, Outcome, RenameTarget, Request, RequestId};
use wayfs_types::{Content, FileId, FsError, Inode, Kind, RecordId};

impl World {
    pub(crate) fn request_within(&mut self, host: usize, request: Request, span: Duration) -> RequestId {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        let deadline = self.now + span;
        self.input(host, Input::Request { id, request, deadline });
        id
    }

    pub(crate) fn request(&mut self, host: usize, request: Request) -> RequestId {
        self.request_within(host, request, Duration::from_secs(5))
    }

    pub(crate) fn answer(&mut self, host: usize, id: RequestId) -> Option<Outcome> {
        self.hosts[host].answers.get(&id).cloned()
    }

    /// Asks and lets the world settle, and then time pass, until the answer is there.
    /// Whether a request was answered, and well.
    pub(crate) fn answers_ok(&mut self, host: usize, id: RequestId) -> bool {
        matches!(self.answer(host, id), Some(Ok(_)))
    }

    pub(crate) fn ask(&mut self, host: usize, request: Request) -> Outcome {
        let id = self.request(host, request);
        self.settle();
        for _ in 0..20 {
            if let Some(outcome) = self.answer(host, id) {
                return outcome;
            }
            self.pass(Duration::from_millis(500));
        }
        panic!("no answer to a request long after its deadline");
    }

    pub(crate) fn change(&mut self, host: usize, change: Change) -> Result<(RecordId, FileId, Arc<Inode>), FsError> {
        let id = self.request(host, Request::Change { user: 0, change });
        for _ in 0..10_000 {
            if let Some(outcome) = self.answer(host, id) {
                return match outcome? {
                    Answer::Changed { record, file, inode, .. } => Ok((record, file, inode)),
                    other => panic!("unexpected {other:?}"),
                };
            }
            if !self.step() {
                self.pass(Duration::from_millis(500));
            }
        }
        panic!("no answer to a change");
    }

    pub(crate) fn create(&mut self, host: usize, parent: FileId, text: &str) -> FileId {
        let change = Change::Create { parent, name: name(text), kind: Kind::File, mode: 0o644, uid: 1, gid: 1 };
        self.change(host, change).unwrap().1
    }

    /// Asks for a file to be made and does not care.
    pub(crate) fn try_create(&mut self, host: usize, parent: FileId, text: &str) {
        let change = Change::Create { parent, name: name(text), kind: Kind::File, mode: 0o644, uid: 1, gid: 1 };
        self.request(host, Request::Change { user: 0, change });
    }

    pub(crate) fn mkdir(&mut self, host: usize, parent: FileId, text: &str) -> FileId {
        let change = Change::Mkdir { parent, name: name(text), mode: 0o755, uid: 1, gid: 1 };
        self.change(host, change).unwrap().1
    }

    pub(crate) fn rename(
        &mut self,
        host: usize,
        from: (FileId, &str),
        to: (FileId, &str),
    ) -> Result<RecordId, FsError> {
        let change = Change::Rename {
            from_parent: from.0,
            from_name: name(from.1),
            to_parent: to.0,
            to_name: name(to.1),
            target: RenameTarget::Replace,
        };
        Ok(self.change(host, change)?.0)
    }

    pub(crate) fn exchange(
        &mut self,
        host: usize,
        from: (FileId, &str),
        to: (FileId, &str),
    ) -> Result<RecordId, FsError> {
        let (from_parent, from_name) = (from.0, name(from.1));
        let (to_parent, to_name) = (to.0, name(to.1));
        let target = RenameTarget::Exchange;
        Ok(self.change(host, Change::Rename { from_parent, from_name, to_parent, to_name, target })?.0)
    }

    /// Stores upon the version that the host sees.
    pub(crate) fn store(&mut self, host: usize, file: FileId, content: Content) -> RecordId {
        if let Some(root) = content.root() {
            self.hosts[host].chunks.insert(root);
        }
        let base = self.hosts[host].replica.inode(file).unwrap().unwrap().version;
        let mtime = self.wall();
        self.change(host, Change::Store { file, base, content, mtime }).unwrap().0
    }

    pub(crate) fn lookup(&mut self, host: usize, parent: FileId, text: &str) -> Result<(FileId, Arc<Inode>), FsError> {
        match self.ask(host, Request::Lookup { parent, name: name(text) })? {
            Answer::File(file, inode) => Ok((file, inode)),
            other => panic!("unexpected {other:?}"),
        }
    }

    pub(crate) fn names(&mut self, host: usize, directory: FileId) -> Result<Vec<String>, FsError> {
        let (mut names, mut after) = (Vec::new(), None);
        loop {
            match self.ask(host, Request::List { directory, after, limit: 50 })? {
                Answer::List { entries, end } => {
                    names.extend(entries.iter().map(|(name, ..)| name.to_string()));
                    after = entries.last().map(|(name, ..)| name.clone());
                    if end {
                        return Ok(names);
                    }
                    assert!(!entries.is_empty(), "a page without an end is not empty");
                }
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    pub(crate) fn wait(&mut self, host: usize, until: Level) -> Outcome {
        self.ask(host, Request::Wait { record: None, until })
    }
}
