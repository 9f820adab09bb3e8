//! What open files have the journal say of them.
//!
//! Whatever changes bytes of a file that has a name says so before it is answered, under the lock of the file. What a
//! program writes past the daemon is in the body already, and of such a body one image says that all of it counts. Not
//! said at once are times, and stores into mappings, which come by no request: they are with the next step, or a second
//! later. That an open emptied a file is said with the first write, since a program is about to write there.
//!
//! Without room for the journal the file is as before, and what the journal says of it is older or nothing: writes are
//! never refused for that.

use super::body::{Body, BodyFile};
use super::body_files::BodyFiles;
use super::contents::Contents;
use super::journal::{Ending, Entry, Held, Image};
use super::journaled::{Journaled, Step};
use super::life::Changes;
use super::note::forget_note;
use super::state::State;
use super::table::FileTable;
use std::ops::Range;
use std::sync::Arc;
use wayfs_types::RecordId;

impl State {
    /// Has the journal say what was done.
    pub(super) fn journal(&mut self, contents: &dyn Contents, files: &BodyFiles, step: Step<'_>) {
        if self.life.is_removed() {
            return;
        }
        let Some(now) = self.journaled.as_ref().filter(|now| now.goes_on(self)) else {
            if !self.journal_image(contents, files) {
                self.miss(files, step);
            }
            return;
        };
        let generation = now.generation;
        let (entry, bytes) = match step {
            _ if matches!(now.held, Held::WholeBody(_)) => return,
            Step::Written(offset, data) => {
                (self.wrote(generation, offset..offset + data.len() as u64), std::borrow::Cow::from(data))
            }
            Step::Zeroed(offset, len) if now.held == Held::Here => {
                (self.wrote(generation, offset..offset + len), vec![0; len as usize].into())
            }
            Step::Zeroed(offset, len) => (self.wrote(generation, offset..offset + len), std::borrow::Cow::default()),
            Step::Resized => {
                let (size, mtime, user) = (self.size, self.mtime, self.user);
                (Entry::Resize { generation, size, mtime, user }, std::borrow::Cow::default())
            }
        };
        let bytes: &[u8] = if now.held == Held::Here { &bytes } else { &[] };
        if let Err(error) = files.journal().go_on(contents.written(), &entry, bytes) {
            tracing::debug!(%error, file = %self.base.file, "a kill of the daemon would lose the last write");
            self.is_refused = true;
            return self.miss(files, step);
        }
        if let Some(now) = &mut self.journaled {
            now.mtime = self.mtime;
        }
    }

    /// The first generation that says all that a note about a close made now would, or more. Wall clocks may be set back: their times
    /// say nothing of that.
    pub(super) fn generation_of_note(&mut self, files: &BodyFiles) -> u64 {
        if let Some(now) = self.journaled.as_ref().filter(|now| now.goes_on(self) && now.mtime == self.mtime) {
            return now.generation;
        }
        self.journal_is_behind();
        files.journal().coming_generation()
    }

    fn wrote(&self, generation: u64, range: Range<u64>) -> Entry {
        let (offset, len, is_appended) = (range.start, range.end - range.start, self.is_all_appended());
        Entry::Write { generation, offset, len, mtime: self.mtime, user: self.user, is_appended }
    }

    /// The journal did not take a step. Without a write it says what was before; without a cut it would bring back what is gone.
    fn miss(&mut self, files: &BodyFiles, step: Step<'_>) {
        let Some(now) = self.journaled.as_mut().filter(|now| now.settled.is_none()) else { return };
        now.is_behind = true;
        if matches!(step, Step::Resized) {
            files.journal().cross_out(now.generation, now.place);
            self.journaled = None;
        }
    }

    /// Has the journal say all that is uncommitted; whether it does.
    pub(super) fn journal_image(&mut self, contents: &dyn Contents, files: &BodyFiles) -> bool {
        let held = self.held();
        let (image, bytes) = self.image(files.journal().next_generation(), held);
        let (generation, base) = (image.generation, image.base.version);
        let begun = files.journal().begin(contents.written(), image, &bytes);
        self.is_refused = begun.is_err();
        match begun {
            Ok(place) => {
                let body = held.body().and_then(|_| self.body_file());
                let mtime = self.mtime;
                let (settled, is_named, is_behind) = (None, false, false);
                let now = Journaled { generation, place, base, held, body, mtime, settled, is_named, is_behind };
                if let Some(before) = self.journaled.replace(now)
                    && before.settled.is_some()
                {
                    Self::end_generation(before, contents, files);
                }
                if !matches!(held, Held::WholeBody(_)) {
                    self.forget_notes(files);
                }
                true
            }
            Err(error) => {
                tracing::debug!(%error, file = %self.base.file, "a kill of the daemon would lose what was written");
                self.journal_is_behind();
                false
            }
        }
    }

    /// The journal says all of the file from now on, and a note about a close that was committed counts no more. It must not count again
    /// when the journal says that this ended: the body is another by then.
    fn forget_notes(&self, files: &BodyFiles) {
        self.life.noted().iter().for_each(|closing| forget_note(files.disk(), &closing.note));
    }

    /// What a generation says is in a record, or nobody wants it.
    fn end_generation(ended: Journaled, contents: &dyn Contents, files: &BodyFiles) {
        let recorded = contents.recorded();
        let body = ended.body.filter(|_| contents.written() < recorded);
        files.journal().end(Ending { generation: ended.generation, recorded, body }, ended.settled);
    }

