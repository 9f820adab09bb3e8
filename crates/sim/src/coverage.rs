//! Branches that must have happened: a hunt in which one never did was not looking there.

use crate::plan::Disaster;
use std::collections::BTreeSet;

/// Something that a run may come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Branch {
    /// A push ended with its session after some of its pieces.
    PushInterrupted,
    /// A parent had no room for a piece.
    PushRefused,
    /// A parent lacked something of a content after all that it lacked had been sent.
    PushMissing,
    /// A reader got every piece of a content.
    FileRead,
    /// A piece came from the parent.
    FetchedFromAbove,
    /// A piece came from a child.
    FetchedFromBelow,
    /// A sweep removed what nothing referred to.
    SweptUnnamed,
    /// A bounded cache let others' contents go.
    Evicted,
    /// A read met a damaged chunk.
    DamageFound,
    /// Whoever was to push a content lacked a piece of it.
    PushLacks,
    /// The home looked for a content, and somebody had it.
    Sought,
    /// A station had what its parent named, and did not know it.
    LookedHere,
    /// The home declared a content lost.
    Declared,
    /// A crash kept a prefix of the chunk writes and of the batches that do not fit each other.
    Torn,
    /// The power failed at a write of the stores that ship, rather than between two.
    PowerFailed,
    /// A request or a peer met a full disk.
    DiskFull,
    /// A conflict was reported.
    Conflict,
    /// A version broke a copy of another.
    Shared,
    /// A client lost what it had not made durable.
    Lost,
    /// Everything that a replica showed was to be asked for again.
    InvalidateAll,
    /// An engine ended a session.
    Disconnected,
    /// A store was put back to an older copy.
    WentBack,
    /// A store was copied, and both ran.
    Cloned,
    /// A member went on under another origin.
    Renewed,
    /// A client whose contents only it and a station had said that they are safe.
    SaidSafe,
    /// A client said that all is stable.
    SaidStable,
    /// A client said that bytes are at risk.
    SaidAtRisk,
    /// A machine lost its disk right after it had spoken.
    Gone,
    /// Who made a name in an exclusive directory was told that it is there.
    MakerBeaten,
    /// A program was granted a lock.
    LockTaken,
    /// A program was given a lock while its client decided about those of a file.
    LocksDelegated,
    /// A program that let go of a lock was told that it was lost.
    LockLost,
    /// A program counted under a lock that it had all the time.
    Counted,
    /// A member was removed that had written what the home had not.
    Fenced,
    /// Somebody was told that a quota is used up.
    QuotaUsed,
    /// A client moved to a nearer server.
    MovedNearer,
    /// A client moved to the server that all of its site take.
    MovedToShared,
    /// A server refused a machine, and another took it.
    RefusedElsewhere,
    /// A machine that was offline by its user's will has a session again.
    CameOnline,
    /// An open file was written to while its commit was under way.
    CommittedInSteps,
    /// A file was closed before its commit.
    ClosedEarly,
    /// What was written to an open file came back after a kill.
    OpenFileRecovered,
    /// What was left beside a file was committed: its record, a copy, had gone with a kill.
    OpenFileLeftBeside,
    /// A program synced an open file.
    OpenFileSynced,
    /// An open file took no write, since the disk was full.
    WriteRefused,
    /// A kernel forgot pages that it was told of.
    PagesForgotten,
    /// A kernel forgot pages before it was told of the size of a newer version.
    PagesRenewedByAnswer,
    /// A kernel kept pages at an open.
    PagesKept,
    /// A kernel sent what a mapping had stored.
    PageWrittenBack,
    /// A kernel knew where a name leads.
    NameFromKernel,
    /// A kernel had the attributes of a file.
    AttributesFromKernel,
    /// A kernel was about to be told that a name is old when it moved that name.
    OldNameMoved,
    /// A kernel forgot a name or attributes that it was told of.
    NameForgotten,
}

impl Branch {
    /// Those that every long hunt must come by.
    pub const ALL: [Self; 50] = [
        Self::PushInterrupted,
        Self::PushRefused,
        Self::PushMissing,
        Self::FileRead,
        Self::FetchedFromAbove,
        Self::FetchedFromBelow,
        Self::SweptUnnamed,
        Self::Evicted,
        Self::DamageFound,
        Self::PushLacks,
        Self::Declared,
        Self::Torn,
        Self::PowerFailed,
        Self::DiskFull,
        Self::Conflict,
        Self::Shared,
        Self::Lost,
        Self::InvalidateAll,
        Self::Disconnected,
        Self::WentBack,
        Self::Cloned,
        Self::Renewed,
        Self::SaidSafe,
        Self::SaidStable,
        Self::SaidAtRisk,
        Self::Gone,
        Self::MakerBeaten,
        Self::LockTaken,
        Self::LocksDelegated,
        Self::LockLost,
        Self::Counted,
        Self::Fenced,
        Self::QuotaUsed,
        Self::MovedNearer,
        Self::MovedToShared,
        Self::RefusedElsewhere,
        Self::CameOnline,
        Self::CommittedInSteps,
        Self::ClosedEarly,
        Self::OpenFileRecovered,
        Self::OpenFileSynced,
        Self::WriteRefused,
        Self::PagesForgotten,
        Self::PagesRenewedByAnswer,
        Self::PagesKept,
        Self::PageWrittenBack,
        Self::NameFromKernel,
        Self::AttributesFromKernel,
        Self::NameForgotten,
        Self::OldNameMoved,
    ];
}

impl Branch {
    /// The disaster without which it cannot be.
    pub const fn needs(self) -> Option<Disaster> {
        match self {
            Self::DamageFound | Self::PushLacks | Self::Sought | Self::Declared => Some(Disaster::Damage),
            Self::CommittedInSteps
            | Self::ClosedEarly
            | Self::OpenFileRecovered
            | Self::OpenFileLeftBeside
            | Self::OpenFileSynced
            | Self::WriteRefused
            | Self::PagesForgotten
            | Self::PagesRenewedByAnswer
            | Self::PagesKept
            | Self::PageWrittenBack => Some(Disaster::OpenFiles),
            Self::Torn => Some(Disaster::Torn),
            Self::PowerFailed => Some(Disaster::Stores),
            Self::PushRefused | Self::DiskFull => Some(Disaster::Full),
            Self::WentBack | Self::Renewed => Some(Disaster::ClientBack),
            Self::Cloned => Some(Disaster::Clone),
            Self::Gone => Some(Disaster::ClientGone),
            Self::Fenced => Some(Disaster::Fence),
            Self::QuotaUsed => Some(Disaster::Quota),
            Self::PushInterrupted
            | Self::PushMissing
            | Self::FileRead
            | Self::FetchedFromAbove
            | Self::FetchedFromBelow
            | Self::SweptUnnamed
            | Self::Evicted
            | Self::Conflict
            | Self::Shared
            | Self::Lost
            | Self::InvalidateAll
            | Self::Disconnected
            | Self::LookedHere
            | Self::SaidSafe
            | Self::SaidStable
            | Self::SaidAtRisk
            | Self::MakerBeaten
            | Self::LockTaken
            | Self::LocksDelegated
            | Self::LockLost
            | Self::Counted
            | Self::MovedNearer
            | Self::MovedToShared
            | Self::RefusedElsewhere
            | Self::CameOnline
            | Self::NameFromKernel
            | Self::AttributesFromKernel
            | Self::OldNameMoved
            | Self::NameForgotten => None,
        }
    }
}

/// What a run came by.
pub type Coverage = BTreeSet<Branch>;
