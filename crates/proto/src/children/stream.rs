//! What flows down to the children: images, answers, marks.

use crate::children::interest::is_interesting;
use crate::children::told::{ImageFrame, Row, Told};
use crate::children::{Child, ChildState, Children, ParkedAsk};
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::names::{crowded_in, stored_names};
use crate::state::tables::{self, entries_from, entries_until, parse_image_key, table};
use std::collections::BTreeSet;
use std::time::Duration;
use wayfs_tree::NameCursor;
use wayfs_types::{CommitNumber, FileId, Image, Key, MetaStore, Name, OriginId, StorageError};
use wayfs_wire::{Cut, Down, KeyImage, Mark, Question, Verdict};

/// Messages of images to one child that may be under way.
const WINDOW: usize = 32;
/// Bytes of images after which a message is full. On a thin line (64 kbit/s) it takes four seconds, so that pings
/// among such messages keep a lease of ten seconds alive.
pub(crate) const FRAME_LEN: usize = 32 * 1024;
/// Rows of the change index looked through for one child with one input.
const SCAN_BUDGET: usize = 8192;
/// How long a question waits for us to see what its asker has seen.
const BEHIND_MAX: Duration = Duration::from_secs(2);

impl<S: MetaStore> Replica<S> {
    /// Gives every child that has something to get what fits.
    pub(crate) fn pump_children(&mut self) -> Result<(), StorageError> {
        if !self.core.serves() {
            // It has none, and is asked at every step.
            self.children.dirty.clear();
            return Ok(());
        }
        self.children.unblock();
        for origin in std::mem::take(&mut self.children.dirty) {
            if self.core.relays() {
                // Be it that nobody below asks about this origin.
                self.contents.settle_awaited(&mut self.core, &mut self.children, origin)?;
            }
            let subjects: Vec<OriginId> = self.children.subjects.get(&origin).into_iter().flatten().copied().collect();
            if subjects.is_empty() {
                continue;
            }
            let mark = self.mark_for_child(origin)?;
            self.core.advance_marks(mark)?;
            for child in subjects {
                self.children.queue_mark(child, mark);
            }
        }
        self.tell_quotas()?;
        let mut told = Told::default();
        for origin in std::mem::take(&mut self.children.busy) {
            self.children.pump_child(&mut self.core, origin, &mut told)?;
        }
        // Somebody's question may be one to another who has nothing else to hear.
        for origin in std::mem::take(&mut self.children.rights.posted) {
            self.children.send_rights_mail(&mut self.core, origin);
        }
        Ok(())
    }
}

/// A part of a cut.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// The change up to which the cut goes.
    through: CommitNumber,
    /// Another part of it follows.
    more: bool,
}

impl Children {
    fn queue_mark(&mut self, child: OriginId, mark: Mark) {
        let Some(row) = self.by_origin.get_mut(&child) else { return };
        let known = row.marks.entry(mark.origin).or_insert(None);
        if *known == Some(mark) {
            return;
        }
        *known = Some(mark);
        match row.notices.last_mut() {
            Some(Down::Marks { marks }) => marks.push(mark),
            _ => row.notices.push(Down::Marks { marks: vec![mark] }),
        }
        self.busy.insert(child);
    }

