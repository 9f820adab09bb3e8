//! Reports as text for people. Numbers are rounded to what one can remember.

mod conflicts;
mod doctor;
mod file;
mod ledger;
mod link;
mod quantity;
mod repair;
mod scrub;
mod servers;
mod status;
mod table;

pub(crate) use conflicts::{conflict, conflicts, resolved};
pub(crate) use doctor::doctor;
pub(crate) use file::{info, pins, queue, refreshed, sync, umount};
pub(crate) use link::link;
pub(crate) use quantity::{Now, count, date, now_unix_ms};
pub(crate) use repair::repairs;
pub(crate) use scrub::scrubbed;
pub(crate) use servers::{
    admitted, backed_up, copied, deleted, event, fingerprint, given_up, members, promoted, restored, stations,
    to_be_deleted, volume, volumes, why,
};
pub(crate) use status::statuses;
pub(crate) use table::{clean, table};

use wayfs_control::Done;

/// Any result as text.
pub(crate) fn done(done: &Done) -> String {
    let now = Now::by_clock();
    match done {
        Done::Nothing => String::new(),
        Done::Status(report) => status::statuses(std::slice::from_ref(report), now),
        Done::Info(report) => info(report, now),
        Done::Queue(report) => queue(report),
        Done::Sync(report) => sync(report),
        Done::Refreshed(report) => refreshed(report),
        Done::Scrubbed(report) => scrubbed(report),
        Done::Conflicts(report) => conflicts(report),
        Done::Conflict(report) => conflict(report),
        Done::Diff(report) => report.text.clone().unwrap_or_default(),
        Done::Resolved(report) => resolved(report),
        Done::Pins(report) => pins(report),
        Done::Stations(report) => stations(report),
        Done::Why(report) => why(report),
        Done::Doctor(report) => doctor(report),
        Done::Volume(report) => volume(report),
        Done::Volumes(report) => volumes(report),
        Done::Ticket(report) => format!("{}\n", report.ticket),
        Done::Copied(report) => copied(report),
        Done::BackedUp(report) => backed_up(report),
        Done::Restored(report) => restored(report),
        Done::Members(report) => members(report, now),
        Done::Promoted(report) => promoted(report),
        Done::GivenUp(report) => given_up(report),
        Done::Deleted(report) => deleted(report),
        Done::Unmounted(report) => umount(report),
        Done::Metrics(text) => text.clone(),
    }
}
