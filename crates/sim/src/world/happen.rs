//! What each event does, and which host must be awake for it.

use super::{Due, Event, Transfer, World};
use crate::network::End;
use wayfs_disk::faulty::Room;
use wayfs_proto::{Input, PeerId};

impl World {
    pub(super) fn happen(&mut self, event: Event) {
        if let Some(host) = self.sleeper(&event) {
            let awake = self.hosts[host].asleep_until;
            return self.at(awake, event);
        }
        match event {
            Event::Deliver { session, from } => self.deliver(session, from),
            Event::Synced { host, life, point } => self.synced(host, life, point),
            Event::Wake { host, life } => {
                // One that was armed before an earlier one is void: it would arm the next anew, and none would ever be fewer.
                let is_due = self.hosts[host].wake_at.is_some_and(|at| at <= self.now);
                if self.hosts[host].life == life && is_due {
                    self.hosts[host].wake_at = None;
                    self.feed(host, Input::Tick);
                }
            }
            Event::Roaming { host, life, event } => self.roaming(host, life, event),
            Event::GoOnline { host } => self.wish(host, |host| host.is_online = true),
            Event::Notice { session, end } => self.end_session(session, end),
            Event::CutCheck { link, since } => self.cut_check(link, since),
            Event::Transfer(event) => self.transfer(event),
            Event::Look { host, life, file, version, content } => {
                if self.hosts[host].life == life {
                    self.look_for(host, file, version, content);
                }
            }
            Event::LookHere { host, life, version, root } => {
                if self.hosts[host].life == life {
                    self.look_here(host, version, root);
                }
            }
            Event::Whole { host, life, root, chunk_writes } => {
                if self.hosts[host].life == life {
                    self.whole(host, root, chunk_writes);
                }
            }
            Event::Sweep { host } => self.sweep_and_plan(host),
            Event::GoBack { host, copy } => self.go_back(host, *copy),
            Event::Speak { host } => self.speak_and_plan(host),
            Event::LiftQuota { node } => self.lift_quota(node),
            Event::Room { host } => self.hosts[host].disk.0.borrow_mut().set_room(Room::Plenty),
            Event::GivenBack { host, life, serial, expires } => {
                if self.hosts[host].life == life {
                    if expires {
                        self.expire_kernel_names(host);
                    }
                    self.feed(host, Input::GivenBack { serial });
                }
            }
            Event::PolicyWake { host, life } => {
                // One that was armed before an earlier one is void.
                let is_due = self.hosts[host].policy_wakes_at.is_some_and(|at| at <= self.now);
                if self.hosts[host].life == life && is_due {
                    self.wake_policy(host);
                }
            }
            Event::Work { host } => self.work(host),
            Event::OpenFiles { host, life, event } => self.open_event(host, life, event),
            Event::Kernel { host, life, event } => self.kernel_event(host, life, event),
            Event::Fault => self.fault(),
            Event::Restart { host, life } => {
                if self.hosts[host].life == life {
                    self.start(host);
                }
            }
            Event::Reconnect { link } => {
                if let Some(link) = self.links.get_mut(&link) {
                    link.cut_since = None;
                }
            }
        }
    }

    /// The sleeping host that an event must wait for.
    fn sleeper(&self, event: &Event) -> Option<usize> {
        let host = match event {
            Event::Deliver { session, from } => self.sessions.get(session)?.host(from.other()),
            Event::Synced { host, .. }
            | Event::Wake { host, .. }
            | Event::Roaming { host, .. }
            | Event::GoOnline { host }
            | Event::PolicyWake { host, .. }
            | Event::GivenBack { host, .. }
            | Event::Look { host, .. }
            | Event::LookHere { host, .. }
            | Event::Whole { host, .. }
            | Event::Sweep { host }
            | Event::Speak { host }
            | Event::OpenFiles { host, .. }
            | Event::Kernel { host, .. }
            | Event::Work { host } => *host,
            Event::Notice { session, end } => self.sessions.get(session)?.host(*end),
            Event::Transfer(event) => self.transfer_host(event)?,
            Event::CutCheck { .. }
            | Event::Fault
            | Event::Restart { .. }
            | Event::Reconnect { .. }
            | Event::GoBack { .. }
            | Event::LiftQuota { .. }
            | Event::Room { .. } => return None,
        };
        (self.hosts[host].asleep_until > self.now).then_some(host)
    }

    fn transfer(&mut self, event: Transfer) {
        match event {
            Transfer::PushAsked(asked) => self.push_asked(asked),
            Transfer::PushSynced { asked, root, chunk_writes } => self.push_synced(asked, root, chunk_writes),
            Transfer::PushAnswered { id, number, answer } => self.push_answered(id, number, answer),
            Transfer::LookAsked(question) => self.look_asked(question),
            Transfer::LookAnswered(question, result) => self.look_answered(question, result),
            Transfer::Due { host, life, .. } if self.hosts[host].life != life => {}
            Transfer::Due { host, due, .. } => match due {
                Due::Upload => self.wake_uploads(host),
                Due::Read(reader) => self.read_on(host, reader),
                Due::Look(look) => self.wake_look(host, look),
                Due::Fetch => self.wake_fetches(host),
            },
        }
    }

    /// The host that must be awake for an event.
    pub(super) fn transfer_host(&self, event: &Transfer) -> Option<usize> {
        let at = |peer: &PeerId, end: End| self.sessions.get(peer).map(|session| session.host(end));
        match event {
            Transfer::PushAsked(asked) | Transfer::PushSynced { asked, .. } => at(&asked.id.peer, End::Parent),
            Transfer::PushAnswered { id, .. } => at(&id.peer, End::Child),
            Transfer::LookAsked(question) => at(&question.peer, question.from.other()),
            Transfer::LookAnswered(question, _) => at(&question.peer, question.from),
            Transfer::Due { host, .. } => Some(*host),
        }
    }
}
