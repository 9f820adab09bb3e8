//! Journals of open files with any contents and right sums: a daemon begins with whatever stands there.

use super::base::Base;
use super::journal::{Entry, Held, Image, segment_of};
use super::journal_bench::{bench, pattern};
use super::testing::{file, record};
use crate::WaitPolicy;
use proptest::prelude::*;
use std::time::Duration;
use wayfs_types::{Content, WallTime};

/// Where things are: small places, and those at the ends of what can be.
fn place() -> impl Strategy<Value = u64> {
    prop_oneof![0..40_u64, 0..300_000_u64, Just(1 << 21), Just(u64::MAX - 1), Just(u64::MAX)]
}

fn held() -> impl Strategy<Value = Held> {
    prop_oneof![
        Just(Held::Nowhere),
        Just(Held::Here),
        (0..5_u64).prop_map(Held::Body),
        (0..5_u64).prop_map(Held::WholeBody),
    ]
}

fn image() -> impl Strategy<Value = Entry> {
    let ranges = prop::collection::vec((place(), place()), 0..4);
    let places = (place(), place(), prop::option::of(place()), ranges);
    (0..6_u64, prop::option::of(0..6_u64), 0..4_u64, places, held(), any::<(bool, bool)>()).prop_map(
        |(generation, replaces, version, (base_limit, size, low_water, ranges), held, (is_appended, is_beside))| {
            let content = Content::Inline(pattern(30, 1).into());
            Entry::Image(Box::new(Image {
                generation,
                replaces,
                base: Base { file: file(1), version: record(1 + version), content, lender: None },
                base_limit,
                size,
                low_water,
                is_appended,
                mtime: WallTime::from_nanos(7),
                user: 0,
                held,
                ranges,
                is_beside,
            }))
        },
    )
}

fn entry() -> impl Strategy<Value = Entry> {
    let mtime = WallTime::from_nanos(9);
    prop_oneof![
        4 => image(),
        4 => (0..6_u64, place(), place(), any::<bool>()).prop_map(move |(generation, offset, len, is_appended)| {
            Entry::Write { generation, offset, len, mtime, user: 0, is_appended }
        }),
        2 => (0..6_u64, place()).prop_map(move |(generation, size)| Entry::Resize { generation, size, mtime, user: 0 }),
        1 => (0..6_u64).prop_map(|generation| Entry::End { generation }),
        1 => (0..6_u64, 0..4_u64)
            .prop_map(|(generation, version)| Entry::Settled { generation, record: record(1 + version) }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_a_journal_says_a_daemon_begins(
        entries in prop::collection::vec((entry(), prop::collection::vec(any::<u8>(), 0..64)), 0..10),
        bodies in prop::collection::vec(0..100_000_usize, 5),
    ) {
        let bench = bench();
        bench.fake.make(file(1), &pattern(30, 1));
        let files = bench.table.directory().to_owned();
        let boot = bench.table.boot();
        for (number, len) in bodies.into_iter().enumerate() {
            std::fs::write(files.join(number.to_string()), pattern(len, 2)).unwrap();
        }
        std::fs::write(files.join("journal-1"), segment_of(&boot, &entries)).unwrap();
        let bench = bench.killed();
        bench.table.commit_left();
        let _ = bench.table.commit_older(Duration::ZERO, WaitPolicy::Silence(Duration::from_secs(1)));
    }
}
