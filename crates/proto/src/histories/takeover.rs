//! A station takes over the whole state of its home: because it is new, was away for long, or the home was put back.
//!
//! ```text
//!   reset at change N ──images, each named key gets a number beyond N──▶ sweep: what the home did not name is no more
//! ```
//!
//! The number of a key tells only of those that nothing tentative touched. What the home had confirmed of the others lies
//! aside, with a number of its own; and a replay puts such a key back into the view under a new number although the home
//! said nothing of it. Those are remembered as **unnamed** until the home names them.

use crate::api::Output;
use crate::histories::Histories;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::log_entry::Shadow;
use crate::state::tables::{number_key, parse_image_key, table, unpack};
use std::collections::BTreeSet;
use wayfs_types::{CommitNumber, FileId, Image, Inode, Key, Kind, MetaStore, Place, StorageError};
use wayfs_wire::KeyImage;

impl<S: MetaStore> Replica<S> {
    /// Applies a cut. A client notes that the parent vouched for what it names; so does a station that takes
    /// over the whole state, and sweeps the rest later.
    pub(crate) fn take_cut(&mut self, mut cut: Vec<KeyImage>) -> Result<(), StorageError> {
        Histories::add_unmade_copies(&mut self.core, &mut cut)?;
        let is_noted = !self.core.state.holds_all() || self.core.state.reset().is_some();
        let keys: Vec<Key> = if is_noted { cut.iter().map(|pair| pair.key.clone()).collect() } else { Vec::new() };
        self.take_images(cut)?;
        for key in keys {
            self.histories.fork.unnamed.remove(&key);
            Histories::renew_key(&mut self.core, key)?;
        }
        Ok(())
    }

    /// After the whole state came: what it did not name is no more.
    pub(crate) fn sweep(&mut self) -> Result<(), StorageError> {
        if self.core.state.reset().is_none() {
            return Ok(());
        }
        let (mut stale, shadowed) = self.histories.stale_keys(&mut self.core)?;
        if self.core.state.rescues() {
            for key in &shadowed {
                if let Key::Entry(parent, name) = key {
                    self.histories.note_name(&mut self.core, &Place { parent: *parent, name: name.clone() }, None)?;
                }
            }
            self.take_orphans(&shadowed)?;
        }
        self.core.state.set_reset(None);
        let mut bound = Vec::new();
        for key in shadowed {
            match self.core.state.shadow(&key)? {
                Some(_) => bound.push(KeyImage { key, image: None }),
                None => stale.push(key),
            }
        }
        if !bound.is_empty() {
            self.take_images(bound)?;
        }
        for key in stale {
            self.histories.find_gone(&mut self.core, &key)?;
            self.core.state.put_image(key, None)?;
        }
        if self.core.state.take_rescues() {
            self.write_what_is_lost()?;
        }
        Ok(())
    }

    fn write_what_is_lost(&mut self) -> Result<(), StorageError> {
        let lost = std::mem::take(&mut self.histories.fork.lost);
        let lost = Histories::without_known(&mut self.core, lost)?;
        let written_over = Histories::find_written_over(&mut self.core, &lost)?;
        let mut records = if lost.is_empty() { 0 } else { self.write_lost(lost)? };
        records += self.write_over_again(written_over)?;
        let unwritten = std::mem::take(&mut self.histories.fork.unwritten);
        self.write_parted(unwritten)?;
        Histories::forget_found(&mut self.core)?;
        self.take_over_forgotten()?;
        self.histories.begin_after_loss(&mut self.core, &mut self.children);
        self.core.state.stage_output(Output::Recovered { records });
        Ok(())
    }
}

impl Histories {
    /// A version stands in one place. A parent that shows one in its file has made no copy of it: one that another made, which had not
    /// heard of what it was stored upon, is none here. What a program goes on to write upon that version would go into the copy.
    fn add_unmade_copies<S: MetaStore>(core: &mut Core<S>, cut: &mut Vec<KeyImage>) -> Result<(), StorageError> {
        if core.state.holds_all() {
            return Ok(());
        }
        let mut unmade = BTreeSet::new();
        for pair in &*cut {
            let (Key::Inode(file), Some(Image::Inode(inode))) = (&pair.key, &pair.image) else { continue };
            let made = FileId::made_by(inode.version);
            // Most versions left no file of their own: one look at the view tells.
            // What became another file (an alias), or was removed, shows nothing.
            if is_living_file(inode)
                && made != *file
                && wayfs_tree::inode(&core.state.tx(), made)?.is_some_and(|copy| is_living_file(&copy))
                && let Some(Image::Inode(copy)) = Self::confirmed_image(core, &Key::Inode(made))?
                && is_living_file(&copy)
            {
                unmade.insert(Key::Inode(made));
            }
        }
        if unmade.is_empty() {
            return Ok(());
        }
        for pair in &*cut {
            unmade.remove(&pair.key);
        }
        cut.extend(unmade.into_iter().map(|key| KeyImage { key, image: None }));
        Ok(())
    }

