//! Whether two replicas mean the same history when they name the same records.
//!
//! Records are named by origin and sequence, and a sequence says nothing of what was written under it: a store that was
//! put back to an older copy, or opened twice, or a member that writes in another's name, gives numbers a second
//! time. So each origin's records carry a running hash (`wayfs_tree::chained`). It is compared
//! * when a session begins: the parent says what it has of each origin, as number and hash;
//! * with every mark (four bytes of it) and every image of an origin;
//! * with every record that is taken: the child says upon what its first record was written, and the parent keeps
//!   count. What comes as a duplicate is hashed, too.
//!
//! A difference is never taken for a duplicate, nor an acknowledgement for one's own. What then happens is in `fork`.
//!
//! **Gaps.** A writer that crashed begins anew behind the numbers that it may have lost (`ahead`); the record that does
//! so begins the hash anew, and names the life of the store. **Cancelled records.** A station sends others in place of
//! what its writers wrote; it names the span and the hash at its end, and the span is taken whole or not at all.

use crate::api::PeerId;
use crate::children::Children;
use crate::histories::Histories;
use crate::histories::forked::Goes;
use crate::members::Members;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::state::log_entry::Written;
use crate::state::log_item::LogItem;
use crate::state::position::LogPosition;
use crate::upstream::Uplink;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wayfs_tree::{applied_chain, chained};
use wayfs_types::{Chain, FileId, Image, Key, MetaStore, Op, Origin, OriginId, Record, RecordId, StorageError};
use wayfs_wire::{Applied, KeyImage, Mark, SentRecord, Up};

/// Statements of a child about its histories that wait for the records which they are about.
const STATED_MAX: usize = 8192;

/// The child's half.
impl<S: MetaStore> Replica<S> {
    /// Whether the parent's word of our own records is about other ones than ours, and how that shows.
    fn own_fork(&mut self, through: u64, chain: Chain) -> Result<Option<String>, StorageError> {
        let origin = self.core.config.origin;
        if self.is_of_another_copy(through) {
            let last = self.core.state.sequence();
            let text =
                format!("the parent has record {origin}.{through}, and {last} is the last that this store wrote");
            return Ok(Some(text));
        }
        let known = Histories::known_chain(&mut self.core, origin, through)?;
        Ok(known.filter(|known| *known != chain).map(|_| format!("the parent has another record {origin}.{through}")))
    }

    /// What a parent's welcome says of our history. Origins of children whose records it has other ones of are kept back.
    pub(crate) fn fork_in_welcome(
        &mut self,
        own: OriginId,
        applied: &[Applied],
    ) -> Result<Option<String>, StorageError> {
        let mut fork = self.histories.fork.noticed.clone();
        let (mut doubtful, mut unplaced) = (BTreeSet::new(), BTreeSet::new());
        for Applied { origin, through, chain } in applied {
            if *origin == own {
                fork = fork.or(self.own_fork(*through, *chain)?);
                continue;
            }
            if !self.core.relays() {
                // One that it had before: of that it sends nothing.
                continue;
            }
            let known = Histories::known_chain(&mut self.core, *origin, *through)?;
            let differs = known.is_some_and(|known| known != *chain);
            // A parent that was put back lacks what ours follow: it would refuse them for that. It speaks of the origins
            // that the greeting named; of others, whose first records came since, nothing is known.
            let lacks = *through < self.core.state.confirmed_applied(*origin)?;
            if differs || lacks {
                doubtful.insert(*origin);
            } else if known.is_none() && *through > self.core.state.confirmed_applied(*origin)? {
                // Of our history or of another, by another way: its image tells.
                unplaced.insert(*origin);
            }
        }
        self.uplink.hold_back(doubtful, unplaced);
        Ok(fork)
    }

