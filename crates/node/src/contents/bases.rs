//! Chunks as differences to others that both sides have: which ones stand as bases, on each of the four sides.
//!
//! | | an answer | a push |
//! | --- | --- | --- |
//! | sender | what the asker named and is here, else what it was given before | the former version that the parent has, else what was pushed last |
//! | receiver | what it named or was given; waits for what is still under way | what the sender named, or "gone" |
//!
//! Only over slow paths. A base that one side has no more costs a repetition without bases, a wrong one a digest that does not fit,
//! and then the same.

use super::codec::{self, BASES_LEN_MAX};
use super::compression::Path;
use super::former::{Reach, counterparts};
use super::history::SIBLING_LEN_MAX;
use super::message::Form;
use super::wait::Wait;
use super::want::Want;
use crate::core::PushOrder;
use crate::session::Session;
use crate::volume::Volume;
use bytes::Bytes;
use std::sync::{Arc, PoisonError};
use wayfs_proto::Neighbour;
use wayfs_types::{Content, Digest, FileId, Inode, Place};

/// Longest that is packed on a thread of the runtime, bases included, at a level that takes no longer than 0.5 ms for it.
const QUICK_LEN_MAX: usize = 32 << 10;
const QUICK_LEVEL_MAX: i32 = 9;

/// What the answer to a question may be the difference to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Offer {
    /// Of the question; 0: nothing that was given before.
    pub(crate) number: u32,
    /// Chunks that the asker has.
    pub(crate) named: Vec<Digest>,
}

/// Bases of a difference, as bits of the form that names them.
#[derive(Debug, Clone, Copy)]
struct Upon {
    /// Of those that the asker named in its question, or the sender of a push beside it.
    named: u8,
    /// Of those that the asker was given before.
    before: u64,
}

impl Upon {
    const fn named(named: u8) -> Self {
        Self { named, before: 0 }
    }
}

/// A chunk as it is sent.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) form: Form,
    pub(crate) body: Bytes,
    /// The names that the form's bits stand for, in a push.
    pub(crate) bases: Vec<Digest>,
}

impl Packed {
    fn alone((form, body): (Form, Bytes)) -> Self {
        Self { form, body, bases: Vec::new() }
    }
}

impl Session {
    /// The path to the neighbour as it looks at the moment.
    pub(crate) fn path(&self, volume: &Volume) -> Path {
        self.history.path.look(&self.connection, volume.settings.content_packing)
    }
}

impl Volume {
    /// What to offer with a question.
    pub(crate) async fn offer(self: &Arc<Self>, session: &Session, want: Want) -> Offer {
        if !session.path(self).is_slow() {
            return Offer::default();
        }
        let named = match self.present(want) {
            Some((place, content)) => self.counterparts(&place, content, want.digest, Reach::Child).await,
            None => Vec::new(),
        };
        let number = session.history.asked().ask(want.digest);
        Offer { number, named: named.into_iter().filter(|digest| self.contents.has(digest)).collect() }
    }

    /// The bases of an answer, one after the other; `None` if one of them is not to be had.
    pub(crate) async fn bases_of_answer(
        self: &Arc<Self>,
        session: &Session,
        offer: &Offer,
        form: Form,
        wait: &mut Wait<'_>,
    ) -> Option<Bytes> {
        let Form::Difference { named, before, .. } = form else { return Some(Bytes::new()) };
        let mut digests = session.history.asked().bases(offer.number, before)?;
        for digest in &digests {
            self.fetch_under_way(digest, wait).await;
        }
        digests.extend(selected(&offer.named, named)?);
        self.read_joined(&digests).await
    }

    /// A chunk as the answer to a question.
    pub(crate) async fn pack_answer(&self, session: &Session, chunk: Bytes, offer: &Offer) -> Packed {
        let path = session.path(self);
        if path.is_slow() {
            let named = self.fitting(&offer.named);
            if named != 0
                && let Some(bases) = self.read_joined(&selected(&offer.named, named).unwrap_or_default()).await
                && let Some(packed) = self.pack_upon(Upon::named(named), &chunk, bases, path).await
            {
                return packed;
            }
            if chunk.len() <= SIBLING_LEN_MAX && codec::is_worth_it(&chunk) {
                let (before, bases) = session.history.given().give(offer.number, &chunk);
                if before != 0
                    && let Some(packed) = self.pack_upon(Upon { named: 0, before }, &chunk, joined(bases), path).await
                {
                    return packed;
                }
            }
        }
        self.pack_alone(chunk, path).await
    }

    /// A chunk of a content that is brought to the parent.
    pub(crate) async fn pack_push(
        self: &Arc<Self>,
        session: &Session,
        order: &PushOrder,
        (digest, chunk): (Digest, Bytes),
    ) -> Packed {
        let path = session.path(self);
        if path == Path::Near {
            return Packed::alone((Form::Plain, chunk));
        }
        if path.is_slow() {
            let mut bases = match self.place_of(order.file) {
                Some((place, _)) => self.counterparts(&place, order.content.clone(), digest, Reach::Parent).await,
                None => Vec::new(),
            };
            if bases.is_empty() && chunk.len() <= SIBLING_LEN_MAX && codec::is_worth_it(&chunk) {
                bases = session.history.pushed().bases();
            }
            bases.retain(|base| *base != digest);
            let named = self.fitting(&bases);
            let bases = selected(&bases, named).unwrap_or_default();
            if !bases.is_empty()
                && let Some(joined) = self.read_joined(&bases).await
                && let Some(packed) = self.pack_upon(Upon::named(all(bases.len())), &chunk, joined, path).await
            {
                return Packed { bases, ..packed };
            }
        }
        self.pack_alone(chunk, path).await
    }

