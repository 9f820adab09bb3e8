//! What other parts have for requests that wait: noted while a part is at work, and worked off when it has done.

use crate::replica::{Core, Replica};
use wayfs_types::MetaStore;
use wayfs_types::request::{Outcome, RequestId};

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

impl<S: MetaStore> Replica<S> {
    /// Works off what a part had for requests. Answers go out in the place where the part noted them.
    pub(crate) fn settle_requests(&mut self) {
        let mut more = 0;
        for noted in std::mem::take(&mut self.core.for_requests) {
            match noted {
                ForRequests::Wake(ids) => self.requests.wake(ids),
                ForRequests::End { id, outcome, behind } => {
                    let later = self.core.outputs.split_off(behind + more);
                    self.end_request(id, outcome);
                    more = self.core.outputs.len() - behind;
                    self.core.outputs.extend(later);
                }
            }
        }
    }
}