    /// A client's history forked, and its parent was put back: what that lost of ours is written again, too. If another copy wrote
    /// the newest number that it has, it has of ours what lies before one of its gaps.
    pub(crate) fn note_lost_beside_fork(&mut self, ends: &[u64]) -> Result<(), StorageError> {
        let own = self.core.config.origin;
        let newest = self.uplink.applied_of(own);
        let ours = ends.iter().copied().chain([newest]).filter(|number| !self.is_of_another_copy(*number));
        let has = ours.max().unwrap_or(0);
        if self.core.writes() && has < self.core.state.confirmed_applied(own)? {
            self.histories.fork.lost_after = Some(has);
            self.histories.fork.lost_before = Histories::lost_of_former(&mut self.core, &self.uplink)?;
        }
        Ok(())
    }

    /// What the parent's images say of our history.
    pub(crate) fn fork_in_images(&mut self, images: &[KeyImage]) -> Result<Option<String>, StorageError> {
        let own = self.core.config.origin;
        for pair in images {
            if let (Key::Origin(origin), Some(Image::Origin(image))) = (&pair.key, &pair.image)
                && *origin == own
            {
                return Ok(match self.own_fork(image.applied, image.chain)? {
                    Some(fork) => Some(fork),
                    None => Histories::fork_of_a_store(&mut self.core, image.applied, images)?,
                });
            }
        }
        Ok(None)
    }

    /// What a mark says of a history. It is compared with what is tentative: the rest was when it was confirmed.
    pub(crate) fn fork_of_mark(&mut self, mark: &Mark) -> Result<Option<String>, StorageError> {
        let (origin, applied) = (mark.origin, mark.applied);
        if origin == self.core.config.origin && self.is_of_another_copy(applied) {
            return Ok(Some(format!(
                "the parent acknowledged record {origin}.{applied}, which this store never wrote"
            )));
        }
        let tentative =
            RecordId::new(origin, applied).ok().and_then(|record| self.core.state.log().position_of(record));
        let item = tentative.and_then(|position| self.core.state.log().item(position));
        let differs = item.is_some_and(|item| item.chain.check() != mark.check);
        Ok(differs.then(|| format!("the parent acknowledged another record {origin}.{applied}")))
    }
}

impl Histories {
    /// Says upon what records were written whose predecessor was not sent in this session.
    pub(crate) fn state_histories<S: MetaStore>(core: &mut Core<S>, uplink: &mut Uplink, records: &[(Chain, &Record)]) {
        if !core.has_parent() {
            return;
        }
        let mut chains = Vec::new();
        for (before, record) in records {
            let (origin, follows) = (record.id.origin(), record.follows());
            let is_new_life = matches!(record.op, Op::Skip { .. });
            if uplink.note_told(record.id) != Some(follows) && follows > 0 && !is_new_life {
                chains.push(Applied { origin, through: follows, chain: *before });
            }
        }
        if !chains.is_empty() {
            core.tell_parent(Up::Chains { chains });
        }
    }

    /// The running hash at a sequence of an origin, if we still have it.
    pub(crate) fn known_chain<S: MetaStore>(
        core: &mut Core<S>,
        origin: OriginId,
        sequence: u64,
    ) -> Result<Option<Chain>, StorageError> {
        if sequence == 0 {
            return Ok(Some(Chain::START));
        }
        if let Some(confirmed) = Self::confirmed_origin(core, origin)?
            && confirmed.applied == sequence
        {
            return Ok(Some(confirmed.chain));
        }
        Ok(RecordId::new(origin, sequence).ok().and_then(|record| core.state.log().chain_at(record)))
    }

    /// What the parent has confirmed of an origin.
    pub(crate) fn confirmed_origin<S: MetaStore>(
        core: &mut Core<S>,
        origin: OriginId,
    ) -> Result<Option<Arc<Origin>>, StorageError> {
        let key = Key::Origin(origin);
        let image = match core.state.shadow(&key)? {
            Some(shadow) => shadow.image,
            None => wayfs_tree::View::image(&core.state.tx(), &key)?,
        };
        Ok(match image {
            Some(Image::Origin(origin)) => Some(origin),
            _ => None,
        })
    }