    fn image(&self, generation: u64, held: Held) -> (Image, Vec<u8>) {
        let all = self.all_changes();
        let replaces =
            self.journaled.as_ref().filter(|before| before.settled.is_none()).map(|before| before.generation);
        let mut bytes = Vec::new();
        if let (Held::Here, Some(Body::Memory(all_bytes))) = (held, self.life.body()) {
            for range in all.ranges.iter() {
                bytes.extend_from_slice(all_bytes.get(range.start as usize..range.end as usize).unwrap_or_default());
            }
        }
        let image = Image {
            generation,
            replaces,
            base: self.base.clone(),
            base_limit: self.base_limit,
            size: self.size,
            low_water: all.low_water,
            is_appended: all.is_appended,
            mtime: self.mtime,
            user: self.user,
            held,
            ranges: all.ranges.iter().map(|Range { start, end }| (start, end)).collect(),
            is_beside: self.is_beside,
        };
        (image, bytes)
    }

    /// What is uncommitted, be it that a commit is at it.
    fn all_changes(&self) -> Changes {
        let Some(taken) = self.life.taken() else { return self.life.changes().clone() };
        taken.followed_by(self.life.changes(), self.size)
    }

    fn is_all_appended(&self) -> bool {
        let changes = self.life.changes();
        match self.life.taken() {
            None => changes.is_appended,
            Some(taken) => taken.is_appended && (changes.is_appended || !changes.is_any),
        }
    }

    fn held(&self) -> Held {
        match self.life.body() {
            None => Held::Nowhere,
            Some(Body::Memory(_)) => Held::Here,
            Some(Body::Disk { file, .. }) => match file.number() {
                None => Held::Nowhere,
                Some(number) if self.life.is_written_by_passthrough() => Held::WholeBody(number),
                Some(number) => Held::Body(number),
            },
        }
    }

    /// What its body is called, if that is a file.
    pub(super) fn body_name(&self) -> Option<String> {
        self.body_file().map(|file| file.name().to_owned())
    }

    fn body_file(&self) -> Option<Arc<BodyFile>> {
        match self.life.body() {
            Some(Body::Disk { file, .. }) => Some(Arc::clone(file)),
            Some(Body::Memory(_)) | None => None,
        }
    }

    /// A commit is through: a record holds what the journal had not taken. What was written meanwhile waits for the next one.
    pub(super) fn note_unkept(&mut self, contents: &dyn Contents) {
        if self.is_refused {
            self.unkept = Some(contents.recorded());
            self.is_refused = self.life.is_to_be_journaled();
        }
    }

    /// What the journal says of the file became this version.
    pub(super) fn settle_journal(&mut self, record: RecordId) {
        if let Some(now) = &mut self.journaled {
            now.settled = Some(record);
        }
    }

    /// A body is about to change. If what the journal says of it is in a record, has the journal name that first: a kill in the middle
    /// would leave bytes that no record holds, and that nobody wrote as they are then.
    pub(super) fn name_record(&mut self, contents: &dyn Contents, files: &BodyFiles) {
        if !matches!(self.life.body(), Some(Body::Disk { .. })) {
            return;
        }
        if let Some(now) = self.journaled.as_mut().filter(|now| !now.is_named)
            && let Some(record) = now.settled
        {
            files.journal().settle(now.generation, record);
            now.is_named = true;
        }
        files.journal().name_records(contents.written());
    }

    /// The journal may lack something.
    pub(super) fn journal_is_behind(&mut self) {
        if let Some(now) = &mut self.journaled {
            now.is_behind = true;
        }
    }

    /// Ends what the journal says if that is in a record or nobody wants it, and has it say what it lacks.
    pub(super) fn tend_journal(&mut self, contents: &dyn Contents, files: &BodyFiles) {
        if self.life.is_to_be_journaled() {
            let is_fine = |now: &Journaled| now.goes_on(self) && !files.journal().is_in_the_way(now.generation);
            if !self.journaled.as_ref().is_some_and(is_fine) {
                self.journal_image(contents, files);
            }
            return;
        }
        if let Some(now) = self.journaled.take() {
            Self::end_generation(now, contents, files);
        }
    }
}

impl Journaled {
    /// Whether a step is enough to say what the file is now.
    fn goes_on(&self, state: &State) -> bool {
        let is_same = match self.held {
            Held::Nowhere | Held::Here | Held::Body(_) => state.held() == self.held,
            Held::WholeBody(number) => state.held().body() == Some(number),
        };
        is_same && self.settled.is_none() && !self.is_behind && self.base == state.base.version
    }
}

impl FileTable {
    /// The daemon ends, and what was committed is with the host: what is left to the next one is what was not.
    pub fn end(&self) {
        self.files.journal().tidy(self.contents.written());
    }

    /// Everything up to here is with the host: what ended with it is told at once. Until then the next daemon would commit it once
    /// more, upon what it was written upon, while others may have gone on from the record.
    pub fn written(&self, through: u64) {
        self.files.journal().tell_ended(through);
    }

    /// Has the journal say what it lacks, and forget what ended.
    pub fn tend_journals(&self) {
        for file in self.files_here() {
            file.state().tend_journal(&*self.contents, &self.files);
        }
        self.files.journal().tidy(self.contents.written());
    }
}
