//! The tables of an open file's life, and what is decided by them.

use super::table::{Backing, Event, Stage, illegal_count, may_become, next};
use super::*;
use std::time::Duration;

const STAGES: [Stage; 6] =
    [Stage::Idle, Stage::Emptied, Stage::Deferred, Stage::Due, Stage::BackingOff, Stage::Running];
const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Time {
    Time::from_micros(seconds * 1_000_000)
}

fn closing(seconds: u64) -> Closing {
    Closing { since: at(seconds), len: 4, note: "1.closed".to_owned() }
}

fn no_hole() -> Hole {
    Hole { all: 0..0, hiding: 0..0 }
}

/// A file into whose memory four bytes were written.
fn written() -> Life {
    let mut life = Life::default();
    life.load(|body| *body = Some(Body::Memory(vec![1; 4])));
    life.written(0..4, no_hole(), at(1));
    life
}

/// The same, and they are in a body file.
fn staged() -> Life {
    let directory = tempfile::tempdir().unwrap();
    let disk: std::sync::Arc<dyn crate::StagingDisk> = crate::HostDisk::at(directory.path(), 0);
    disk.create("1").unwrap();
    let file = std::sync::Arc::new(crate::body::BodyFile::open(&disk, "1").unwrap());
    let mut life = written();
    life.load(|body| *body = Some(Body::Disk { file, present: RangeSet::of(0..4) }));
    life
}

fn due(life: &Life, seconds: u64) -> (bool, bool) {
    let due = life.due(at(seconds), Duration::ZERO).unwrap();
    (due.is_due, due.is_resting)
}

#[test]
fn only_a_commit_that_runs_ends_and_only_one_runs() {
    for stage in STAGES {
        let is_running = stage == Stage::Running;
        for event in [Event::Made, Event::MadeInPart, Event::Failed] {
            assert_eq!(next(stage, event).is_some(), is_running, "{event:?} at {stage:?}");
        }
        assert_eq!(next(stage, Event::Taken).is_some(), !is_running, "{stage:?}");
        // A note would name a base that a kill may still undo.
        assert!(!is_running || next(stage, Event::Closed).is_none());
    }
}

#[test]
fn news_come_in_only_where_nothing_is_uncommitted() {
    for stage in STAGES {
        assert_eq!(next(stage, Event::Renewed).is_some(), stage == Stage::Idle, "{stage:?}");
    }
    for backing in [Backing::Base, Backing::Memory, Backing::Staged, Backing::Passthrough] {
        assert!(!may_become(backing, Event::Renewed, backing), "{backing:?}");
    }
}

#[test]
fn what_is_written_is_taken_and_clean() {
    let mut life = written();
    assert_eq!((life.backing(), life.stage()), (Backing::Memory, Stage::Idle));
    assert_eq!(life.commit_begun(4, at(2)).ranges, RangeSet::of(0..4));
    assert_eq!((life.backing(), life.stage(), life.taken_size()), (Backing::Clean, Stage::Running, 4));
    assert!(life.is_dirty());
    assert_eq!(life.commit_done(at(3)), Origin::Own);
    assert_eq!((life.backing(), life.stage(), life.is_dirty()), (Backing::Clean, Stage::Idle, false));
    assert_eq!(life.due(at(99), SECOND), None);
}

#[test]
fn what_failed_is_uncommitted_with_what_came_meanwhile_and_waits() {
    let mut life = written();
    life.commit_begun(4, at(2));
    life.written(8..9, Hole { all: 4..8, hiding: 4..4 }, at(3));
    life.commit_failed(9, at(4));
    assert_eq!((life.backing(), life.stage()), (Backing::Memory, Stage::BackingOff));
    assert_eq!(life.uncommitted_len(), 5);
    assert_eq!(life.due(at(4), SECOND).unwrap().age, at(4) - at(1), "since the first write");
    assert_eq!(due(&life, 8), (false, true));
    assert_eq!(due(&life, 9), (true, false));
    life.retry_at_once();
    assert_eq!(due(&life, 4), (true, false));
}

