//! What only the home of a volume does: admitting machines, and turning them away.

use crate::api::Role;
use crate::replica::{GrantError, Replica};
use wayfs_types::{Admitted, Image, Key, MetaStore, NodeId, Origin, OriginId, Time, WallTime};

/// Longest label in bytes.
const LABEL_MAX: usize = 64;

impl<S: MetaStore> Replica<S> {
    /// Admits a machine to the volume under a new origin.
    ///
    /// It is in force at once, and durable when the driver says [`crate::Input::Stored`] for the
    /// [`crate::Output::Sync`] that this gives.
    ///
    /// # Errors
    /// [`GrantError`]: not the home, a bad label, no origin left, or the store failed.
    pub fn grant_origin(
        &mut self,
        now: Time,
        wall: WallTime,
        node: NodeId,
        admitted: Admitted,
        label: &str,
    ) -> Result<OriginId, GrantError> {
        if self.config.role != Role::Home {
            return Err(GrantError::NotHome);
        }
        if label.is_empty() || label.len() > LABEL_MAX || label.chars().any(|c| c == '/' || c.is_control()) {
            return Err(GrantError::Label);
        }
        self.now = self.now.max(now);
        self.wall = wall;
        let last = self.origins()?.last().map_or(0, |(origin, _)| origin.raw());
        let origin = OriginId::new(last + 1).map_err(|_| GrantError::Exhausted)?;
        let image = Origin::admitted(admitted, node, label.to_owned());
        self.put_image(Key::Origin(origin), Some(Image::Origin(image)))?;
        self.finish_admission()?;
        Ok(origin)
    }

    /// Turns a machine away for good: its sessions end, here at once and at stations when they hear of it. What
    /// it wrote before and a station holds is still taken. Answers how many origins it had.
    ///
    /// # Errors
    /// [`GrantError::NotHome`], or the store failed.
    pub fn revoke(&mut self, now: Time, wall: WallTime, node: NodeId) -> Result<usize, GrantError> {
        if self.config.role != Role::Home {
            return Err(GrantError::NotHome);
        }
        self.now = self.now.max(now);
        self.wall = wall;
        let mut count = 0;
        for (origin, image) in self.admitted(node)? {
            if image.admitted == Admitted::Home {
                continue;
            }
            let revoked = Origin { admitted: Admitted::Revoked, ..image };
            self.put_image(Key::Origin(origin), Some(Image::Origin(revoked)))?;
            count += 1;
        }
        self.finish_admission()?;
        Ok(count)
    }

    /// Takes a machine that was turned away in again, under the origin that it had: what it wrote meanwhile is taken then.
    /// `false`: the origin is another's, the home's own, or one that was never granted; nothing has changed.
    ///
    /// # Errors
    /// [`GrantError::NotHome`], or the store failed.
    pub fn reinstate(
        &mut self,
        now: Time,
        wall: WallTime,
        (node, origin): (NodeId, OriginId),
        admitted: Admitted,
    ) -> Result<bool, GrantError> {
        if self.config.role != Role::Home {
            return Err(GrantError::NotHome);
        }
        self.now = self.now.max(now);
        self.wall = wall;
        let known = self.origin_image(origin)?.filter(|image| image.node == node);
        let Some(image) = known.filter(|image| image.admitted != Admitted::Home) else { return Ok(false) };
        if image.admitted != admitted {
            self.put_image(Key::Origin(origin), Some(Image::Origin(Origin { admitted, ..image })))?;
            self.finish_admission()?;
        }
        Ok(true)
    }

    fn finish_admission(&mut self) -> Result<(), GrantError> {
        if let Err(error) = self.commit() {
            self.abandon();
            return Err(error.into());
        }
        if let Err(error) = self.pump_children() {
            self.fail(&error);
            return Err(error.into());
        }
        self.sync_wanted = true;
        self.ask_sync();
        Ok(())
    }
}
