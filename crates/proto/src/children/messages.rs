//! What the replicas below us say.

use crate::api::{PeerId, PeerRole};
use crate::children::{ASKS_MAX, ChildState, Children, ParkedAsk, WATCHES_MAX};
use crate::contents::Contents;
use crate::contents::answers::ByWriter;
use crate::histories::Histories;
use crate::members::Members;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use std::collections::BTreeSet;
use wayfs_types::{FileId, Life, MetaStore, OriginId, StorageError};
use wayfs_wire::{Down, FrameSerial, Message, Up};

impl<S: MetaStore> Replica<S> {
    pub(crate) fn handle_message(&mut self, peer: PeerId, bytes: &[u8]) -> Result<(), StepError> {
        let Some(whom) = self.peers.get(&peer).copied() else { return Ok(()) };
        let message = wayfs_wire::decode(bytes).map_err(|error| StepError::Peer(peer, error.to_string()))?;
        match (whom, message) {
            (PeerRole::Child(origin), Message::Up(up)) => {
                if let Some(child) = self.children.by_origin.get_mut(&origin) {
                    child.heard = self.core.now;
                    self.children.busy.insert(origin);
                }
                let up = self.children.confined(&self.core, peer, origin, up)?;
                self.handle_up(peer, origin, up)
            }
            (PeerRole::Parent, Message::Down(down)) => self.handle_down(peer, down),
            (PeerRole::Child(_), Message::Down(_)) | (PeerRole::Parent, Message::Up(_)) => {
                Err(StepError::Peer(peer, "message in the wrong direction".to_owned()))
            }
        }
    }

    fn handle_up(&mut self, peer: PeerId, origin: OriginId, up: Up) -> Result<(), StepError> {
        let Some(child) = self.children.by_origin.get_mut(&origin) else { return Ok(()) };
        let protocol_violation = |what: &str| Err(StepError::Peer(peer, what.to_owned()));
        if child.state == ChildState::Greeting && !matches!(up, Up::Hello { .. } | Up::Ping { .. }) {
            return protocol_violation("spoke before its hello");
        }
        match up {
            Up::Hello { .. } if child.state != ChildState::Greeting => protocol_violation("said hello twice"),
            Up::Hello { volume, .. } if volume != self.core.config.volume => protocol_violation("is of another volume"),
            Up::Hello { resume, origins, safe, life, .. } => {
                self.handle_hello(peer, origin, (resume, origins), (safe, life))
            }
            Up::Chains { chains } => Histories::handle_chains(&mut self.children, peer, origin, chains),
            Up::Seals { seals } => Members::handle_seals(&mut self.children, peer, origin, seals),
            Up::Renew { of, life } => self.handle_renew(peer, origin, of, life),
            Up::Watch { files } if child.watches.len() + files.len() > WATCHES_MAX => {
                protocol_violation("watches too much")
            }
            Up::Watch { files } => {
                self.children.add_watches(origin, &files);
                self.children.note_child_watches(origin, &files);
                Ok(())
            }
            Up::Unwatch { files } => {
                self.children.handle_unwatch(origin, files);
                Ok(())
            }
            Up::Refresh { keys } => child.note_refresh(peer, keys),
            Up::Start => self.handle_start(peer, origin),
            Up::Records { .. } | Up::Cancelled { .. } | Up::Holds { .. } if child.is_outlived => Ok(()),
            Up::Records { records } => {
                self.handle_records(peer, origin, records, &[])?;
                self.members.check_quota(&self.core, &self.children, peer, origin)
            }
            Up::Cancelled { spans, records } => {
                self.handle_cancelled(peer, origin, &spans, records)?;
                self.members.check_quota(&self.core, &self.children, peer, origin)
            }
            Up::Received { serial } => self.children.handle_received(&self.core, peer, origin, serial),
            said @ (Up::GiveLock { .. } | Up::LockGiven { .. } | Up::BringsLocks { .. }) => {
                self.handle_child_lock_news(peer, origin, said)
            }
            Up::Ask { .. } if child.asks.len() >= ASKS_MAX => protocol_violation("asks too much at once"),
            Up::Ask { ask, question, seen } => {
                child.asks.push_back(ParkedAsk { ask, question, seen, since: self.core.now });
                Ok(())
            }
            // A client's word would make the records of others safe.
            Up::Have { .. } if !child.is_station => protocol_violation("says of contents what only a station may say"),
            said @ (Up::Holds { .. } | Up::Lent { .. } | Up::Have { .. } | Up::Gone { .. }) => {
                self.handle_child_contents(peer, origin, said)
            }
            Up::Want { origin: of, through } => self.handle_child_want(peer, origin, of, through),
            Up::Lock { .. } | Up::KeepLock { .. } | Up::TestLock { .. } => self.handle_child_locks(origin, up),
            Up::Unlock { .. } | Up::LockCancel { .. } | Up::ReturnLocks { .. } => self.handle_child_locks(origin, up),
            Up::TakesRights { .. } | Up::Claim { .. } | Up::GivenBack { .. } => {
                self.handle_child_rights(origin, up);
                Ok(())
            }
            Up::Ping { number } => {
                self.members.tell_home_word(&mut self.core, &mut self.children, peer, origin);
                self.answer_ping(peer, origin, number);
                Ok(())
            }
            Up::Facts { ask, versions } => Ok(self.handle_facts_asked(origin, ask, versions)?),
            Up::Catch { ask } if self.children.handle_catch(&mut self.core, origin, ask) => {
                Err(StepError::Peer(peer, "asks too much at once".to_owned()))
            }
            Up::Catch { .. } => Ok(()),
        }
    }

