//! What the parent says.

use crate::api::{Output, PeerId};
use crate::children::catch::Caught;
use crate::histories::Histories;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::state::tables::table;
use crate::upstream::line::UplinkState;
use crate::upstream::welcomed::Welcome;
use crate::upstream::{Uplink, origins_in};
use std::collections::BTreeSet;
use wayfs_types::{CommitNumber, Image, Key, MetaStore, OriginId, StorageError};
use wayfs_wire::{Cut, Down, KeyImage, Mark, Resume, Up};

impl<S: MetaStore> Replica<S> {
    pub(crate) fn handle_down(&mut self, peer: PeerId, down: Down) -> Result<(), StepError> {
        let Some(state) = self.core.standing() else { return Ok(()) };
        self.uplink.note_heard(&self.core);
        self.requests.note_levels_moved();
        let (greeted, is_forked) = (state != UplinkState::Greeting, state == UplinkState::Forked);
        match down {
            Down::Renewed { of, life, origin, admission } if greeted => {
                self.handle_renewed((of, life), (origin, admission))
            }
            Down::Pong { number, through, home_ms } => {
                self.uplink.note_home(&self.core, home_ms);
                self.handle_pong(number, through);
                Ok(())
            }
            // The home's signature vouches for it, and a ping may overtake the welcome.
            Down::HomeWord { position, at, seal } => {
                self.members.handle_home_word(&self.core, position, at, seal);
                Ok(())
            }
            Down::Welcome { stamp, current, resume, applied, ends, went_back } => {
                if greeted {
                    return Err(StepError::Peer(peer, "welcomed twice".to_owned()));
                }
                self.handle_welcome(peer, Welcome { stamp, current, resume, went_back, applied, ends: &ends })
            }
            // So that what is sent upon the welcome is what there is room for.
            Down::Rooms { rooms } if !is_forked => self.handle_rooms(rooms),
            _ if !greeted => Err(StepError::Peer(peer, "spoke before its welcome".to_owned())),
            // What is said of our former history is of no use any more.
            _ if is_forked => Ok(()),
            Down::Forked => {
                self.begin_fork("another copy of this store was opened after it".to_owned());
                Ok(())
            }
            Down::Renewed { .. } | Down::Rooms { .. } => Ok(()),
            Down::Images { serial, through, more, mut images, omitted } => {
                self.uplink.put_back(&self.core, peer, &mut images, &omitted)?;
                self.handle_images(peer, Cut { serial, through, more }, images)
            }
            Down::Answer { serial, ask, verdict, through, images } => {
                self.handle_answer(peer, serial, (ask, verdict), through, images)
            }
            Down::Marks { marks } => self.handle_marks(peer, &marks),
            said @ (Down::Stable { .. } | Down::Want { .. } | Down::Seek { .. }) => self.handle_contents_said(said),
            Down::Shared { file, version } => {
                self.core.state.stage_output(Output::Shared { file, version });
                Ok(())
            }
            said @ (Down::LockAnswer { .. } | Down::LockLost { .. } | Down::RecallLocks { .. }) => {
                self.handle_locks_said(said)
            }
            said @ (Down::GiveLock { .. } | Down::LockGiven { .. } | Down::BringsLocks { .. }) => {
                self.handle_lock_news(said)
            }
            Down::Facts { ask, facts } => Ok(self.handle_facts(ask, facts)?),
            Down::Sent { version, bytes } => {
                self.contents.note_sent_home(version, bytes);
                Ok(())
            }
            Down::Caught { ask, reached } => {
                self.handle_caught(ask, if reached { Caught::Up } else { Caught::CutOff })?;
                Ok(())
            }
            said @ (Down::Alone { .. } | Down::Claimed { .. } | Down::GiveBack { .. }) => {
                self.handle_rights_said(said);
                Ok(())
            }
        }
    }

    /// What the parent says of contents.
    fn handle_contents_said(&mut self, said: Down) -> Result<(), StepError> {
        let (core, children) = (&mut self.core, &mut self.children);
        if let Down::Stable { versions } = said {
            self.contents.handle_stable(core, children, &versions)?;
        } else if let Down::Want { versions } = said {
            self.contents.handle_wanted(core, children, versions)?;
        } else if let Down::Seek { versions } = said {
            self.contents.handle_sought(core, children, &self.uplink, versions)?;
        }
        Ok(())
    }

    /// What the parent says of the locks of clients that are elsewhere.
    fn handle_lock_news(&mut self, said: Down) -> Result<(), StepError> {
        let done = self.locks.handle_lock_news(&mut self.core, &mut self.children, said);
        self.settle_requests();
        done
    }

