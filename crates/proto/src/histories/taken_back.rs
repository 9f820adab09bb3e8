//! What a home told to be stable, and is not there any more.
//!
//! A home that was put back to an older copy, or whose disk lost a chunk, has less than it had told. Its mark for an origin says so, and
//! what was told before is taken back: whoever waits for *stable* waits for what is so now. A station brings what it has of it at once,
//! whatever its policy is, since its users were told that it is at the home.
//!
//! ```text
//!   home (lacks contents) ──Welcome: went back, or Marks: less than before──▶ station ──Marks──▶ clients
//!                         ◀──Want (what was stable), contents ───────────────
//! ```

use crate::replica::Replica;
use wayfs_types::{MetaStore, OriginId, StorageError};
use wayfs_wire::Up;

impl<S: MetaStore> Replica<S> {
    /// The parent lost what it had told. It tells anew what is stable; of what it is not told about, this replica does not know. What it
    /// asks the parent about goes with the rest that is told anew in each session.
    pub(crate) fn forget_stable(&mut self) -> Result<(), StorageError> {
        self.contents.forget_told(&mut self.uplink);
        self.contents.note_recount(&mut self.core);
        for origin in self.core.state.marked()? {
            self.go_back(origin, 0)?;
        }
        Ok(())
    }

    /// What an origin wrote is at the home up to `through` only, of what was told to be.
    pub(crate) fn take_back_stable(&mut self, origin: OriginId, through: u64) -> Result<(), StorageError> {
        let Some(before) = self.go_back(origin, through)? else { return Ok(()) };
        self.contents.forget_told(&mut self.uplink);
        if self.core.relays() {
            self.core.tell_parent(Up::Want { origin, through: before });
        }
        Ok(())
    }

    fn go_back(&mut self, origin: OriginId, through: u64) -> Result<Option<u64>, StorageError> {
        let Some(before) = self.core.lower_stable(origin, through)? else { return Ok(None) };
        if origin == self.core.config.origin {
            self.uplink.forget_asked_stable();
            self.contents.note_recount(&mut self.core);
        }
        if self.core.relays() {
            // Clients that come are told that something was lost, and forget, too.
            self.histories.lives.edit().lost_at = Some(self.core.now);
            self.contents.handle_want(&mut self.core, &mut self.children, origin, before)?;
        }
        Ok(Some(before))
    }
}