#[test]
fn a_close_that_was_deferred_is_due_after_a_second_and_remembered_until_the_disk_has_it() {
    let mut life = staged();
    assert_eq!(life.closed_early(closing(2)), None);
    assert_eq!((life.stage(), due(&life, 2)), (Stage::Deferred, (false, false)));
    assert_eq!(life.closed_early(closing(3)), Some(closing(2)));
    assert_eq!((due(&life, 3), due(&life, 4)), ((false, false), (true, false)));
    life.opened(Access::Write);
    life.commit_begun(4, at(5));
    life.commit_done(at(6));
    assert_eq!((life.stage(), life.noted().len(), life.is_behind_a_commit()), (Stage::Idle, 1, true));
    assert!(!life.may_be_forgotten());
    assert_eq!(life.notes_durable(at(2)), []);
    assert_eq!(life.notes_durable(at(3)), [closing(3)]);
    assert!(life.may_be_forgotten());
}

#[test]
fn what_is_set_after_the_last_close_waits_for_no_other_one() {
    let mut life = staged();
    life.closed_early(closing(1));
    life.commit_begun(4, at(2));
    life.changed(at(3));
    life.commit_done(at(4));
    assert_eq!((life.stage(), life.closing()), (Stage::Due, Some(&closing(1))));
    assert_eq!(due(&life, 4), (true, false));
}

#[test]
fn what_an_open_emptied_waits_for_what_is_to_be_written() {
    let mut life = Life::default();
    life.opened(Access::Write);
    life.unstaged(Vec::new());
    life.cut(0, at(1));
    life.emptied();
    assert_eq!(life.stage(), Stage::Emptied);
    assert_eq!(life.due(at(99), 99 * SECOND).map(|due| due.is_due), Some(false));
    assert!(!life.is_to_be_journaled());
    life.written(0..1, no_hole(), at(2));
    assert_eq!(life.stage(), Stage::Idle);
    assert_eq!(life.due(at(99), 99 * SECOND).map(|due| due.is_due), Some(true));
    assert!(life.is_to_be_journaled());
}

#[test]
fn news_wait_for_what_is_ours() {
    let mut life = written();
    assert_eq!(life.news_came(), Taking::Later);
    assert!(life.has_missed_news() && life.shows_its_own() && !life.may_lend());
    life.commit_begun(4, at(2));
    assert_eq!(life.news_came(), Taking::Later);
    life.commit_done(at(3));
    assert!(life.ask_for_news() && !life.ask_for_news());
    assert_eq!(life.news_came(), Taking::May);
    life.renewed();
    assert!(life.body().is_none());
    life.watch_begun(None);
    assert_eq!(life.news_came(), Taking::Later);
}

#[test]
fn a_file_without_a_name_is_owed_to_nobody() {
    let mut life = staged();
    life.closed_early(closing(1));
    let inode = crate::testing::inode(wayfs_types::Content::EMPTY, crate::testing::record(1));
    life.unnamed(std::sync::Arc::new(inode));
    assert_eq!(life.forget_close(), Some(closing(1)));
    assert!(life.is_dirty() && life.may_be_forgotten() && !life.is_wanted() && !life.is_to_be_committed());
    assert_eq!(life.due(at(99), SECOND), None);
    assert!(life.naming_begun() && life.is_wanted());
    life.naming_failed();
    assert!(!life.is_wanted());
    life.named();
    assert!(!life.naming_begun() && life.is_to_be_committed());
}

#[test]
fn what_was_left_by_a_killed_daemon_is_due_and_said_to_be_left() {
    let mut life = Life::default();
    life.recovered(Some(Body::Memory(vec![1])), Changes::whole(1), at(1));
    assert_eq!((life.backing(), life.stage(), due(&life, 1)), (Backing::Memory, Stage::Due, (true, false)));
    life.commit_begun(1, at(2));
    life.commit_failed(1, at(3));
    assert_eq!(life.origin(), Origin::Left);
    life.commit_begun(1, at(4));
    assert_eq!(life.commit_done(at(5)), Origin::Left);
    assert_eq!(life.origin(), Origin::Own);
}

#[test]
fn a_step_that_no_table_allows_is_counted_and_ends_a_test() {
    let before = illegal_count();
    let mut life = written();
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| life.renewed()));
    assert_eq!(outcome.is_err(), cfg!(debug_assertions));
    assert!(illegal_count() > before);
}
