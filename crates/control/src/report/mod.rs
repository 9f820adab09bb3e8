//! The results of commands, as typed structs. Units are in the names; times are milliseconds since 1970.

mod conflict;
mod doctor;
mod file;
mod ledger;
mod repair;
mod scrub;
mod station;
mod status;
mod volume;

pub use conflict::{
    ConflictReport, ConflictsReport, DiffReport, ResolveFailure, ResolveReport, ResolvedConflict, SideReport,
};
pub use doctor::{DoctorFact, DoctorReport, Verdict};
pub use file::{
    FileInfo, Known, LostReport, PinReport, PinsReport, QueueItem, QueueReport, RefreshReport, SyncReport, UmountReport,
};
pub use ledger::{AmountReport, LedgerReport};
pub use repair::{FileDamage, RepairReport, RepairState, VolumeRepair};
pub use scrub::{ScrubFound, ScrubReport, ScrubStatus, VolumeScrub};
pub use station::{StationReport, StationsReport, WhyReport};
pub use status::{StatusReport, StatusWord, VolumeRole, VolumeStatus};
pub use volume::{
    BackupReport, CopyReport, DeleteReport, GivenUpContent, GivenUpReport, MemberReport, MembersReport, PromoteReport,
    RestoreReport, TicketReport, UsageReport, VolumeReport, VolumesReport,
};