    /// What had a shadow row is put back, and the cut does not name it. `number`: when the home vouched for it.
    pub(crate) fn note_unnamed<S: MetaStore>(&mut self, core: &Core<S>, key: &Key, number: CommitNumber) {
        if core.state.reset().is_some_and(|reset| number <= reset) {
            self.fork.unnamed.insert(key.clone());
        }
    }

    /// What the home did not name while it told its whole state, and what has a shadow row of that.
    fn stale_keys<S: MetaStore>(&mut self, core: &mut Core<S>) -> Result<(Vec<Key>, Vec<Key>), StorageError> {
        let Some(reset) = core.state.reset() else { return Ok((Vec::new(), Vec::new())) };
        let mut unnamed = std::mem::take(&mut self.fork.unnamed);
        let mut old = Vec::new();
        core.state.each(&number_key(table::CHANGE, 0), &number_key(table::CHANGE, reset.0 + 1), |_, value| {
            let mut key = vec![table::VIEW];
            key.extend(value);
            old.push(parse_image_key(&key)?);
            Ok(())
        })?;
        // What this very cut names has its old row still.
        let mut old: BTreeSet<Key> = old.into_iter().filter(|key| !core.state.overlay().is_touched(key)).collect();
        let mut shadowed = Vec::new();
        let mut from = vec![table::SHADOW];
        loop {
            let pairs = core.state.tx().scan_raw(&from, &[table::SHADOW + 1], crate::state::tables::PAGE)?;
            let Some((last, _)) = pairs.last() else { break };
            from.clone_from(last);
            from.push(0);
            for (key, value) in pairs {
                let key = parse_image_key(&key)?;
                let Shadow { number, image } = unpack(&value)?;
                // Its old row tells what tentative records made of it, not what the home said.
                old.remove(&key);
                let is_unnamed = unnamed.remove(&key) || number <= reset;
                if is_unnamed && image.is_some() {
                    shadowed.push(key);
                }
            }
        }
        unnamed.extend(old);
        Ok((unnamed.into_iter().collect(), shadowed))
    }

    /// Gives a key a new number although its image stays.
    fn renew_key<S: MetaStore>(core: &mut Core<S>, key: Key) -> Result<(), StorageError> {
        let image = wayfs_tree::View::image(&core.state.tx(), &key)?;
        if image.is_some() {
            core.state.put_image(key.clone(), image)?;
            core.state.renew(key);
        }
        Ok(())
    }
}

fn is_living_file(inode: &Inode) -> bool {
    inode.kind == Kind::File && inode.merged_into.is_none() && !inode.is_removed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Role;
    use crate::tests::world::{HOME, World};
    use std::sync::Arc;
    use wayfs_types::{OriginId, RecordId};

    /// An alias names the version of the file that it became: that file stays in the cache.
    #[test]
    fn what_another_file_became_is_no_copy_that_was_not_made() {
        let mut world = World::new();
        let ann = world.add(Role::Client, "ann@a");
        world.connect(ann, HOME);
        world.settle();
        let file = world.create(ann, FileId::ROOT, "x");
        world.settle();
        let inode = (*world.lookup(ann, FileId::ROOT, "x").unwrap().1).clone();
        let other = FileId::made_by(RecordId::new(OriginId::new(9).unwrap(), 1).unwrap());
        for (merged_into, unmade) in [(Some(file), 0), (None, 1)] {
            let image = Some(Image::Inode(Arc::new(Inode { merged_into, ..inode.clone() })));
            let mut cut = vec![KeyImage { key: Key::Inode(other), image }];
            Histories::add_unmade_copies(&mut world.hosts[ann].replica.core, &mut cut).unwrap();
            assert_eq!(cut.len(), 1 + unmade);
        }
    }
}
