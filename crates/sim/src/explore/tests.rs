//! A short exploration, and planted bugs that need an unusual order.

use super::script::SCRIPTS;
use super::{Bounds, explore, ready, run_path, scripts};
use crate::host::name_of;
use crate::world::Notes;
use crate::{Bug, Verbosity};
use wayfs_types::{Content, FileId};

/// Paths of each script in a test run; `cargo xtask explore` runs all.
const PATHS: usize = 8;

/// A script's next operation was dropped while one before it was under way.
#[test]
fn a_script_is_run_to_its_end() {
    let script = SCRIPTS.iter().find(|script| script.name == "write-remove").unwrap();
    let world = ready(script, Notes::default());
    let home = world.hosts[0].replica.as_ref().unwrap();
    let entry = home.entry(FileId::ROOT, &name_of("x")).unwrap().unwrap();
    assert_ne!(home.inode(entry.file).unwrap().unwrap().content, Content::EMPTY, "it was made, and written to");
}

#[test]
fn no_order_of_the_first_paths_breaks_a_promise() {
    for script in scripts() {
        let explored = explore(script, None, Bounds::default(), &mut |so_far| so_far.paths < PATHS).unwrap();
        assert!(explored.broken.is_none(), "{script}: {explored:?}");
        assert_eq!((explored.paths, explored.is_finished), (PATHS, false), "{script}: {explored:?}");
        assert!(explored.states > PATHS, "{script}: {explored:?}");
    }
}

#[test]
fn all_orders_with_one_delay_of_two_writes_are_run_to_the_end() {
    let explored = explore("write-write", None, Bounds::default(), &mut |_| true).unwrap();
    assert!(explored.broken.is_none() && explored.is_finished, "{explored:?}");
    // Each point of the first run has a path of its own.
    assert!(explored.paths > 20 && explored.merged > 0 && explored.states > explored.paths, "{explored:?}");
}

#[test]
fn planted_bugs_that_need_an_unusual_order_are_found_and_their_paths_break_again() {
    let bounds = Bounds { delays: 0, faults: 1, ..Bounds::default() };
    for (bug, script, faults) in [
        (Bug::WelcomeOverstates, "one-writer", 1),
        (Bug::VisibleAsSafe, "same-name", 1),
        (Bug::OneBatchEarly, "big-write", 1),
        (Bug::SafeBeforeContents, "big-write", 0),
        (Bug::AckDropped, "write-write", 1),
        (Bug::WelcomeOverstates, "move-between", 1),
    ] {
        let explored = explore(script, Some(bug), bounds, &mut |_| true).unwrap();
        let (path, violation) = explored.broken.clone().unwrap_or_else(|| panic!("{bug:?}: {explored:?}"));
        assert_eq!(path.faults(), faults, "{bug:?}: {violation}");
        assert_eq!(run_path(script, Some(bug), &path, Verbosity::Quiet), Some(Err(violation)), "{bug:?}: {path}");
        assert_eq!(run_path(script, None, &path, Verbosity::Quiet), Some(Ok(())), "{bug:?}: {path}");
    }
}
