//! A record is its author's.
//!
//! An origin's running hash (`history`) says what all its records are; a **seal** is the signature by the key of the origin's machine under that
//! hash. A client seals the last record of each message that it sends, and the last before one that begins the hash anew. So one
//! seal covers a whole message, and nobody can invent, alter, leave out or exchange a record below it.
//!
//! ```text
//!   client ── Seals, Records ──▶ station ── Seals, Records of many origins ──▶ home
//!             signs              checks, keeps the seals with its log          checks
//! ```
//!
//! * A parent takes the records of an origin in a message up to the last seal, and refuses a message in which some stand behind it. It
//!   checks before it applies anything.
//! * A station passes seals on as they came, so it sends whole messages of its clients: it cuts where a seal is.
//! * Where it cancelled records, the hash of what was written cannot be made from what is left. The span that it names begins behind
//!   a seal and ends at one, and the end bears its writer's: that all of it was written is proved, what became of it by the rules of
//!   cancellation is the station's word (`docs/decisions/0038-*`).
//! * What a station writes again under its own origin it seals itself.
//!
//! The keys are the driver's: [`crate::Sealer`].

use crate::api::PeerId;
use crate::children::Children;
use crate::members::Members;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::state::log_entry::Written;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use wayfs_tree::chained;
use wayfs_types::{Chain, MetaStore, NodeId, Op, OriginId, RecordId, Seal, VolumeId};
use wayfs_wire::{Sealed, SentRecord, Span, Up};

/// Seals of a child that wait for the records which they are about.
const WAITING_MAX: usize = 8192;

/// First bytes of what is signed: no other statement of a machine begins so.
const CONTEXT: &[u8; 16] = b"wayfs records 1\0";

/// What is signed: this origin of this volume wrote these records, up to that number.
pub(crate) fn statement(volume: VolumeId, record: RecordId, chain: Chain) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(60);
    bytes.extend(CONTEXT);
    bytes.extend(volume.as_bytes());
    bytes.extend(record.origin().raw().to_be_bytes());
    bytes.extend(record.sequence().to_be_bytes());
    bytes.extend(chain.as_bytes());
    bytes
}

/// How far the records of one origin in a message are looked through.
struct Run {
    node: NodeId,
    sequence: u64,
    chain: Chain,
    /// The last record was behind a seal.
    is_open: bool,
}

/// The child's half.
impl Members {
    /// Says the seals of a message.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others seal nothing")]
    pub(crate) fn send_seals<S: MetaStore>(core: &mut Core<S>, up: &Up, written: &BTreeMap<RecordId, Written>) {
        let Some(sealer) = core.config.seals.clone() else { return };
        let (records, spans): (_, &[Span]) = match up {
            Up::Records { records } => (records, &[]),
            Up::Cancelled { spans, records } => (records, spans),
            _ => return,
        };
        let own = core.config.origin;
        let mut seals = Vec::new();
        for (at, SentRecord { record, .. }) in records.iter().enumerate() {
            let Some(Written { after, seal, .. }) = written.get(&record.id).copied() else { continue };
            let is_within = |span: &Span| {
                span.origin == record.id.origin() && (span.from..span.through).contains(&record.id.sequence())
            };
            if spans.iter().any(is_within) {
                continue;
            }
            let seal = if record.id.origin() == own {
                let begins = |next: &SentRecord| {
                    let sequence = next.record.id.sequence();
                    matches!(next.record.op, Op::Skip { .. })
                        || spans.iter().any(|span| span.origin == own && span.from == sequence)
                };
                let is_end = records[at + 1..].iter().find(|next| next.record.id.origin() == own).is_none_or(begins);
                let is_span = spans.iter().any(|span| span.origin == own && span.through == record.id.sequence());
                (is_end || is_span).then(|| sealer.seal(&statement(core.config.volume, record.id, after)))
            } else {
                seal
            };
            seals.extend(seal.map(|seal| Sealed { record: record.id, seal }));
        }
        if !seals.is_empty() {
            core.tell_parent(Up::Seals { seals });
        }
    }
}

impl Members {
    /// Whether a message may end only behind those records of an origin that bear its signature.
    pub(crate) fn ends_at_seals<S: MetaStore>(core: &Core<S>, origin: OriginId) -> bool {
        core.config.seals.is_some() && !core.writes() && origin != core.config.origin
    }

