//! Images on their way down, read and put into bytes once however many children are told.
//!
//! A home tells each change to all of its stations, and a station to all clients that look. What they are told is the
//! same but for a number, and for contents that a child brought itself. So the rows of the change index, the images
//! and their bytes are kept while the children are given what they have to get, and forgotten afterwards: nothing is
//! committed in between, so nothing of it can be out of date.

use crate::children::Children;
use crate::children::echo_filter::EchoFilter;
use crate::replica::core::Core;
use crate::state::tables::{change_key, number_key, parse_change, table};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use wayfs_types::{CommitNumber, Key, MetaStore, StorageError};
use wayfs_wire::{KeyImage, Omitted};

/// Images that are kept at once. What does not fit is read again for the next child.
const ROWS_MAX: usize = 16_384;
/// Stretches of the change index that are kept at once.
const STRETCHES_MAX: usize = 64;

/// A changed key with what it is by now.
#[derive(Debug)]
pub(crate) struct Row {
    /// The change.
    pub(crate) number: CommitNumber,
    pub(crate) pair: KeyImage,
    bytes: Bytes,
}

impl Row {
    fn new(number: CommitNumber, pair: KeyImage) -> Self {
        let bytes = wayfs_wire::encode_image(&pair);
        Self { number, pair, bytes }
    }
}

/// Rows of the change index that follow each other.
type Stretch = Arc<[(CommitNumber, Key)]>;

/// What was read for one child and is the same for the next.
#[derive(Debug, Default)]
pub(crate) struct Told {
    rows: BTreeMap<CommitNumber, Arc<Row>>,
    /// By the change that they come after, and the most rows that were asked for.
    stretches: BTreeMap<(CommitNumber, usize), Stretch>,
}

/// Images on their way into one message.
#[derive(Debug, Default)]
pub(crate) struct ImageFrame {
    pub(crate) images: Vec<Bytes>,
    pub(crate) omitted: Vec<Omitted>,
    /// Bytes of the images.
    pub(crate) len: usize,
    /// The first change in it.
    pub(crate) first: CommitNumber,
}

impl ImageFrame {
    /// Adds what is told to one child alone.
    pub(crate) fn add(&mut self, number: CommitNumber, mut pair: KeyImage, echo_filter: &mut EchoFilter) {
        let index = self.images.len() as u32;
        self.omitted.extend(echo_filter.omit(&mut pair).map(|digest| Omitted { index, digest }));
        self.push(number, wayfs_wire::encode_image(&pair));
    }

    /// Adds what others are told, too.
    pub(crate) fn add_row(&mut self, row: &Row, echo_filter: &mut EchoFilter) {
        if echo_filter.is_concerned(&row.pair) {
            return self.add(row.number, row.pair.clone(), echo_filter);
        }
        self.push(row.number, row.bytes.clone());
    }

    fn push(&mut self, number: CommitNumber, bytes: Bytes) {
        if self.images.is_empty() {
            self.first = number;
        }
        self.len += bytes.len();
        self.images.push(bytes);
    }
}

impl Children {
    /// Rows of the change index after a change, `limit` at most.
    pub(crate) fn stretch<S: MetaStore>(
        core: &Core<S>,
        told: &mut Told,
        after: CommitNumber,
        limit: usize,
    ) -> Result<Stretch, StorageError> {
        if let Some(stretch) = told.stretches.get(&(after, limit)) {
            return Ok(Arc::clone(stretch));
        }
        let until = number_key(table::CHANGE, u64::MAX);
        let pairs = core.state.store().scan(&change_key(table::CHANGE, after.next()), &until, limit)?;
        let stretch: Stretch = pairs.iter().map(parse_change).collect::<Result<_, StorageError>>()?;
        if told.stretches.len() < STRETCHES_MAX {
            told.stretches.insert((after, limit), Arc::clone(&stretch));
        }
        Ok(stretch)
    }

    /// What a key that a change touched is by now.
    pub(crate) fn row<S: MetaStore>(
        core: &Core<S>,
        told: &mut Told,
        number: CommitNumber,
        key: &Key,
    ) -> Result<Arc<Row>, StorageError> {
        if let Some(row) = told.rows.get(&number) {
            return Ok(Arc::clone(row));
        }
        let image = core.state.image(key)?;
        let row = Arc::new(Row::new(number, KeyImage { key: key.clone(), image }));
        if told.rows.len() < ROWS_MAX {
            told.rows.insert(number, Arc::clone(&row));
        }
        Ok(row)
    }
}
