//! What programs ask of a host, and what they are answered.

use super::World;
use crate::history::SafeReport;
use crate::host::Expectation;
use crate::violation::Violation;
use std::time::Duration;
use wayfs_proto::Input;
use wayfs_types::request::{Answer, Level, Outcome, Request, RequestId};
use wayfs_types::{Origin, OriginId, RecordId};

impl World {
    /// Asks a host's engine; the answer goes to the history.
    pub(crate) fn ask(&mut self, index: usize, request: Request, expectation: Expectation) -> RequestId {
        let patience = self.millis(1000..=40_000);
        self.ask_within(index, request, expectation, patience)
    }

    pub(crate) fn ask_within(
        &mut self,
        index: usize,
        request: Request,
        expectation: Expectation,
        patience: Duration,
    ) -> RequestId {
        let id = self.hosts[index].request_id();
        self.hosts[index].waiting.insert(id, expectation);
        let deadline = self.now + patience;
        self.note(|| format!("host {index} asks {id:?} {request:?}"));
        if let Some(asked) = self.note_asked(index, &request, deadline) {
            self.hosts[index].asked.insert(id, asked);
        }
        if (self.plan.exclusive || self.plan.locks) && self.hosts[index].is_client() {
            if self.plan.exclusive {
                self.note_change_asked(index, &request);
            }
            self.hosts[index].changes_asked.insert(id, request.clone());
        }
        self.note_asked_by_kernel(index, id, &request);
        self.feed(index, Input::Request { id, request, deadline });
        id
    }

    pub(super) fn answered(&mut self, index: usize, id: RequestId, outcome: Outcome) {
        let Some(expectation) = self.hosts[index].waiting.remove(&id) else {
            self.violations.push(Violation::new("one answer a request", format!("host {index} answered {id:?} again")));
            return;
        };
        if let Some(asked) = self.hosts[index].asked.remove(&id) {
            self.check_sharing(index, &asked, &outcome);
        }
        self.note_answer_to_kernel(index, id, &outcome);
        let request = self.hosts[index].changes_asked.remove(&id);
        if let Some(request) = request.as_ref().filter(|_| self.plan.exclusive) {
            self.check_makers(index, request, &outcome);
        }
        self.take_in(index, (id, &expectation), &outcome);
        self.store_answered(index, id, &outcome);
        // What a program does next may be answered at once.
        if let Some(request) = request {
            self.check_locks(index, &request, &outcome);
        }
    }

    /// What an answer says.
    fn take_in(&mut self, index: usize, (id, expectation): (RequestId, &Expectation), outcome: &Outcome) {
        match (expectation, outcome) {
            (Expectation::Collected, _) => {
                self.hosts[index].collected.insert(id, outcome.clone());
            }
            (Expectation::Level { record, level: Level::Safe, station, session }, Ok(Answer::Reached)) => {
                let is_same = self.hosts[index].parent_session == Some(*session);
                // What a client wrote before it came this server need not know; nor was it closed on a client of this server (seed
                // 180118371).
                let made_before = self.sessions.get(session).and_then(|of| of.made_before);
                let is_its =
                    is_same && made_before.is_none_or(|before| before < *record) && self.knows(*station, *record);
                let station = if is_its { *station } else { usize::MAX };
                let before = self.history.report_safe(index, SafeReport { record: *record, at: self.now, station });
                self.check_safe_is_kept(index, *record, before);
            }
            _ => self.learned(index, expectation, outcome),
        }
    }

    /// Whether the server of a client has taken a record.
    pub(crate) fn parent_knows(&self, index: usize, record: RecordId) -> bool {
        self.parent_of(index).is_some_and(|server| self.knows(server, record))
    }

    /// Whether a server has taken a record.
    fn knows(&self, server: usize, record: RecordId) -> bool {
        let origins = self.hosts[server].replica.as_ref().and_then(|replica| replica.origins().ok());
        let of =
            |(origin, image): &(OriginId, Origin)| *origin == record.origin() && image.applied >= record.sequence();
        origins.is_some_and(|origins| origins.iter().any(of))
    }
}
