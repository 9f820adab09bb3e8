//! The bounds of what a peer may say, checked after decoding.

use crate::down::Down;
use crate::message::Message;
use crate::parts::{KeyImage, Omitted, Question};
use crate::up::Up;
use std::ops::RangeToInclusive;
use wayfs_types::request::{LockRange, LockRequest};
use wayfs_types::{Content, Image, Inode, Key, Kind, LIVES_MAX, Op, Record};

/// Most records in a message.
const RECORDS_MAX: usize = 8192;
/// Most images in a message.
const IMAGES_MAX: usize = 32_768;
/// Most identifiers in a list.
const IDS_MAX: usize = 262_144;
/// Most records that a question may name as seen.
pub const SEEN_MAX: usize = 256;
/// Most versions that are asked about at once.
pub const FACTS_MAX: usize = 1024;
/// Most directories in one claim.
pub const CLAIM_MAX: usize = 64;
/// Most entries in an answer.
const LIST_MAX: u32 = 4096;
/// Longest target of a symbolic link.
const TARGET_MAX: usize = 4095;
/// Most locks in a message about what a client took along.
pub const LOCKS_TOLD_MAX: usize = 256;
/// Most servers from a machine up to the home whose room is told.
pub const ROOMS_MAX: usize = 8;
/// Longest label of an origin.
const LABEL_MAX: usize = 64;
/// Permission bits.
const MODE_MAX: u16 = 0o7777;

