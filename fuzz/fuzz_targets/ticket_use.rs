//! Whoever shows which ticket when: it admits one machine, for its role and its time.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use std::sync::LazyLock;
use wayfs_server::fuzzing::{Deed, use_tickets};

static SCRATCH: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir_in("/dev/shm").expect("make a directory"));

#[derive(Debug, Arbitrary)]
enum Act {
    Issue(u8, bool, u8),
    Show { ticket: u8, machine: u8, station: bool, fits: bool },
    Restart,
    Pass(u8),
}

libfuzzer_sys::fuzz_target!(|acts: Vec<Act>| {
    let deeds: Vec<Deed> = acts
        .into_iter()
        .map(|act| match act {
            // Few tickets and machines, so that they meet.
            Act::Issue(ticket, station, lasts) => Deed::Issue(ticket % 4, station, lasts),
            Act::Show { ticket, machine, station, fits } => {
                Deed::Show { ticket: ticket % 4, machine: machine % 3, station, fits }
            }
            Act::Restart => Deed::Restart,
            Act::Pass(seconds) => Deed::Pass(seconds),
        })
        .collect();
    use_tickets(SCRATCH.path(), &deeds);
});
