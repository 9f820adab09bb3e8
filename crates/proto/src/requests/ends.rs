//! What other parts have for requests that wait: noted while a part is at work, and worked off when it has done.

use crate::replica::Replica;
use crate::replica::core::ForRequests;
use wayfs_types::MetaStore;

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
