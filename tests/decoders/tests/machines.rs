//! Machines with a memory, driven by whatever is said to them: what must hold, holds. What each checks stands with its function.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

use proptest::collection::vec;
use proptest::prelude::*;
use std::net::IpAddr;
use std::sync::LazyLock;
use wayfs_node::fuzzing::{Said, Signers, Step};
use wayfs_server::fuzzing::Deed;
use wayfs_store::file_fuzzing::Forged;

static SIGNERS: LazyLock<Signers> = LazyLock::new(Signers::draw);

/// A directory in memory: small files are written durably again and again.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

fn bytes(len: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..len)
}

fn deed() -> impl Strategy<Value = Deed> {
    let show = (0_u8..4, 0_u8..3, any::<bool>(), prop::bool::weighted(0.8));
    prop_oneof![
        (0_u8..4, any::<bool>(), any::<u8>()).prop_map(|(ticket, station, lasts)| Deed::Issue(ticket, station, lasts)),
        show.prop_map(|(ticket, machine, station, fits)| Deed::Show { ticket, machine, station, fits }),
        Just(Deed::Restart),
        any::<u8>().prop_map(Deed::Pass),
    ]
}

fn part() -> impl Strategy<Value = Forged> {
    let items = vec((bytes(8), prop::option::of(bytes(40))), 0..4);
    prop_oneof![
        4 => (items, prop::option::of(1_u64..9)).prop_map(|(items, ticket)| Forged::Batch(items, ticket)),
        1 => bytes(40).prop_map(Forged::Noise),
    ]
}

fn said() -> impl Strategy<Value = Said> {
    let list = r#"\{"volume":"07070707070707070707070707070707","number":[0-9]{1,3},"home":"","entries":\[\]\}"#;
    prop_oneof![
        (list, any::<u8>()).prop_map(|(text, by)| Said::List(text.into_bytes(), by)),
        (bytes(60), any::<u8>()).prop_map(|(text, by)| Said::Place(text, by)),
        bytes(60).prop_map(Said::News),
        Just(Said::Restart),
    ]
}

/// Chunks that are alike, so that differences are worth it, and others.
fn chunk() -> impl Strategy<Value = Vec<u8>> {
    let alike = (0_usize..4000, any::<u8>()).prop_map(|(at, byte)| {
        let mut bytes: Vec<u8> = (0..4000_u32).flat_map(|number| (number * number).to_le_bytes()).collect();
        bytes[at] = byte;
        bytes
    });
    prop_oneof![3 => alike, 1 => bytes(300)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => chunk().prop_map(Step::Give),
        1 => chunk().prop_map(Step::GiveInVain),
        1 => (any::<u64>(), 0_u32..5000, bytes(60)).prop_map(|(before, len, bytes)| Step::Lie(before, len, bytes)),
        1 => (0_u8..5, any::<u64>(), bytes(200)).prop_map(|(level, len, bytes)| Step::Node(level, len, bytes)),
    ]
}

fn announced() -> impl Strategy<Value = (String, u16, Vec<IpAddr>)> {
    let key = prop_oneof![
        any::<[u8; 32]>().prop_map(|key| wayfs_types::NodeId::from_bytes(key).to_string()),
        "[a-z0-9=]{0,60}",
    ];
    (key, any::<u16>(), vec(any::<IpAddr>(), 0..40))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_ticket_admits_one_machine_for_its_role_and_its_time(deeds in vec(deed(), 0..30)) {
        let scratch = scratch();
        wayfs_server::fuzzing::use_tickets(scratch.path(), &deeds);
    }

    #[test]
    fn what_is_cut_off_a_journal_stays_cut_off(parts in vec(part(), 0..6), cut in 0_usize..60) {
        let scratch = scratch();
        wayfs_store::file_fuzzing::inspect_journal(scratch.path(), &parts, cut);
    }

    #[test]
    fn no_older_list_is_taken_and_nobody_else_becomes_the_home(said in vec(said(), 0..12)) {
        let scratch = scratch();
        wayfs_node::fuzzing::hear_of_servers(scratch.path(), &SIGNERS, &said);
    }

    #[test]
    fn chunks_arrive_as_they_were_sent(steps in vec(step(), 0..20)) {
        wayfs_node::fuzzing::exchange_chunks(&steps);
    }

    #[test]
    fn little_of_what_is_announced_is_remembered(announced in vec(announced(), 0..300)) {
        wayfs_node::fuzzing::hear_announcements(&announced);
    }
}
