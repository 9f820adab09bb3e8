//! Contents that a child sent up do not come back down to it.
//!
//! What a record made of its file is told to its writer like to everybody else, as an image; only the contents that
//! travelled in the record are left out, and the writer puts them in again from its log. So a small file crosses each
//! line once. The parent leaves out what came in this session, since the child began to be told of changes, and only
//! until it has told the child that the record took effect (the image of its origin, in a whole cut): so long the child
//! keeps the record as a tentative one. A digest stands for what is left out. If the child finds that it has not got
//! that, the session ends, and in the next one nothing of it is left out. A station that writes records again by other names, since the
//! home's history parted from its own, may have sent them a moment ago: it keeps their contents for this session.

use crate::api::PeerId;
use crate::children::echo_filter::{ECHO_MAX, LEN_MIN};
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::state::log_entry::LogEntry;
use crate::state::of_record::content_of;
use crate::upstream::Uplink;
use bytes::Bytes;
use std::sync::Arc;
use wayfs_types::{Content, Digest, Image, MetaStore, Record, RecordId};
use wayfs_wire::{KeyImage, Omitted};

/// The contents that travel in a record.
fn inline_of(record: &Record) -> Option<Bytes> {
    match content_of(record)? {
        (_, Content::Inline(bytes)) => Some(bytes.clone()),
        _ => None,
    }
}

impl Uplink {
    /// Puts contents of our own records into images from which the parent left them out.
    pub(crate) fn put_back<S: MetaStore>(
        &self,
        core: &Core<S>,
        peer: PeerId,
        images: &mut [KeyImage],
        omitted: &[Omitted],
    ) -> Result<(), StepError> {
        let protocol_violation = || StepError::Peer(peer, "left out contents that we have not got".to_owned());
        for Omitted { index, digest } in omitted {
            let pair = images.get_mut(*index as usize).ok_or_else(protocol_violation)?;
            let Some(Image::Inode(inode)) = &mut pair.image else { return Err(protocol_violation()) };
            let bytes = self.sent_contents(core, inode.version)?.filter(|bytes| Digest::of(bytes) == *digest);
            Arc::make_mut(inode).content = Content::Inline(bytes.ok_or_else(protocol_violation)?);
        }
        Ok(())
    }

    fn sent_contents<S: MetaStore>(&self, core: &Core<S>, version: RecordId) -> Result<Option<Bytes>, StepError> {
        let record = core.state.logged(version)?;
        let parted = || self.session.as_ref().and_then(|upstream| upstream.parted.get(&version).cloned());
        Ok(record.as_ref().and_then(inline_of).or_else(parted))
    }

    /// Records of others are taken out of the log, and the home may be about to tell what it made of them.
    pub(crate) fn keep_parted(&mut self, entries: &[LogEntry]) {
        let Some(upstream) = self.session.as_mut() else { return };
        let contents = entries.iter().filter_map(|entry| Some((entry.record.id, inline_of(&entry.record)?)));
        let room = ECHO_MAX.saturating_sub(upstream.parted.len());
        upstream.parted.extend(contents.filter(|(_, bytes)| bytes.len() >= LEN_MIN).take(room));
    }
}