    /// Makes spans begin behind a seal and end at one.
    pub(crate) fn seal_spans<S: MetaStore>(
        core: &Core<S>,
        spans: &mut BTreeMap<OriginId, Span>,
        records: &[SentRecord],
        written: &BTreeMap<RecordId, Written>,
    ) {
        if core.config.seals.is_none() {
            return;
        }
        for span in spans.values_mut().filter(|span| span.origin != core.config.origin) {
            let ids = || records.iter().map(|sent| sent.record.id).filter(|id| id.origin() == span.origin);
            let sealed: Vec<(u64, Chain)> = ids()
                .filter_map(|id| written.get(&id).filter(|of| of.seal.is_some()).map(|of| (id.sequence(), of.after)))
                .collect();
            let before = sealed.iter().rev().map(|(sequence, _)| *sequence).find(|sequence| *sequence < span.from);
            let first = ids().map(RecordId::sequence).find(|sequence| before.is_none_or(|before| *sequence > before));
            let last = sealed.iter().copied().find(|(sequence, _)| *sequence >= span.through);
            span.from = first.unwrap_or(span.from);
            (span.through, span.chain) = last.unwrap_or((span.through, span.chain));
        }
    }
}

/// The parent's half.
impl Members {
    pub(crate) fn handle_seals(
        children: &mut Children,
        peer: PeerId,
        child: OriginId,
        seals: Vec<Sealed>,
    ) -> Result<(), StepError> {
        let Some(waiting) = children.seals_mut(child) else { return Ok(()) };
        if waiting.len() + seals.len() > WAITING_MAX {
            return Err(StepError::Peer(peer, "seals more than it sends".to_owned()));
        }
        waiting.extend(seals.into_iter().map(|sealed| (sealed.record, sealed.seal)));
        Ok(())
    }

    /// Looks whether the writers of these records sealed them; answers the seals.
    ///
    /// # Errors
    /// [`StepError::Peer`] if a record that is new here stands behind the last seal of its origin, or a seal is another's.
    pub(crate) fn check_seals<S: MetaStore>(
        core: &mut Core<S>,
        children: &mut Children,
        peer: PeerId,
        child: OriginId,
        records: &[SentRecord],
        spans: &[Span],
    ) -> Result<BTreeMap<RecordId, Seal>, StepError> {
        let Some(sealer) = core.config.seals.clone() else { return Ok(BTreeMap::new()) };
        let Some(seals) = children.seals_mut(child).map(std::mem::take) else { return Ok(BTreeMap::new()) };
        let mut runs: BTreeMap<OriginId, Run> = BTreeMap::new();
        let mut good = BTreeMap::new();
        for SentRecord { record, .. } in records {
            let (origin, sequence) = (record.id.origin(), record.id.sequence());
            if let Entry::Vacant(entry) = runs.entry(origin) {
                // Of who is not known here nothing is taken anyway.
                let Some(known) = Children::origin_image(core, origin)? else { continue };
                entry.insert(Run { node: known.node, sequence: known.applied, chain: known.chain, is_open: false });
            }
            let Some(run) = runs.get_mut(&origin).filter(|run| sequence > run.sequence) else { continue };
            let refused = |what: &str| Err(StepError::Peer(peer, format!("sent record {} {what}", record.id)));
            let begins_anew = matches!(record.op, Op::Skip { .. });
            if record.follows() > run.sequence {
                return refused(&format!("but {} is the last that came", run.sequence));
            }
            let span =
                spans.iter().find(|span| span.origin == origin && (span.from..=span.through).contains(&sequence));
            // Within a span the end is what is proved.
            if run.is_open && span.map_or(begins_anew, |span| span.from == sequence) {
                return refused("behind others that their writer did not seal");
            }
            run.chain = match span {
                None => chained(run.chain, record),
                Some(span) if span.through == sequence => span.chain,
                Some(_) => run.chain,
            };
            (run.sequence, run.is_open) = (sequence, true);
            let is_end = span.is_none_or(|span| span.through == sequence);
            if let Some(seal) = seals.get(&record.id).filter(|_| is_end) {
                let said = statement(core.config.volume, record.id, run.chain);
                if !sealer.is_sealed_by(run.node, &said, seal) {
                    return refused("of another history than the one here, or with a seal that is not its writer's");
                }
                run.is_open = false;
                good.insert(record.id, *seal);
            }
        }
        if let Some((origin, run)) = runs.iter().find(|(_, run)| run.is_open) {
            let text = format!("sent record {origin}.{} without its writer's seal", run.sequence);
            return Err(StepError::Peer(peer, text));
        }
        Ok(good)
    }
}