    fn pump_child<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        origin: OriginId,
        told: &mut Told,
    ) -> Result<(), StorageError> {
        let Some(child) = self.by_origin.get_mut(&origin) else { return Ok(()) };
        if child.peer.is_none() {
            return Ok(());
        }
        let notices = std::mem::take(&mut child.notices);
        let stable: Vec<_> = std::mem::take(&mut child.stable).into_iter().collect();
        let state = child.state;
        // A mark must not overtake the images of the same change: a client that hears that its
        // records are visible drops them from its log once the images confirmed them.
        for notice in notices {
            self.send_child(core, origin, notice);
        }
        if !stable.is_empty() {
            self.send_child(core, origin, Down::Stable { versions: stable });
        }
        match state {
            ChildState::Scanning => self.scan_for(core, origin, told)?,
            ChildState::Live => self.send_pending(core, origin, told)?,
            ChildState::Greeting | ChildState::Ready | ChildState::Detached => {}
        }
        self.send_grants(core, origin);
        self.answer_catches(core, origin);
        self.send_rights_mail(core, origin);
        self.answer_asks(core, origin)
    }

    /// Tells which locks are the child's: once it was told all that was done before by whoever held them.
    fn send_grants<S: MetaStore>(&mut self, core: &mut Core<S>, origin: OriginId) {
        let Some(child) = self.by_origin.get_mut(&origin) else { return };
        let grants = std::mem::take(&mut child.grants);
        let (told, later) = match child.state {
            ChildState::Live if child.pending.is_empty() => (grants, Vec::new()),
            ChildState::Scanning if child.is_station && !child.started && !child.cut_is_open => {
                grants.into_iter().partition(|(_, change)| *change <= child.next)
            }
            ChildState::Live
            | ChildState::Scanning
            | ChildState::Ready
            | ChildState::Greeting
            | ChildState::Detached => (Vec::new(), grants),
        };
        child.grants = later;
        for (said, _) in told {
            self.send_child(core, origin, said);
        }
    }

    /// Says what is to be said about rights: of those that are the child's once it was told all that was done before.
    fn send_rights_mail<S: MetaStore>(&mut self, core: &mut Core<S>, origin: OriginId) {
        while let Some(child) = self.by_origin.get_mut(&origin)
            && let Some(first) = child.rights_mail.front()
        {
            let is_told = child.state == ChildState::Live && child.pending.is_empty();
            if matches!(first, Down::Claimed { .. }) && !is_told {
                return;
            }
            if let Some(letter) = child.rights_mail.pop_front() {
                self.send_child(core, origin, letter);
            }
        }
    }

    fn send_images<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        origin: OriginId,
        frame: ImageFrame,
        Part { through, more }: Part,
    ) {
        let Some(child) = self.by_origin.get_mut(&origin) else { return };
        child.serial = child.serial.next();
        child.cut_is_open = more;
        if child.unreceived.is_empty() {
            child.unreceived_since = core.now;
        }
        child.unreceived.push_back((child.serial, frame.first));
        let serial = child.serial;
        if !more {
            child.echo_filter.cut_ends();
        }
        let bytes = wayfs_wire::encode_images(Cut { serial, through, more }, &frame.images, &frame.omitted);
        self.post_to_child(core, origin, bytes);
    }

    fn add_to<S: MetaStore>(
        &mut self,
        core: &Core<S>,
        frame: &mut ImageFrame,
        origin: OriginId,
        number: CommitNumber,
        pair: KeyImage,
    ) -> Result<(), StorageError> {
        let part = self.by_origin.get(&origin).and_then(|child| child.part);
        let pair = Self::shown(core, part, pair)?;
        if let Some(child) = self.by_origin.get_mut(&origin) {
            frame.add(number, pair, &mut child.echo_filter);
        }
        Ok(())
    }

    /// Adds what others are told, too, as far as this child may see it.
    fn add_row<S: MetaStore>(
        &mut self,
        core: &Core<S>,
        frame: &mut ImageFrame,
        origin: OriginId,
        row: &Row,
    ) -> Result<(), StorageError> {
        let Some(child) = self.by_origin.get_mut(&origin) else { return Ok(()) };
        if child.part.is_some() {
            return self.add_to(core, frame, origin, row.number, row.pair.clone());
        }
        frame.add_row(row, &mut child.echo_filter);
        Ok(())
    }

    /// Goes through the changes after the child's cursor, as far as window and budget allow.
    fn scan_for<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        origin: OriginId,
        told: &mut Told,
    ) -> Result<(), StorageError> {
        let is_station = self.is_station(origin);
        let mut budget = SCAN_BUDGET;
        loop {
            let Some(child) = self.by_origin.get_mut(&origin) else { return Ok(()) };
            let (from, started) = (child.next, child.started);
            if child.unreceived.len() >= WINDOW {
                return Ok(());
            }
            if budget == 0 {
                core.more_work = true;
                self.busy.insert(origin);
                return Ok(());
            }
            let mut frame = ImageFrame::default();
            let extra_left = self.take_extra(core, origin, &mut frame)?;
            let (mut at, mut reached) = (from, false);
            if !extra_left {
                let limit = core.config.images_per_message.min(budget);
                let rows = Self::stretch(core, told, from, limit)?;
                reached = rows.len() < limit;
                budget = budget.saturating_sub(rows.len().max(1));
                for (number, key) in rows.iter() {
                    at = *number;
                    self.add_scanned(core, origin, (at, key), told, &mut frame)?;
                    if Self::is_full(core, &frame) {
                        reached = false;
                        break;
                    }
                }
            }
            let current = core.state.change();
            let Some(child) = self.by_origin.get_mut(&origin) else { return Ok(()) };
            child.next = if reached { current } else { at };
            let through = child.next;
            if reached && is_station {
                // `started` stays set until the first cut is complete, which is sent even if it is empty; so is the end
                // of a cut whose last images filled a message.
                child.started = false;
                if started || child.cut_is_open || !frame.images.is_empty() {
                    self.send_images(core, origin, frame, Part { through, more: false });
                }
                return Ok(());
            }
            if reached {
                self.finish_scan(core, origin, frame, told)?;
                return Ok(());
            }
            if !frame.images.is_empty() {
                self.send_images(core, origin, frame, Part { through, more: true });
            }
        }
    }

    /// Puts keys of the first cut into a frame. Answers whether some are left.
    fn take_extra<S: MetaStore>(
        &mut self,
        core: &Core<S>,
        origin: OriginId,
        frame: &mut ImageFrame,
    ) -> Result<bool, StorageError> {
        while !Self::is_full(core, frame) {
            let Some(child) = self.by_origin.get_mut(&origin) else { return Ok(false) };
            let Some(key) = child.extra.pop_first() else { return Ok(false) };
            let image = Self::image_now(core, &key)?;
            self.add_to(core, frame, origin, CommitNumber::ZERO, KeyImage { key, image })?;
        }
        Ok(true)
    }

    fn add_scanned<S: MetaStore>(
        &mut self,
        core: &Core<S>,
        origin: OriginId,
        (number, key): (CommitNumber, &Key),
        told: &mut Told,
        frame: &mut ImageFrame,
    ) -> Result<(), StorageError> {
        let row = Self::row(core, told, number, key)?;
        let Some(child) = self.by_origin.get(&origin) else { return Ok(()) };
        if child.is_station
            || is_interesting(origin, child, key, row.pair.image.as_ref())
            || Self::sees_unlisted(core, child, &row.pair)?
        {
            self.add_row(core, frame, origin, &row)?;
        }
        Ok(())
    }

    /// The client has caught up: what its own records changed meanwhile ends the cut.
    fn finish_scan<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        origin: OriginId,
        frame: ImageFrame,
        told: &mut Told,
    ) -> Result<(), StorageError> {
        let Some(child) = self.by_origin.get_mut(&origin) else { return Ok(()) };
        child.state = ChildState::Live;
        if child.pending.is_empty() {
            let through = child.next;
            self.send_images(core, origin, frame, Part { through, more: false });
            return Ok(());
        }
        let through = child.next;
        if !frame.images.is_empty() {
            self.send_images(core, origin, frame, Part { through, more: true });
        }
        self.send_pending(core, origin, told)
    }

    /// Sends everything that changed for a live client as one cut.
    fn send_pending<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        origin: OriginId,
        told: &mut Told,
    ) -> Result<(), StorageError> {
        let current = core.state.change();
        let Some(child) = self.by_origin.get_mut(&origin) else { return Ok(()) };
        child.next = current;
        if child.pending.is_empty() || child.unreceived.len() >= WINDOW {
            return Ok(());
        }
        let pending = std::mem::take(&mut child.pending);
        let mut sent = BTreeSet::new();
        let mut frame = ImageFrame::default();
        for (number, key) in pending {
            if !sent.insert(key.clone()) {
                continue;
            }
            if Self::is_full(core, &frame) {
                let full = std::mem::take(&mut frame);
                self.send_images(core, origin, full, Part { through: current, more: true });
            }
            let row = Self::row(core, told, number, &key)?;
            self.add_row(core, &mut frame, origin, &row)?;
        }
        self.send_images(core, origin, frame, Part { through: current, more: false });
        Ok(())
    }

    /// Answers questions of a child whose stream is up to date: so answers are of the same cut.
    fn answer_asks<S: MetaStore>(&mut self, core: &mut Core<S>, origin: OriginId) -> Result<(), StorageError> {
        loop {
            let now = core.now;
            let Some(child) = self.by_origin.get_mut(&origin) else { return Ok(()) };
            if child.state != ChildState::Live || !child.pending.is_empty() {
                return Ok(());
            }
            let Some(parked) = child.asks.pop_front() else { return Ok(()) };
            let has_seen = Self::has_seen(core, &parked)?;
            if !has_seen && now >= parked.since + BEHIND_MAX {
                self.answer_behind(core, origin, parked)?;
            } else if let Some(parked) = self.try_answer(core, origin, parked)? {
                // Later questions may be answered first; this one is looked at again with the next input.
                let later: Vec<ParkedAsk> = match self.by_origin.get_mut(&origin) {
                    Some(child) => child.asks.drain(..).collect(),
                    None => Vec::new(),
                };
                let mut waiting = vec![parked];
                for parked in later {
                    waiting.extend(self.try_answer(core, origin, parked)?);
                }
                if let Some(child) = self.by_origin.get_mut(&origin) {
                    child.asks.extend(waiting);
                }
                self.waiting.insert(origin);
                return Ok(());
            }
        }
    }

    /// Answers a question, or gives it back: it is to wait.
    fn try_answer<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        origin: OriginId,
        parked: ParkedAsk,
    ) -> Result<Option<ParkedAsk>, StorageError> {
        if Self::has_seen(core, &parked)? && self.may_look(core, origin, &parked.question)? {
            return self.answer(core, origin, parked);
        }
        Ok(Some(parked))
    }

    fn send_answer<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        origin: OriginId,
        ask: wayfs_wire::AskId,
        verdict: Verdict,
        images: Vec<KeyImage>,
    ) {
        let Some(child) = self.by_origin.get_mut(&origin) else { return };
        child.serial = child.serial.next();
        let serial = child.serial;
        let through = core.state.change();
        if child.unreceived.is_empty() {
            child.unreceived_since = core.now;
        }
        child.unreceived.push_back((serial, through));
        self.send_child(core, origin, Down::Answer { serial, ask, verdict, through, images });
    }

    /// What a child may see of what it asks for.
    fn shown_of<S: MetaStore>(
        &self,
        core: &Core<S>,
        origin: OriginId,
        question: &Question,
    ) -> Result<(Verdict, Vec<KeyImage>), StorageError> {
        let part = self.by_origin.get(&origin).and_then(|child| child.part);
        let about = match question {
            Question::Lookup { parent, name } => Some(Key::Entry(*parent, name.clone())),
            Question::Attributes { file } => Some(Key::Inode(*file)),
            Question::List { .. } => None,
        };
        let mut images = Vec::new();
        let verdict = match question {
            Question::Lookup { parent, name } => {
                Self::add_image(core, Key::Inode(*parent), &mut images)?;
                Self::add_entry(core, *parent, name, &mut images)?
            }
            Question::Attributes { file } => Self::add_file(core, *file, &mut images)?,
            Question::List { directory, after, limit } => {
                let (directory, limit) = (*directory, *limit);
                Self::add_image(core, Key::Inode(directory), &mut images)?;
                let way = part
                    .map(|part| Self::listing_in_part(core, part, directory, after.as_ref()))
                    .transpose()?
                    .flatten();
                match way {
                    Some(way) => {
                        images.extend(way);
                        Verdict::End
                    }
                    None => Self::add_list(core, directory, after.as_ref(), limit, &mut images)?,
                }
            }
        };
        match part {
            Some(part) => Self::shown_answer(core, part, about.as_ref(), (verdict, images)),
            None => Ok((verdict, images)),
        }
    }

    /// Answers a child that has seen what is not known here, and did not come in time, with how it is here: names that it has never heard
    /// of are news to it all the same. Nothing of it is watched for the child.
    fn answer_behind<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        origin: OriginId,
        parked: ParkedAsk,
    ) -> Result<(), StorageError> {
        let mut images = Vec::new();
        if core.state.synced() && self.may_look(core, origin, &parked.question)? {
            images = self.shown_of(core, origin, &parked.question)?.1;
        }
        if !self.may_look_at(core, origin, &crowded_in(&images)) {
            images.clear();
        }
        self.send_answer(core, origin, parked.ask, Verdict::Behind, images);
        Ok(())
    }

    /// As [`Children::try_answer`], but for what others have alone of what is asked for: a crowded file is only found with its
    /// name.
    fn answer<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        origin: OriginId,
        parked: ParkedAsk,
    ) -> Result<Option<ParkedAsk>, StorageError> {
        if !core.state.synced() {
            self.send_answer(core, origin, parked.ask, Verdict::Unready, Vec::new());
            return Ok(None);
        }
        let (verdict, images) = self.shown_of(core, origin, &parked.question)?;
        let crowded = crowded_in(&images);
        if !crowded.is_empty() && !self.may_look_at(core, origin, &crowded) {
            return Ok(Some(parked));
        }
        self.note_look(core, origin, &parked.question, crowded)?;
        self.send_answer(core, origin, parked.ask, verdict, images);
        Ok(None)
    }

    /// What a child looks at from now on that is answered: crowded files beside what it asked for.
    fn note_look<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        origin: OriginId,
        question: &Question,
        crowded: BTreeSet<FileId>,
    ) -> Result<(), StorageError> {
        match question {
            Question::Lookup { parent: directory, .. } | Question::List { directory, .. } => {
                self.add_watches(origin, &[*directory]);
                self.give_alone(core, origin, *directory);
            }
            Question::Attributes { file } => {
                let looked_at = self.watched_with(core, origin, question, *file)?;
                self.add_watches(origin, &looked_at);
            }
        }
        for file in crowded {
            self.add_watches(origin, &[file]);
            self.give_alone(core, origin, file);
        }
        Ok(())
    }

    /// Looks again at questions that waited for us to catch up.
    pub(crate) fn wake_waiting(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        self.busy.extend(waiting);
    }

    fn image_now<S: MetaStore>(core: &Core<S>, key: &Key) -> Result<Option<Image>, StorageError> {
        core.state.image(key)
    }

    fn is_full<S: MetaStore>(core: &Core<S>, frame: &ImageFrame) -> bool {
        frame.images.len() >= core.config.images_per_message || frame.len >= core.config.message_len_max.min(FRAME_LEN)
    }

    /// Whether a client looks at a directory in which a file has a name that it does not list: it is to know what that stands
    /// for when it goes offline.
    fn sees_unlisted<S: MetaStore>(core: &Core<S>, child: &Child, pair: &KeyImage) -> Result<bool, StorageError> {
        let Some(file) = crowded_in(std::slice::from_ref(pair)).pop_first() else { return Ok(false) };
        let mut cursor = NameCursor::START;
        while let Some(place) = stored_names(core.state.store(), file, &cursor, 1)?.pop() {
            if child.watches.contains(&place.parent) {
                return Ok(true);
            }
            cursor = NameCursor::behind(place.parent);
        }
        Ok(false)
    }

    fn has_seen<S: MetaStore>(core: &mut Core<S>, parked: &ParkedAsk) -> Result<bool, StorageError> {
        for record in &parked.seen {
            if record.sequence() > wayfs_tree::applied(&core.state.tx(), record.origin())?
                && record.origin() != OriginId::GENESIS
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn add_image<S: MetaStore>(
        core: &Core<S>,
        key: Key,
        images: &mut Vec<KeyImage>,
    ) -> Result<Option<Image>, StorageError> {
        let image = Self::image_now(core, &key)?;
        images.push(KeyImage { key, image: image.clone() });
        Ok(image)
    }

    fn add_entry<S: MetaStore>(
        core: &Core<S>,
        parent: FileId,
        name: &Name,
        images: &mut Vec<KeyImage>,
    ) -> Result<Verdict, StorageError> {
        match Self::add_image(core, Key::Entry(parent, name.clone()), images)? {
            Some(Image::Entry(entry)) => Self::add_file(core, entry.file, images),
            _ => Ok(Verdict::NotFound),
        }
    }

    /// A file and, if it was merged into another, that one.
    fn add_file<S: MetaStore>(
        core: &Core<S>,
        file: FileId,
        images: &mut Vec<KeyImage>,
    ) -> Result<Verdict, StorageError> {
        let mut at = Some(file);
        let mut found = Verdict::NotFound;
        for _ in 0..8 {
            let Some(file) = at else { break };
            let image = Self::add_image(core, Key::Inode(file), images)?;
            at = match image {
                Some(Image::Inode(inode)) => {
                    found = Verdict::Found;
                    inode.merged_into
                }
                _ => None,
            };
        }
        Ok(found)
    }

    fn add_list<S: MetaStore>(
        core: &Core<S>,
        directory: FileId,
        after: Option<&Name>,
        limit: u32,
        images: &mut Vec<KeyImage>,
    ) -> Result<Verdict, StorageError> {
        let limit = (limit as usize).min(core.config.images_per_message.max(1));
        let from = entries_from(table::VIEW, directory, after);
        let rows = core.state.store().scan(&from, &entries_until(table::VIEW, directory), limit + 1)?;
        let mut len = 0;
        for (taken, (key, value)) in rows.iter().enumerate() {
            if taken == limit || (taken > 0 && len > core.config.message_len_max.min(FRAME_LEN)) {
                return Ok(Verdict::More);
            }
            let key = parse_image_key(key)?;
            let image = tables::unpack_view(value)?.image;
            let file = match &image {
                Image::Entry(entry) => Some(entry.file),
                Image::Inode(_) | Image::Conflict(_) | Image::Origin(_) => None,
            };
            images.push(KeyImage { key, image: Some(image) });
            if let Some(file) = file {
                let before = images.len();
                Self::add_image(core, Key::Inode(file), images)?;
                len += images[before - 1..].iter().map(wayfs_wire::image_len).sum::<usize>();
            }
        }
        Ok(Verdict::End)
    }
}

/// When the oldest question that waits for us to catch up is given up.
pub(crate) fn behind_deadline(child: &Child) -> Option<wayfs_types::Time> {
    child.asks.front().map(|parked| parked.since + BEHIND_MAX)
}