    fn handle_pong(&mut self, number: u64, through: Option<CommitNumber>) {
        let lease = self.core.config.lease;
        let mut rtt = None;
        let (Some(upstream), Some(line)) = (self.uplink.session.as_mut(), self.core.line.as_mut()) else { return };
        if let (Some(cursor), Some(stamp), true) =
            (through, line.stamp, line.state == UplinkState::Live && upstream.partial.is_empty())
        {
            // What changed up to there was none of our business.
            self.core.state.set_resume(Some(Resume { stamp, cursor }));
        }
        while let Some((sent, at)) = upstream.pings.front().copied() {
            if sent > number {
                break;
            }
            upstream.pings.pop_front();
            if sent == number {
                line.lease_until = line.lease_until.max(at + lease);
                rtt = Some(self.core.now.since(at));
            }
        }
        if let Some(rtt) = rtt {
            self.note_rtt(rtt);
            self.locks.note_vouched(&self.core);
        }
    }

    fn handle_images(
        &mut self,
        peer: PeerId,
        Cut { serial, through, more }: Cut,
        images: Vec<KeyImage>,
    ) -> Result<(), StepError> {
        let is_relay = self.core.relays();
        let (Some(upstream), Some(line)) = (self.uplink.session.as_mut(), self.core.line.as_mut()) else {
            return Ok(());
        };
        let state = line.state;
        if !matches!(state, UplinkState::CatchingUp | UplinkState::Live) {
            return Err(StepError::Peer(peer, "sent images that nobody asked for".to_owned()));
        }
        upstream.partial.extend(images);
        if more {
            if upstream.partial.len() > self.core.config.images_gathered_max {
                upstream.anew = false;
                self.spill()?;
            }
            // While catching up nobody trusts our cache, so parts need not wait for the whole cut. Nobody waits for a
            // station's word at all, and a long cut does not go on without it: only so much may be under way.
            if state == UplinkState::CatchingUp || is_relay {
                self.core.stage_to_parent(Up::Received { serial });
            }
            return Ok(());
        }
        let mut cut = std::mem::take(&mut upstream.partial);
        let is_first = std::mem::take(&mut upstream.anew) && state == UplinkState::CatchingUp;
        let Some(stamp) = line.stamp else { return Ok(()) };
        if let Some(reason) = self.fork_in_images(&cut)? {
            self.begin_fork(reason);
            return Ok(());
        }
        Uplink::check_own_mark(&mut self.core, peer, &cut)?;
        self.core.check_believable(peer, &cut)?;
        if is_first && !self.core.state.holds_all() {
            Uplink::add_settled_conflicts(&mut self.core, &mut cut)?;
        }
        self.take_told(cut)?;
        self.core.state.set_resume(Some(Resume { stamp, cursor: through }));
        let ahead = self.uplink.session.as_mut().map(|upstream| std::mem::take(&mut upstream.marks_ahead));
        self.handle_marks(peer, &ahead.unwrap_or_default().into_values().collect::<Vec<_>>())?;
        if state == UplinkState::CatchingUp {
            self.sweep()?;
            self.core.state.note_synced();
            self.set_standing(UplinkState::Live);
            if let Some(upstream) = self.uplink.session.as_mut() {
                upstream.unplaced.clear();
            }
            // The answer says how the home is.
            self.uplink.ping(&mut self.core);
        }
        self.uplink.trim_log(&mut self.core)?;
        self.core.stage_to_parent(Up::Received { serial });
        Ok(())
    }

    /// Applies what the parent says unasked.
    fn take_told(&mut self, mut cut: Vec<KeyImage>) -> Result<(), StorageError> {
        self.keep_what_was_seen(&mut cut)?;
        if self.core.state.rescues() {
            self.histories.note_named(origins_in(&cut));
        }
        self.histories.note_touched(&mut self.core)?;
        self.histories.find_older(&mut self.core, &cut)?;
        self.contents.look_at_named(&mut self.core, &cut)?;
        let nobody = BTreeSet::new();
        let passed = self.uplink.session.as_ref().map_or(&nobody, |upstream| &upstream.doubtful);
        let parted = Histories::parted_in(&mut self.core, passed, &cut)?;
        let told = origins_in(&cut);
        if parted.is_empty() {
            self.take_cut(cut)?
        } else {
            self.take_parted(cut, parted)?
        }
        if let Some(upstream) = self.uplink.session.as_mut() {
            // Whose its records are is known here, and what we had instead is written again.
            upstream.doubtful.retain(|origin| !told.contains(origin));
        }
        Ok(())
    }

    /// Applies those parts of a large cut that meet nothing tentative; the rest waits for its end.
    fn spill(&mut self) -> Result<(), StorageError> {
        let Some(upstream) = self.uplink.session.as_mut() else { return Ok(()) };
        let (mut free, mut kept) = (Vec::new(), Vec::new());
        for pair in std::mem::take(&mut upstream.partial) {
            let bound = matches!(pair.key, Key::Origin(_)) || self.core.state.shadow(&pair.key)?.is_some();
            if bound { kept.push(pair) } else { free.push(pair) }
        }
        self.take_told(free)?;
        self.histories.keep_found(&mut self.core);
        if let Some(upstream) = self.uplink.session.as_mut() {
            upstream.partial = kept;
        }
        Ok(())
    }