    /// What a child says of contents.
    fn handle_child_contents(&mut self, peer: PeerId, origin: OriginId, said: Up) -> Result<(), StepError> {
        let (core, children) = (&mut self.core, &mut self.children);
        if let Up::Holds { through, versions } = said {
            self.contents.handle_holds(core, children, peer, origin, through, versions)?;
        } else if let Up::Lent { versions } = said {
            self.contents.handle_lent(core, children, peer, origin, versions)?;
        } else if let Up::Have { versions } = said {
            self.contents.handle_have(core, children, origin, &versions)?;
        } else if let Up::Gone { versions, writer } = said {
            let by = if writer { ByWriter::Yes } else { ByWriter::No };
            self.contents.handle_gone(core, children, peer, origin, (versions, by))?;
        }
        Ok(())
    }

    /// What a child says of the locks of clients that are elsewhere.
    fn handle_child_lock_news(&mut self, peer: PeerId, origin: OriginId, said: Up) -> Result<(), StepError> {
        let done = self.locks.handle_child_lock_news(&mut self.core, &mut self.children, peer, origin, said);
        self.settle_requests();
        done
    }

    fn handle_hello(
        &mut self,
        peer: PeerId,
        origin: OriginId,
        (resume, origins): (Option<wayfs_wire::Resume>, Vec<OriginId>),
        (safe, life): (u64, Life),
    ) -> Result<(), StepError> {
        let Some(child) = self.children.by_origin.get_mut(&origin) else { return Ok(()) };
        child.accounted = safe;
        let is_station = child.is_station;
        self.contents.begin_child_session(origin);
        if !is_station {
            // What was called safe elsewhere its writer may have let go.
            self.contents.note_let_go(&mut self.core, origin, 1..=safe, &BTreeSet::new())?;
        }
        // Before the welcome, upon which it sends: what there is no room for it keeps.
        Members::read_quota(&mut self.core, &mut self.children, origin)?;
        if let Some(rooms) = self.members.rooms_for(&self.core, &mut self.children, origin)?
            && let Some(child) = self.children.by_origin.get_mut(&origin)
        {
            child.notices.push(rooms);
        }
        self.welcome(peer, origin, resume, &origins)?;
        if !is_station {
            self.contents.ask_for_lost_of(&mut self.core, &mut self.children, origin)?;
        }
        let forgot = is_station && self.children.lives.get(&origin).is_some_and(|lives| lives.is_new(life));
        if forgot {
            self.locks.note_back_forgetful(origin, life, self.core.config.lease);
        } else {
            self.locks.note_back(origin, life);
        }
        let is_outlived = Histories::is_outlived(&mut self.children, origin, life);
        if let Some(child) = self.children.by_origin.get_mut(&origin) {
            child.is_outlived = is_outlived;
        }
        if is_outlived {
            self.children.tell(origin, Down::Forked);
        }
        Ok(())
    }

