//! What every part of a replica may use.

use crate::api::{Config, Output};
use crate::replica::composition::Composition;
use crate::state::State;
use crate::upstream::line::Line;
use std::collections::VecDeque;
use wayfs_types::request::{Outcome, RequestId};
use wayfs_types::{Time, WallTime};

/// Settings, state, time, and what goes out: handed to the parts' functions beside the part itself.
pub(crate) struct Core<S> {
    pub(crate) config: Config,
    pub(crate) composition: Composition,
    pub(crate) state: State<S>,
    /// The time of this input.
    pub(crate) now: Time,
    /// The same by the clock on the wall.
    pub(crate) wall: WallTime,
    /// When the replica was opened.
    pub(crate) opened: Time,
    /// What waits for [`crate::Replica::poll_output`].
    pub(crate) outputs: VecDeque<Output>,
    /// The session with the parent; `None`: there is none.
    pub(crate) line: Option<Line>,
    /// What parts have for requests that wait.
    pub(crate) for_requests: Vec<ForRequests>,
    /// Work is left over that did not fit into this input's share.
    pub(crate) more_work: bool,
}

/// Something for requests that wait.
#[derive(Debug)]
pub(crate) enum ForRequests {
    /// One ends so.
    End {
        id: RequestId,
        outcome: Outcome,
        /// Its answer goes out behind so many outputs.
        behind: usize,
    },
    /// These look again.
    Wake(Vec<RequestId>),
}

impl<S> Core<S> {
    /// Ends a waiting request with an outcome.
    pub(crate) fn end_request(&mut self, id: RequestId, outcome: Outcome) {
        let behind = self.outputs.len();
        self.for_requests.push(ForRequests::End { id, outcome, behind });
    }

    /// Those look again.
    pub(crate) fn wake_requests(&mut self, ids: Vec<RequestId>) {
        self.for_requests.push(ForRequests::Wake(ids));
    }
}