    /// The bases of a pushed chunk, one after the other; `None` if one of them is not here.
    pub(crate) async fn bases_of_push(&self, form: Form, bases: &[Digest]) -> Option<Bytes> {
        match form {
            Form::Plain | Form::Zstd { .. } => Some(Bytes::new()),
            Form::Difference { named, .. } => self.read_joined(&selected(bases, named)?).await,
        }
    }

    /// A chunk by itself.
    pub(crate) async fn pack_alone(&self, chunk: Bytes, path: Path) -> Packed {
        if is_quick(chunk.len(), path) {
            return Packed::alone(codec::pack(&chunk, path));
        }
        let plain = chunk.clone();
        let packing = self.settings.runtime.spawn_blocking(move || codec::pack(&chunk, path));
        Packed::alone(packing.await.unwrap_or((Form::Plain, plain)))
    }

    async fn pack_upon(&self, upon: Upon, chunk: &Bytes, bases: Bytes, path: Path) -> Option<Packed> {
        let Upon { named, before } = upon;
        let form = Form::Difference { len: u32::try_from(chunk.len()).ok()?, named, before };
        let body = if is_quick(chunk.len() + bases.len(), path) {
            codec::pack_difference(chunk, &bases, path)?
        } else {
            let chunk = chunk.clone();
            let packing = self.settings.runtime.spawn_blocking(move || codec::pack_difference(&chunk, &bases, path));
            packing.await.ok()??
        };
        Some(Packed { form, body, bases: Vec::new() })
    }

    /// A version went over a slow path: it may be the base of the next one, and what it replaced of this one's other chunks.
    pub(crate) fn note_version(&self, session: &Session, file: FileId, content: &Content) {
        if session.path(self).is_slow()
            && let Some((place, _)) = self.place_of(file)
        {
            self.note_at(session, &place, content);
        }
    }

    /// The same of a chunk that was fetched.
    pub(crate) fn note_fetched(&self, session: &Session, want: Want) {
        if session.path(self).is_slow()
            && let Some((place, content)) = self.present(want)
        {
            self.note_at(session, &place, &content);
        }
    }

    fn note_at(&self, session: &Session, place: &Place, content: &Content) {
        let reach = if session.neighbour == Neighbour::Parent { Reach::Parent } else { Reach::Child };
        let other = self.former.lock().unwrap_or_else(PoisonError::into_inner).note(place, content, reach);
        if let Some(root) = other.and_then(|other| other.root()) {
            // Nothing refers to it any more, but the next version may.
            self.contents.protect(root);
        }
    }

    /// The content that a chunk belongs to and where it stands, if it is of the version that the view shows.
    fn present(&self, want: Want) -> Option<(Place, Content)> {
        let (place, inode) = self.place_of(want.file)?;
        (inode.version == want.version).then_some((place, inode.content.clone()))
    }

    /// A file as the view shows it, and the first of its names.
    fn place_of(&self, file: FileId) -> Option<(Place, Arc<Inode>)> {
        let inode = self.look(|replica| replica.inode(file).ok().flatten()).flatten()?;
        Some((inode.places.first()?.clone(), inode))
    }

    async fn counterparts(
        self: &Arc<Self>,
        place: &Place,
        content: Content,
        digest: Digest,
        reach: Reach,
    ) -> Vec<Digest> {
        let former = {
            let former = self.former.lock().unwrap_or_else(PoisonError::into_inner);
            former.before(place, &content, reach).cloned()
        };
        let Some(former) = former else { return Vec::new() };
        if content.root() == Some(digest) {
            return counterparts(&former, &content, digest, &|_| None);
        }
        // List nodes come from the disk.
        let volume = Arc::clone(self);
        let looking = self
            .settings
            .runtime
            .spawn_blocking(move || counterparts(&former, &content, digest, &|node| volume.contents.get(node).ok()));
        looking.await.unwrap_or_default()
    }

    /// Bits for those of these chunks that are here, as many as may be bases together.
    pub(crate) fn fitting(&self, digests: &[Digest]) -> u8 {
        let (mut bits, mut len) = (0, 0);
        for (bit, digest) in digests.iter().enumerate().take(u8::BITS as usize) {
            if let Some(more) = self.contents.chunk_len(digest).map(|more| more as usize)
                && len + more <= BASES_LEN_MAX
            {
                bits |= 1 << bit;
                len += more;
            }
        }
        bits
    }

    /// These chunks one after the other; `None` if one is not here, or they are too long.
    async fn read_joined(&self, digests: &[Digest]) -> Option<Bytes> {
        let lens = digests.iter().map(|digest| self.contents.chunk_len(digest).map(|len| len as usize));
        if lens.sum::<Option<usize>>()? > BASES_LEN_MAX {
            return None;
        }
        let mut bases = Vec::with_capacity(digests.len());
        for digest in digests {
            bases.push(self.contents.read(*digest).await.ok()?);
        }
        Some(joined(bases))
    }
}

/// Whether packing is over before the threads of the runtime could notice.
fn is_quick(len: usize, path: Path) -> bool {
    len < QUICK_LEN_MAX && path.level(len) <= QUICK_LEVEL_MAX
}

/// Those that bits stand for; `None` if one stands for nothing.
fn selected(digests: &[Digest], bits: u8) -> Option<Vec<Digest>> {
    super::message::names_within(bits, digests)
        .then(|| digests.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, it)| *it).collect())
}

/// Bits for so many.
fn all(count: usize) -> u8 {
    (0..count).fold(0, |bits, bit| bits | 1 << bit)
}

fn joined(mut chunks: Vec<Bytes>) -> Bytes {
    match chunks.len() {
        1 => chunks.swap_remove(0),
        _ => Bytes::from(chunks.concat()),
    }
}
