//! Commits of open files, step by step: between two of them time passes, and anything may happen.

use super::event::OpenEvent;
use super::handle::HandleNumber;
use super::open_host::Running;
use super::side::AT_ONCE;
use crate::coverage::Branch;
use crate::host::Expectation;
use crate::world::World;
use std::sync::Arc;
use wayfs_openfiles::contents::OldBase;
use wayfs_openfiles::{CommitResult, CommitStep, OpenFile, Store, Stored};
use wayfs_types::request::{Answer, Change, Outcome, Request, RequestId};
use wayfs_types::{Content, FileId, FsError, RecordId};

impl World {
    /// Begins a commit of a file, which the program of a handle may wait for.
    pub(super) fn begin_commit(&mut self, index: usize, file: FileId, handle: Option<HandleNumber>) {
        let Some(open) = self.hosts[index].open.as_mut() else { return };
        if let Some(running) = open.commits.get_mut(&file) {
            return running.later.extend(handle);
        }
        let waiting: Vec<HandleNumber> = handle.into_iter().collect();
        let open = self.on_table(index, |table| table.find(file));
        match open {
            Some(Some(open)) => self.begin_commit_of(index, open, waiting),
            Some(None) => self.commit_ended(index, &waiting, &Ok(None)),
            None => {}
        }
        self.begin_commit_beside(index, file);
    }

    /// Begins a commit of what an earlier process left beside a file, unless there is another one of the file.
    fn begin_commit_beside(&mut self, index: usize, file: FileId) {
        let is_running = self.hosts[index].open.as_ref().is_some_and(|open| open.commits.contains_key(&file));
        let left = self.on_table(index, |table| table.to_commit(file).into_iter().find(|left| left.is_beside()));
        if let Some(left) = left.flatten().filter(|_| !is_running) {
            self.cover(Branch::OpenFileLeftBeside);
            self.begin_commit_of(index, left, Vec::new());
        }
    }

    fn begin_commit_of(&mut self, index: usize, open: Arc<OpenFile>, waiting: Vec<HandleNumber>) {
        if let Some((commit, step)) = self.on_table(index, |table| table.commit_begin(&open)) {
            let running = Running { open, commit, content: None, views: Vec::new(), waiting, later: Vec::new() };
            self.go_on_with_commit(index, running, step);
        }
    }

    fn go_on_with_commit(&mut self, index: usize, mut running: Running, step: CommitStep) {
        let file = running.open.id();
        match step {
            CommitStep::Hash if running.open.is_beside() => {
                self.keep_running(index, running);
                let span = self.millis(0..=300);
                self.open_event_after(index, span, OpenEvent::Hash(file));
            }
            CommitStep::Hash => {
                self.observe(index, file);
                let view = self.view(index, file);
                if let Some(view) = view {
                    (view.taken_at, view.was_unknown_when_taken) = (Some(view.bytes.len()), view.is_unknown);
                    running.views = if view.is_unknown { Vec::new() } else { vec![view.bytes.clone()] };
                }
                self.keep_running(index, running);
                let span = self.millis(0..=300);
                self.open_event_after(index, span, OpenEvent::Hash(file));
            }
            CommitStep::Store(store) => {
                self.check_store(index, &store, &running.views);
                if running.views.len() > 1 {
                    self.cover(Branch::CommittedInSteps);
                }
                running.content = Some((store.content.clone(), store.base));
                self.keep_running(index, running);
                self.ask_for_store(index, store);
            }
            CommitStep::Over(result) => {
                let (open, waiting, later) = (Arc::clone(&running.open), running.waiting, running.later);
                let is_dirty = self.on_table(index, |table| {
                    table.commit_over(&open, &result);
                    open.is_dirty()
                });
                let (Some(is_dirty), Some(view)) = (is_dirty, self.view(index, file)) else { return };
                // One that is clean and that nobody has open is in no table any more.
                view.is_dirty = if open.is_beside() { view.is_dirty } else { is_dirty };
                self.observe(index, file);
                self.tell_kernel_of_wrong_pages(index);
                if let Some(open) = self.hosts[index].open.as_mut().filter(|_| result.is_ok()) {
                    open.wanted.remove(&file);
                }
                self.commit_ended(index, &waiting, &result);
                for handle in later {
                    self.begin_commit(index, file, Some(handle));
                }
            }
        }
    }