    /// The parent's newest number of ours is one that a crash took from us, or another copy gave, so that its hash says nothing of our own
    /// records before it. One of them that stored into a file which still shows what that was made upon is another one there: a copy that
    /// went on cancelled it, for the sake of what only that copy had. Or it met another there and left a file of its own: the parent had what
    /// it was made upon later.
    fn fork_of_a_store<S: MetaStore>(
        core: &mut Core<S>,
        applied: u64,
        images: &[KeyImage],
    ) -> Result<Option<String>, StorageError> {
        if !core.writes() || Self::known_chain(core, core.config.origin, applied)?.is_some() {
            return Ok(None);
        }
        let shows = |pair: &KeyImage| match (&pair.key, &pair.image) {
            (Key::Inode(file), Some(Image::Inode(inode))) => Some((*file, inode.version)),
            _ => None,
        };
        let shown: BTreeMap<FileId, RecordId> = images.iter().filter_map(shows).collect();
        for position in core.state.log().tentative_through(core.config.origin, applied) {
            let record = core.state.log_entry(position)?.record;
            if let Op::Store { file, base, .. } = record.op
                && shown.get(&file) == Some(&base)
                && !shown.contains_key(&FileId::made_by(record.id))
            {
                return Ok(Some(format!("the parent has {applied}, and nothing of what {} stored", record.id)));
            }
        }
        Ok(None)
    }

    /// Whether a station knows the record up to which a mark goes. If not, the images that follow tell whose it is: what is said of an
    /// origin is not about our records of it before that.
    pub(crate) fn is_placed<S: MetaStore>(core: &mut Core<S>, mark: &Mark) -> Result<bool, StorageError> {
        let (origin, applied) = (mark.origin, mark.applied);
        if !core.relays() || origin == core.config.origin {
            return Ok(true);
        }
        let is_tentative =
            RecordId::new(origin, applied).is_ok_and(|record| core.state.log().position_of(record).is_some());
        Ok(is_tentative || applied <= core.state.confirmed_applied(origin)?)
    }

    /// The places of an origin's tentative records here that the parent does not have, although it has (or will not take any
    /// more) their numbers, or what they follow; none: as far as can be told, what it confirms is what we have. `passed`: origins
    /// whose records this session has left out.
    pub(crate) fn parted_of<S: MetaStore>(
        core: &mut Core<S>,
        passed: &BTreeSet<OriginId>,
        (origin, image): (OriginId, &Origin),
    ) -> Result<(Goes, Vec<LogPosition>), StorageError> {
        let known = Self::known_chain(core, origin, image.applied)?;
        // Or it lost what our tentative records follow.
        let differs =
            known.is_some_and(|known| known != image.chain) || image.applied < core.state.confirmed_applied(origin)?;
        let tentative = core.state.log().tentative_of(origin);
        if differs {
            // Where the two part is not known: then all that is not confirmed counts.
            return Ok((Goes::All, tentative.map(|(position, _)| position).collect()));
        }
        // Written in another life than the parent knows under such numbers, or with a number that nothing has there. What else it has
        // numbers of it has: a life is one run of one store.
        let is_of_another_life = |item: &LogItem| image.lives.life_at(item.id.sequence()) != Some(item.life);
        // They stand in the order of their numbers: what waits behind those that the parent has, however much it is, is not
        // looked at for each of its messages.
        let has_number = |(_, item): &(LogPosition, &LogItem)| item.id.sequence() <= image.applied;
        let mut parted: Vec<LogPosition> = tentative
            .take_while(has_number)
            .filter(|(_, item)| is_of_another_life(item))
            .map(|(position, _)| position)
            .collect();
        if parted.is_empty() || known.is_some() && !passed.contains(&origin) {
            // What is behind the parent's newest record goes on with the history that both have (seed 169053631).
            return Ok((Goes::Through(image.applied), parted));
        }
        parted.extend(core.state.log().tentative_of(origin).skip_while(has_number).map(|(position, _)| position));
        Ok((Goes::All, parted))
    }