    fn handle_child_want(
        &mut self,
        peer: PeerId,
        origin: OriginId,
        of: OriginId,
        through: u64,
    ) -> Result<(), StepError> {
        let is_station = self.children.by_origin.get(&origin).is_some_and(|child| child.is_station);
        if !is_station && !Contents::speaks_for(&mut self.core, origin, of)? {
            return Err(StepError::Peer(peer, "wants for a foreign origin".to_owned()));
        }
        // Whoever asks is told how far they come, be it that their records came by another way, or that it was told before.
        if Children::origin_image(&mut self.core, of)?.is_some() {
            self.children.add_subject(&mut self.core, origin, of);
            if let Some(row) = self.children.by_origin.get_mut(&origin) {
                row.marks.insert(of, None);
            }
        }
        Ok(self.forward_want(of, through)?)
    }

    fn forward_want(&mut self, origin: OriginId, through: u64) -> Result<(), StorageError> {
        self.contents.handle_want(&mut self.core, &mut self.children, origin, through)?;
        self.core.tell_parent(Up::Want { origin, through });
        Ok(())
    }

    fn answer_ping(&mut self, peer: PeerId, origin: OriginId, number: u64) {
        let Some(child) = self.children.by_origin.get_mut(&origin) else { return };
        child.tells_of_loss &= !(child.notices.is_empty() && child.outbox.is_empty());
        let in_turn = child.tells_of_loss;
        let told = child.state == ChildState::Live
            && child.pending.is_empty()
            && child.unreceived.is_empty()
            && child.outbox.is_empty()
            && self.core.state.stored() >= self.core.state.ticket();
        let through = told.then_some(self.core.state.change());
        let home_ms = self
            .uplink
            .home_heard(&self.core)
            .map(|heard| u64::try_from(self.core.now.since(heard).as_millis()).unwrap_or(u64::MAX));
        let pong = Down::Pong { number, through, home_ms };
        if in_turn {
            return self.children.tell(origin, pong);
        }
        let bytes = wayfs_wire::encode(&Message::Down(pong));
        self.core.outputs.push_back(crate::api::Output::Send { peer, bytes });
    }
}

impl Children {
    fn handle_unwatch(&mut self, origin: OriginId, files: Vec<FileId>) {
        if let Some(child) = self.by_origin.get_mut(&origin) {
            files.iter().for_each(|file| {
                child.watches.remove(file);
            });
        }
        files.iter().for_each(|file| self.rights.leave(origin, *file));
        self.unwatch_all(origin, files);
    }

    fn handle_received<S: MetaStore>(
        &mut self,
        core: &Core<S>,
        peer: PeerId,
        origin: OriginId,
        serial: FrameSerial,
    ) -> Result<(), StepError> {
        let Some(child) = self.by_origin.get_mut(&origin) else { return Ok(()) };
        if serial > child.serial {
            return Err(StepError::Peer(peer, "received what was not sent".to_owned()));
        }
        while child.unreceived.front().is_some_and(|(sent, _)| *sent <= serial) {
            child.unreceived.pop_front();
            child.unreceived_since = core.now;
        }
        if child.unreceived.is_empty() {
            child.cursor = child.next;
        }
        self.unblock();
        Ok(())
    }
}