    fn keep_running(&mut self, index: usize, running: Running) {
        // A process that ended meanwhile has none.
        if let Some(open) = self.hosts[index].open.as_mut().filter(|open| open.table.is_some()) {
            open.commits.insert(running.open.id(), running);
        }
    }

    pub(super) fn hash(&mut self, index: usize, file: FileId) {
        let commits = self.hosts[index].open.as_mut().map(|open| &mut open.commits);
        // One that was hashed at once waits for the engine.
        let to_hash = commits.filter(|all| all.get(&file).is_some_and(|running| running.content.is_none()));
        let Some(mut running) = to_hash.and_then(|all| all.remove(&file)) else { return };
        let open = Arc::clone(&running.open);
        let step = self.on_table(index, |table| table.commit_hash(&open, AT_ONCE, &mut running.commit));
        if let Some(step) = step {
            self.go_on_with_commit(index, running, step);
        }
    }

    fn ask_for_store(&mut self, index: usize, store: Store) {
        let Store { user, file, base, content, mtime, old_base } = store;
        self.note_pieces(&content);
        let expectation = Expectation::Stored { base, content: content.clone() };
        let change = match old_base {
            OldBase::Conflicts => Change::Store { file, base, content, mtime },
            OldBase::IsRefused => Change::Append { file, base, content, mtime },
        };
        let host = &mut self.hosts[index];
        let id = RequestId(host.next_request + 1);
        if let Some(open) = host.open.as_mut() {
            open.requests.insert(id, file);
        }
        self.ask(index, Request::Change { user, change }, expectation);
    }

    /// The engine answered; if that was asked for by a commit, it goes on.
    pub(crate) fn store_answered(&mut self, index: usize, id: RequestId, outcome: &Outcome) {
        let Some(open) = self.hosts[index].open.as_mut() else { return };
        let Some(file) = open.requests.remove(&id) else { return };
        let Some(mut running) = open.commits.remove(&file) else { return };
        let answer = match outcome {
            Ok(Answer::Changed { record, inode, .. }) => Ok(Stored { record: *record, inode: inode.clone() }),
            Ok(_) => Err(FsError::Io),
            Err(error) => Err(*error),
        };
        let made = running.content.take().filter(|_| !running.open.is_beside());
        let into = if let Ok(Answer::Changed { file, .. }) = outcome { *file } else { file };
        self.note_stored(index, (file, into), &answer, made);
        let open = Arc::clone(&running.open);
        let step = self.on_table(index, |table| table.commit_stored(&open, &mut running.commit, answer));
        if let Some(step) = step {
            self.go_on_with_commit(index, running, step);
        }
    }

    /// What a record holds is what was written upon from now on. It holds it of the file, or of a copy.
    fn note_stored(
        &mut self,
        index: usize,
        (file, into): (FileId, FileId),
        answer: &Result<Stored, FsError>,
        made: Option<(Content, RecordId)>,
    ) {
        let made = made.and_then(|(content, base)| Some((self.content_bytes(&content)?, base)));
        if let (Ok(stored), Some((bytes, base))) = (answer, made)
            && let Some(view) = self.view(index, file)
        {
            view.note_made((stored.record, into), base, bytes);
        }
    }

    /// Programs that waited for a commit go on.
    fn commit_ended(&mut self, index: usize, waiting: &[HandleNumber], result: &CommitResult) {
        for handle in waiting {
            match result {
                Ok(_) => self.committed_for(index, *handle),
                // It is told so, and what it wrote is kept.
                Err(_) => self.let_go_on(index, *handle),
            }
        }
    }
}
