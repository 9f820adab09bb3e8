//! What only the home of a volume does: admitting machines, and turning them away.

use crate::children::Children;
use crate::replica::Replica;
use crate::replica::errors::GrantError;
use std::collections::BTreeSet;
use std::sync::Arc;
use wayfs_types::{
    Admitted, Digest, Image, Key, Life, Limits, MetaStore, NodeId, Origin, OriginId, Seal, Standing, StorageError,
    Time, VolumeId, WallTime,
};

/// Longest label in bytes.
const LABEL_MAX: usize = 64;
/// Origins below are given by the first life of a home alone.
const COUNTED: u32 = 65_536;
/// Origins that one machine may have back which this home does not know.
const AGAIN_MAX: usize = 1024;

/// What becomes of records of a removed member that the home has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// What a station took before it heard is taken.
    Taken,
    /// They do nothing, wherever they come from: somebody else may have its key.
    Fenced,
}

/// Where a life of a home begins to look for origins that are free.
fn first_of_life(volume: VolumeId, life: Life) -> u32 {
    let mut bytes = volume.as_bytes().to_vec();
    bytes.extend(life.0.to_be_bytes());
    let digest = Digest::of(&bytes);
    digest.as_bytes().iter().take(4).fold(0, |number, byte| number << 8 | u32::from(*byte))
}

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
        standing: impl Into<Standing>,
        label: &str,
    ) -> Result<OriginId, GrantError> {
        if !self.core.orders() {
            return Err(GrantError::NotHome);
        }
        if label.is_empty() || label.len() > LABEL_MAX || label.chars().any(|c| c == '/' || c.is_control()) {
            return Err(GrantError::Label);
        }
        self.core.now = self.core.now.max(now);
        self.core.wall = wall;
        let origin = self.free_origin()?.ok_or(GrantError::Exhausted)?;
        let Standing { admitted, limits } = standing.into();
        let image = Origin::admitted(admitted, node, label.to_owned()).limited(limits);
        self.core.state.put_image(Key::Origin(origin), Some(Image::Origin(image.into())))?;
        self.finish_admission()?;
        Ok(origin)
    }

    /// An origin that nobody was given. The first life of a home counts from 1. Each later one begins at a place of its own
    /// that is drawn from its number: it may be upon an older copy, which does not know the origins that were given after
    /// it was made, and nobody who could tell may ever come. Of 8 million places two lives hardly draw the same.
    pub(crate) fn free_origin(&mut self) -> Result<Option<OriginId>, StorageError> {
        let all = self.core.state.origins()?;
        if self.histories.is_first_life_of_home() {
            let counted = all.iter().rev().map(|(origin, _)| origin.raw()).find(|raw| *raw < COUNTED);
            if let Some(origin) = OriginId::new(counted.map_or(1, |last| last + 1)).ok().filter(|o| o.raw() < COUNTED) {
                return Ok(Some(origin));
            }
        }
        let taken: BTreeSet<u32> = all.iter().map(|(origin, _)| origin.raw()).collect();
        let first =
            COUNTED + first_of_life(self.core.config.volume, self.core.config.life) % (OriginId::MAX.raw() - COUNTED);
        let free = (first..=OriginId::MAX.raw()).chain(1..first).find(|raw| !taken.contains(raw));
        Ok(free.and_then(|raw| OriginId::new(raw).ok()))
    }

    /// A machine comes under an origin that this home gave it and knows no more, since it was put back to an older copy. If the
    /// machine is a member under another one, and shows what this home signed when it gave that ([`Replica::admission`]), it has its own
    /// again: nobody else was given it. Answers whether it has.
    ///
    /// # Errors
    /// The store failed.
    pub fn admit_again(
        &mut self,
        now: Time,
        wall: WallTime,
        node: NodeId,
        origin: OriginId,
        admission: Option<Seal>,
    ) -> Result<bool, GrantError> {
        let may_have_forgotten = self.core.orders() && self.histories.is_later_life();
        if !may_have_forgotten
            || origin == OriginId::GENESIS
            || Children::origin_image(&mut self.core, origin)?.is_some()
        {
            return Ok(false);
        }
        if !self.is_admission(node, origin, admission.as_ref()) {
            return Ok(false);
        }
        let known = self.core.state.admitted(node)?;
        let is_member =
            |image: &Origin| matches!(image.admitted, Admitted::Station | Admitted::Client | Admitted::Reader);
        if known.len() > AGAIN_MAX || !known.iter().all(|(_, image)| is_member(image)) {
            return Ok(false);
        }
        let Some((_, member)) = known.into_iter().next_back() else { return Ok(false) };
        self.core.now = self.core.now.max(now);
        self.core.wall = wall;
        let image = Origin::admitted(member.admitted, member.node, member.label).limited(member.limits);
        self.core.state.put_image(Key::Origin(origin), Some(Image::Origin(image.into())))?;
        self.finish_admission()?;
        Ok(true)
    }

    /// Turns a machine away for good: its sessions end, here at once and at stations when they hear of it. What becomes of
    /// what it wrote before and a station holds is said by `held`. Answers how many origins it had.
    ///
    /// # Errors
    /// [`GrantError::NotHome`], or the store failed.
    pub fn revoke(&mut self, now: Time, wall: WallTime, node: NodeId, held: Held) -> Result<usize, GrantError> {
        if !self.core.orders() {
            return Err(GrantError::NotHome);
        }
        self.core.now = self.core.now.max(now);
        self.core.wall = wall;
        let mut count = 0;
        for (origin, image) in self.core.state.admitted(node)? {
            if image.admitted == Admitted::Home {
                continue;
            }
            let limits = Limits { is_fenced: image.limits.is_fenced || held == Held::Fenced, ..image.limits };
            let revoked = Origin { admitted: Admitted::Revoked, limits, ..image };
            self.core.state.put_image(Key::Origin(origin), Some(Image::Origin(revoked.into())))?;
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
        standing: impl Into<Standing>,
    ) -> Result<bool, GrantError> {
        if !self.core.orders() {
            return Err(GrantError::NotHome);
        }
        self.core.now = self.core.now.max(now);
        self.core.wall = wall;
        let known = Children::origin_image(&mut self.core, origin)?.filter(|image| image.node == node);
        let Some(image) = known.filter(|image| image.admitted != Admitted::Home) else { return Ok(false) };
        let Standing { admitted, limits } = standing.into();
        // A quota is no matter of tickets.
        let limits = Limits { quota: image.limits.quota, ..limits };
        if (image.admitted, image.limits) != (admitted, limits) {
            self.core.state.put_image(
                Key::Origin(origin),
                Some(Image::Origin(Arc::new(Origin { admitted, limits, ..Arc::unwrap_or_clone(image) }))),
            )?;
            self.finish_admission()?;
        }
        Ok(true)
    }

    pub(crate) fn finish_admission(&mut self) -> Result<(), GrantError> {
        if let Err(error) = self.commit() {
            self.abandon();
            return Err(error.into());
        }
        if let Err(error) = self.pump_children() {
            self.fail(&error);
            return Err(error.into());
        }
        self.core.state.want_sync();
        self.core.ask_sync();
        Ok(())
    }
}
