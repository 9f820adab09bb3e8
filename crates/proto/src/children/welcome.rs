//! The beginning of a child's session: what it is told of us, and from where it goes on.

use crate::api::PeerId;
use crate::children::{ChildKind, ChildState, Children, REFRESH_MAX};
use crate::contents::Contents;
use crate::histories::Histories;
use crate::histories::openings::Cursor;
use crate::replica::Replica;
use crate::replica::errors::StepError;
use std::collections::BTreeSet;
use wayfs_types::{Admitted, CommitNumber, FileId, Key, MetaStore, OriginId};
use wayfs_wire::{Applied, Down, Resume};

impl<S: MetaStore> Replica<S> {
    pub(crate) fn welcome(
        &mut self,
        peer: PeerId,
        origin: OriginId,
        resume: Option<Resume>,
        origins: &[OriginId],
    ) -> Result<(), StepError> {
        let is_station = self.children.by_origin.get(&origin).is_some_and(|child| child.is_station);
        match Children::origin_image(&mut self.core, origin)?.map(|image| image.admitted) {
            Some(Admitted::Revoked) => return Err(StepError::Peer(peer, "its access was revoked".to_owned())),
            Some(Admitted::Client | Admitted::Reader) if is_station => {
                return Err(StepError::Peer(peer, "was admitted as a client only".to_owned()));
            }
            Some(_) => {}
            None => return Err(StepError::Peer(peer, "its origin is not known here (yet)".to_owned())),
        }
        for of in origins {
            if !is_station && !Contents::may_speak_for(&mut self.core, origin, *of)? {
                return Err(StepError::Peer(peer, "carries records of foreign origins".to_owned()));
            }
        }
        let part = if is_station { None } else { Children::part_of(&self.core, origin)? };
        self.histories.write_life(&mut self.core)?;
        let stamp = Histories::own_stamp(&mut self.core);
        let current = self.core.state.change();
        let kind = if is_station { ChildKind::Station } else { ChildKind::Client };
        let place = resume.as_ref().map(|resume| self.histories.place_cursor(&mut self.core, resume, kind));
        let knows_more = matches!(place, Some(Cursor::Lost | Cursor::Former));
        if knows_more {
            self.histories.note_lost(self.core.now);
        }
        if place == Some(Cursor::Lost) {
            self.note_went_back(origin);
        }
        let went_back = knows_more || !is_station && self.histories.has_lost_lately(&self.core);
        let resume = resume.filter(|resume| {
            let behind = current.0.saturating_sub(resume.cursor.0);
            place == Some(Cursor::Ours)
                && part.is_none()
                && resume.cursor >= self.core.state.purged()
                && (is_station || behind <= self.core.config.catch_up_max)
        });
        let mut applied = Vec::new();
        for of in origins.iter().copied().chain((!is_station).then_some(origin)) {
            let (through, chain) = wayfs_tree::applied_chain(&self.core.state.tx(), of)?;
            applied.push(Applied { origin: of, through, chain });
            if is_station || of == origin {
                self.children.add_subject(&mut self.core, origin, of);
            }
        }
        let image = if is_station { None } else { Children::origin_image(&mut self.core, origin)? };
        let ends = image.map(|image| image.lives.ends().collect()).unwrap_or_default();
        if let Some(child) = self.children.by_origin.get_mut(&origin) {
            child.state = ChildState::Ready;
            child.part = part;
            child.resumed = resume.is_some();
            child.came_from_another = !is_station && place == Some(Cursor::Foreign);
            // A client that begins anew asks for nothing of the past, but what its own records change from this
            // welcome on it is told: of what came before it asks by name, knowing how far we are.
            let anew = if is_station { CommitNumber::ZERO } else { current };
            child.next = resume.map_or(anew, |resume| resume.cursor);
            child.cursor = child.next;
            let welcome = Down::Welcome { stamp, current, resume: resume.is_some(), applied, ends, went_back };
            child.notices.push(welcome);
        }
        Ok(())
    }

    pub(crate) fn handle_start(&mut self, peer: PeerId, origin: OriginId) -> Result<(), StepError> {
        let mut base: BTreeSet<Key> = BTreeSet::new();
        let Some(child) = self.children.by_origin.get(&origin) else { return Ok(()) };
        if child.state != ChildState::Ready {
            return Err(StepError::Peer(peer, "started twice".to_owned()));
        }
        if child.resumed && child.next < self.core.state.purged() {
            return Err(StepError::Peer(peer, "took too long to begin: what went meanwhile is forgotten".to_owned()));
        }
        let fresh_client = !child.is_station && !child.resumed;
        if fresh_client {
            base.insert(Key::Origin(origin));
            base.insert(Key::Inode(FileId::ROOT));
            for open in self.core.state.conflicts(None, REFRESH_MAX)? {
                base.insert(Key::Conflict(open.id));
            }
        }
        self.begin_return(origin);
        if let Some(child) = self.children.by_origin.get_mut(&origin) {
            child.extra.extend(base);
            child.extra.insert(Key::Origin(origin));
            child.started = true;
            child.echo_filter.forget();
            child.state = ChildState::Scanning;
        }
        Ok(())
    }
}