/// What breaks a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A list is too long.
    #[error("too many {0}")]
    TooMany(&'static str),
    /// A value is too long or out of range.
    #[error("{0} out of bounds")]
    OutOfBounds(&'static str),
    /// An image of one kind under a key of another.
    #[error("image does not fit its key")]
    Mismatch,
}

type Checked = Result<(), Malformed>;

/// Refuses what is more than a bound, which is written as a range so that nobody takes it for the length.
fn bounded(len: usize, bound: RangeToInclusive<usize>, what: &'static str) -> Checked {
    if bound.contains(&len) { Ok(()) } else { Err(Malformed::TooMany(what)) }
}

fn within(ok: bool, what: &'static str) -> Checked {
    if ok { Ok(()) } else { Err(Malformed::OutOfBounds(what)) }
}

pub(crate) fn message(message: &Message) -> Checked {
    match message {
        Message::Up(up) => check_up(up),
        Message::Down(down) => check_down(down),
    }
}

fn check_up(up: &Up) -> Checked {
    match up {
        Up::Hello { origins, .. } => bounded(origins.len(), ..=IDS_MAX, "origins"),
        Up::Watch { files } | Up::Unwatch { files } => bounded(files.len(), ..=IDS_MAX, "watches"),
        Up::Refresh { keys } => bounded(keys.len(), ..=IDS_MAX, "keys"),
        Up::Records { records } => {
            bounded(records.len(), ..=RECORDS_MAX, "records")?;
            records.iter().try_for_each(|sent| check_record(&sent.record))
        }
        Up::Ask { question, seen, .. } => {
            bounded(seen.len(), ..=SEEN_MAX, "seen records")?;
            match question {
                Question::List { limit, .. } => within((1..=LIST_MAX).contains(limit), "list limit"),
                Question::Lookup { .. } | Question::Attributes { .. } => Ok(()),
            }
        }
        Up::Have { versions } => bounded(versions.len(), ..=IDS_MAX, "versions"),
        Up::Lock { request, .. } | Up::TestLock { request, .. } | Up::KeepLock { request, .. } => check_lock(request),
        Up::Unlock { range, .. } => check_range(*range),
        Up::GiveLock { wanted: locks, .. } | Up::LockGiven { left: locks, .. } => check_locks(locks),
        Up::BringsLocks { .. } => Ok(()),
        Up::ReturnLocks { file, family, held, .. } => {
            check_locks(held)?;
            within(held.iter().all(|lock| (lock.file, lock.family) == (*file, *family)), "locks returned")
        }
        Up::Start | Up::Received { .. } | Up::Want { .. } | Up::LockCancel { .. } => Ok(()),
        Up::Ping { .. } | Up::Renew { .. } | Up::Catch { .. } => Ok(()),
        Up::Facts { versions, .. } => bounded(versions.len(), ..=FACTS_MAX, "versions"),
        Up::TakesRights { .. } | Up::GivenBack { .. } => Ok(()),
        Up::Gone { versions, .. } => bounded(versions.len(), ..=IDS_MAX, "versions"),
        Up::Claim { files, .. } => bounded(files.len(), ..=CLAIM_MAX, "directories claimed"),
        Up::Chains { chains } => bounded(chains.len(), ..=RECORDS_MAX, "chains"),
        Up::Seals { seals } => bounded(seals.len(), ..=RECORDS_MAX, "seals"),
        Up::Lent { versions } => {
            bounded(versions.len(), ..=RECORDS_MAX, "versions")?;
            versions.iter().try_for_each(|lent| within(lent.held.content.is_well_formed(), "content"))
        }
        Up::Holds { versions, .. } => {
            bounded(versions.len(), ..=RECORDS_MAX, "versions")?;
            versions.iter().try_for_each(|held| within(held.content.is_well_formed(), "content"))
        }
        Up::Cancelled { spans, records } => {
            bounded(records.len(), ..=RECORDS_MAX, "records")?;
            bounded(spans.len(), ..=records.len(), "spans")?;
            spans.iter().try_for_each(|span| within(span.from <= span.through, "span"))?;
            records.iter().try_for_each(|sent| check_record(&sent.record))
        }
    }
}

fn check_down(down: &Down) -> Checked {
    match down {
        Down::Welcome { applied, ends, .. } => {
            bounded(applied.len(), ..=IDS_MAX, "origins")?;
            bounded(ends.len(), ..=LIVES_MAX, "lives")
        }
        Down::Images { images, omitted, .. } => {
            check_images(images)?;
            bounded(omitted.len(), ..=images.len(), "contents left out")?;
            omitted.iter().try_for_each(|omitted| within(is_left_out(images, *omitted), "contents left out"))
        }
        Down::Answer { images, .. } => check_images(images),
        Down::Marks { marks } => bounded(marks.len(), ..=IDS_MAX, "marks"),
        Down::Stable { versions } | Down::Want { versions } => bounded(versions.len(), ..=IDS_MAX, "versions"),
        Down::LockAnswer { .. } | Down::Shared { .. } | Down::Pong { .. } => Ok(()),
        Down::Forked | Down::Renewed { .. } | Down::Caught { .. } | Down::Sent { .. } => Ok(()),
        Down::Facts { facts, .. } => bounded(facts.len(), ..=FACTS_MAX, "facts"),
        Down::Claimed { .. } | Down::HomeWord { .. } => Ok(()),
        Down::LockLost { range, .. } => check_range(*range),
        Down::GiveLock { wanted: locks, .. } | Down::LockGiven { left: locks, .. } => check_locks(locks),
        Down::BringsLocks { .. } | Down::RecallLocks { .. } => Ok(()),
        Down::Alone { files } | Down::GiveBack { files, .. } => bounded(files.len(), ..=IDS_MAX, "directories"),
        Down::Seek { versions } => {
            bounded(versions.len(), ..=RECORDS_MAX, "versions")?;
            versions.iter().try_for_each(|held| within(held.content.is_well_formed(), "content"))
        }
        Down::Rooms { rooms } => {
            bounded(rooms.len(), ..=ROOMS_MAX, "servers")?;
            rooms.iter().try_for_each(|room| check_label(&room.label))
        }
    }
}

fn check_label(label: &str) -> Checked {
    within(label.len() <= LABEL_MAX, "label")?;
    within(!label.contains(['/', '\0']), "label")
}

fn check_images(images: &[KeyImage]) -> Checked {
    bounded(images.len(), ..=IMAGES_MAX, "images")?;
    images.iter().try_for_each(check_image)
}

/// Whether there is an inode without contents where some are said to be left out.
fn is_left_out(images: &[KeyImage], omitted: Omitted) -> bool {
    let image = images.get(omitted.index as usize).and_then(|pair| pair.image.as_ref());
    matches!(image, Some(Image::Inode(inode)) if inode.content == Content::EMPTY)
}

fn check_lock(request: &LockRequest) -> Checked {
    check_range(request.range)
}

fn check_locks(locks: &[LockRequest]) -> Checked {
    bounded(locks.len(), ..=LOCKS_TOLD_MAX, "locks")?;
    locks.iter().try_for_each(check_lock)
}

fn check_range(range: LockRange) -> Checked {
    within(range.start <= range.end, "lock range")
}

/// Checks a record's bounds.
///
/// # Errors
/// [`Malformed`] names the bound that it breaks.
pub(crate) fn check_record(record: &Record) -> Checked {
    match &record.op {
        Op::Create { kind, mode, content, .. } => {
            within(!matches!(kind, Kind::Directory), "kind")?;
            check_kind(kind)?;
            within(*mode <= MODE_MAX, "mode")?;
            within(content.is_well_formed(), "content")?;
            within(matches!(kind, Kind::File) || content.size() == 0, "content")
        }
        Op::Mkdir { mode, .. } => within(*mode <= MODE_MAX, "mode"),
        Op::SetAttr { change, .. } => within(change.mode.is_none_or(|mode| mode <= MODE_MAX), "mode"),
        Op::SetXattr { value, .. } => {
            within(value.as_ref().is_none_or(|v| v.len() <= Inode::XATTRS_LEN_MAX), "extended attribute")
        }
        Op::Store { content, .. } => within(content.is_well_formed(), "content"),
        Op::Lost { instead, .. } => within(instead.as_ref().is_none_or(Content::is_well_formed), "content"),
        Op::Skip { after, .. } => within(*after < record.id.sequence(), "sequences skipped"),
        Op::Link { .. }
        | Op::Unlink { .. }
        | Op::Rmdir { .. }
        | Op::Rename { .. }
        | Op::Exchange { .. }
        | Op::Resolve { .. }
        | Op::Touch => Ok(()),
    }
}

/// Checks that an image fits its key and keeps the bounds of its kind.
///
/// # Errors
/// [`Malformed`] names the bound that it breaks.
pub(crate) fn check_image(pair: &KeyImage) -> Checked {
    match (&pair.key, &pair.image) {
        (_, None) | (Key::Entry(..), Some(Image::Entry(_))) | (Key::Conflict(_), Some(Image::Conflict(_))) => Ok(()),
        (Key::Inode(_), Some(Image::Inode(inode))) => check_inode(inode),
        (Key::Origin(_), Some(Image::Origin(origin))) => check_label(&origin.label),
        (Key::Inode(_) | Key::Entry(..) | Key::Conflict(_) | Key::Origin(_), Some(_)) => Err(Malformed::Mismatch),
    }
}

fn check_inode(inode: &Inode) -> Checked {
    // The marker of a removed link keeps the kind and drops the target.
    let is_bare_marker = inode.is_removed() && matches!(&inode.kind, Kind::Symlink(target) if target.is_empty());
    if !is_bare_marker {
        check_kind(&inode.kind)?;
    }
    within(inode.mode <= MODE_MAX, "mode")?;
    within(inode.content.is_well_formed(), "content")?;
    bounded(inode.places.len(), ..=Inode::LISTED_MAX, "places")?;
    bounded(inode.unlisted as usize, ..=Inode::LINKS_MAX, "names")?;
    within(!inode.is_crowded() || !(inode.is_directory() || inode.is_removed()), "names that are not listed")?;
    let xattrs: usize = inode.xattrs.iter().map(|(name, value)| name.as_bytes().len() + value.len()).sum();
    bounded(xattrs, ..=Inode::XATTRS_LEN_MAX, "bytes of extended attributes")
}

fn check_kind(kind: &Kind) -> Checked {
    match kind {
        Kind::Symlink(target) => within(!target.is_empty() && target.len() <= TARGET_MAX, "link target"),
        Kind::File | Kind::Directory | Kind::Fifo | Kind::Socket | Kind::CharDevice(_) | Kind::BlockDevice(_) => Ok(()),
    }
}