    pub(crate) fn handle_chains(
        children: &mut Children,
        peer: PeerId,
        child: OriginId,
        chains: Vec<Applied>,
    ) -> Result<(), StepError> {
        let Some(told) = children.told_mut(child) else { return Ok(()) };
        if told.stated.len() + chains.len() > STATED_MAX {
            return Err(StepError::Peer(peer, "tells of more histories than it sends records of".to_owned()));
        }
        let stated = chains.into_iter().map(|of| ((of.origin, of.through), of.chain));
        told.stated.extend(stated);
        Ok(())
    }

    /// Looks whether a record continues, or repeats, the history that is here. `end`: the running hash after it, of a
    /// record that stands for others.
    pub(crate) fn check_history<S: MetaStore>(
        core: &mut Core<S>,
        children: &mut Children,
        peer: PeerId,
        child: OriginId,
        record: &Record,
        end: Option<Chain>,
    ) -> Result<(), StepError> {
        let origin = record.id.origin();
        let sequence = record.id.sequence();
        let (applied, chain) = applied_chain(&core.state.tx(), origin)?;
        let Some(told) = children.told_mut(child) else { return Ok(()) };
        let is_new_life = matches!(record.op, Op::Skip { .. });
        let before = if is_new_life { Some(Chain::START) } else { told.before(record) };
        let Some(before) = before else {
            return Err(StepError::Peer(peer, format!("sent record {} without a word of what it was upon", record.id)));
        };
        let after = end.unwrap_or_else(|| chained(before, record));
        told.last.insert(origin, (sequence, after));
        let repeats_another = sequence == applied && after != chain;
        let continues_another = sequence > applied && record.follows() == applied && !is_new_life && before != chain;
        if repeats_another || continues_another {
            return Err(StepError::Peer(
                peer,
                format!("sent record {} of another history than the one here", record.id),
            ));
        }
        Ok(())
    }

    /// Whether a record was taken here.
    pub(crate) fn has_record<S: MetaStore>(core: &mut Core<S>, record: RecordId) -> Result<bool, StorageError> {
        Ok(Children::origin_image(core, record.origin())?.is_some_and(|taken| taken.has(record.sequence())))
    }

    /// A span of records that stand for others was taken: its end bears the hash of what was written.
    pub(crate) fn end_span<S: MetaStore>(
        core: &mut Core<S>,
        record: RecordId,
        chain: Chain,
    ) -> Result<(), StorageError> {
        let Some(image) = Children::origin_image(core, record.origin())? else { return Ok(()) };
        if image.applied == record.sequence() && image.chain != chain {
            core.state.put_image(
                Key::Origin(record.origin()),
                Some(Image::Origin(Arc::new(Origin { chain, ..Arc::unwrap_or_clone(image) }))),
            )?;
        }
        Ok(())
    }
}

/// The parent's half.
impl<S: MetaStore> Replica<S> {
    /// Says upon what the records of a message were written, and sends it.
    pub(crate) fn send_with_history(&mut self, up: Up, written: &BTreeMap<RecordId, Written>) {
        if let Up::Records { records } | Up::Cancelled { records, .. } = &up {
            let before = |sent: &SentRecord| written.get(&sent.record.id).map_or(Chain::START, |of| of.before);
            let upon: Vec<(Chain, &Record)> = records.iter().map(|sent| (before(sent), &sent.record)).collect();
            Histories::state_histories(&mut self.core, &mut self.uplink, &upon);
            Members::send_seals(&mut self.core, &up, written);
            self.note_sent(records);
        }
        self.core.tell_parent(up);
    }
}