    fn handle_marks(&mut self, peer: PeerId, marks: &[Mark]) -> Result<(), StepError> {
        let own = self.core.config.origin;
        for mark in marks {
            let is_own = mark.origin == own;
            if mark.safe.max(mark.visible).max(mark.stable) > mark.applied {
                return Err(StepError::Peer(peer, "acknowledged what was not sent".to_owned()));
            }
            match self.fork_of_mark(mark)? {
                Some(reason) if is_own => {
                    self.begin_fork(reason);
                    return Ok(());
                }
                // The image of that origin tells what became of it.
                Some(_) => continue,
                None => {}
            }
            if !Histories::is_placed(&mut self.core, mark)? {
                if let Some(upstream) = self.uplink.session.as_mut() {
                    upstream.marks_ahead.insert(mark.origin, *mark);
                }
                continue;
            }
            // What was told before counts no more, and what is stable may go back.
            if let Some(upstream) = self.uplink.session.as_mut() {
                upstream.marks_ahead.remove(&mark.origin);
            }
            self.uplink.note_applied(mark.origin, mark.applied);
            // What a station's records are to its own children it says itself; of the home's word only
            // *stable* is news.
            let whole = |through| self.core.state.log().whole_through(through);
            let known = if self.core.writes() {
                // What was cancelled has not come anywhere before that in favour of which it was.
                let (safe, visible, stable) = (whole(mark.safe), whole(mark.visible), whole(mark.stable));
                self.core.state.unbind_log(safe.min(visible).min(stable));
                Mark { safe, visible, stable, ..*mark }
            } else {
                Mark { safe: 0, visible: 0, ..*mark }
            };
            let may_go_back = if is_own { self.uplink.may_own_go_back() } else { self.uplink.may_go_back() };
            if may_go_back {
                self.take_back_stable(mark.origin, known.stable)?;
            }
            self.core.advance_marks(known)?;
            self.core.state.stage_marks(mark.origin);
            if is_own {
                let to = self.core.parent_stamp();
                self.contents.release_own(&mut self.core, (known.safe, known.stable), to)?;
            }
        }
        self.uplink.trim_log(&mut self.core)?;
        let migrating = self.core.standing() == Some(UplinkState::Migrating);
        if migrating && self.uplink.parent_has(own) >= self.core.state.confirmed_applied(own)? {
            self.start_stream()?;
        }
        Ok(())
    }
}

impl Uplink {
    fn note_applied(&mut self, origin: OriginId, applied: u64) {
        let Some(upstream) = self.session.as_mut() else { return };
        let known = upstream.applied.entry(origin).or_insert(0);
        *known = (*known).max(applied);
        if let Some(queue) = upstream.in_flight.get_mut(&origin) {
            while let Some((_, len)) = queue.front().copied().filter(|(sequence, _)| *sequence <= applied) {
                queue.pop_front();
                upstream.in_flight_len -= 1;
                upstream.in_flight_bytes -= len;
            }
        }
    }

    /// All open conflicts come with the first cut of a new parent: those that it does not name were a former
    /// parent's guess, or are resolved.
    fn add_settled_conflicts<S: MetaStore>(core: &mut Core<S>, cut: &mut Vec<KeyImage>) -> Result<(), StorageError> {
        let named: BTreeSet<Key> = cut.iter().map(|pair| pair.key.clone()).collect();
        let mut settled = Vec::new();
        let (from, until) = crate::state::tables::kind_range(table::VIEW, crate::state::tables::KeyKind::Conflict);
        core.state.each(&from, &until, |key, _| {
            let key = crate::state::tables::parse_image_key(key)?;
            if !named.contains(&key) {
                settled.push(key);
            }
            Ok(())
        })?;
        for key in settled {
            if core.state.shadow(&key)?.is_none() {
                cut.push(KeyImage { key, image: None });
            }
        }
        Ok(())
    }

    /// A parent that forgets or invents records of ours is not to be followed.
    pub(crate) fn check_own_mark<S: MetaStore>(
        core: &mut Core<S>,
        peer: PeerId,
        cut: &[KeyImage],
    ) -> Result<(), StepError> {
        for pair in cut {
            let (Key::Origin(origin), Some(Image::Origin(image))) = (&pair.key, &pair.image) else { continue };
            if !core.state.rescues() && image.applied < core.state.confirmed_applied(*origin)? {
                return Err(StepError::Peer(
                    peer,
                    format!("went back behind record {} of origin {origin}", image.applied),
                ));
            }
        }
        Ok(())
    }
}
