//! Conflict reports are bounded; what they report of is not touched.

use super::world::{HOME, World, small};
use crate::Role;
use std::time::Duration;
use wayfs_types::request::Change;
use wayfs_types::{AttrChange, FileId};

const MOST: u64 = 16;

/// Two writers that never see each other's last word make one conflict for each file.
fn meet(world: &mut World, a: usize, b: usize, files: &[FileId], step: u32) {
    for file in files {
        world.store(a, *file, small(&format!("from a {step}")));
        world.store(b, *file, small(&format!("from b {step}")));
    }
    world.pass(Duration::from_secs(5));
}

#[test]
fn past_the_bound_the_reports_that_matter_least_go_and_no_file_does() {
    let mut world = World::new();
    world.configure(HOME, |config| config.conflicts_max = MOST);
    let (s1, s2) = (world.add(Role::Station, "s1@s"), world.add(Role::Station, "s2@s"));
    let (a, b) = (world.add(Role::Client, "ann@a"), world.add(Role::Client, "bob@b"));
    world.connect(s1, HOME);
    world.connect(s2, HOME);
    world.settle();
    world.connect(a, s1);
    world.connect(b, s2);
    world.settle();
    let files: Vec<FileId> = (0..30).map(|number| world.create(a, FileId::ROOT, &format!("f{number}"))).collect();
    world.pass(Duration::from_secs(3));
    world.names(b, FileId::ROOT).unwrap();
    // One that leaves nothing to decide.
    for (client, mode) in [(a, 0o600), (b, 0o640)] {
        let change = AttrChange { mode: Some(mode), ..AttrChange::default() };
        world.change(client, Change::SetAttr { file: files[29], change }).unwrap();
    }
    world.pass(Duration::from_secs(5));
    let settled = world.hosts[HOME].replica.conflicts(None, 100).unwrap();
    assert_eq!(settled.len(), 1, "{settled:?}");
    meet(&mut world, a, b, &files[..16], 1);
    let open = world.hosts[HOME].replica.conflicts(None, 100).unwrap();
    assert!(open.len() as u64 <= MOST && open.len() >= 13, "{}", open.len());
    assert!(open.iter().all(|report| report.id != settled[0].id), "what leaves nothing to decide goes first");
    assert!(open.iter().all(|report| report.conflict.copy.is_some()));
    meet(&mut world, a, b, &files[16..29], 2);
    assert!(world.hosts[HOME].replica.conflicts(None, 100).unwrap().len() as u64 <= MOST);
    // Every version that lost is there, reported or not, and every replica has the same reports.
    assert_eq!(world.names(HOME, FileId::ROOT).unwrap().len(), 30 + 29);
    for host in [s1, s2, a, b] {
        world.assert_agrees(host);
        let ids = |host: usize| -> Vec<_> {
            world.hosts[host].replica.conflicts(None, 100).unwrap().iter().map(|report| report.id).collect()
        };
        assert_eq!(ids(host), ids(HOME));
        assert_eq!(world.hosts[host].replica.progress().conflicts_open, ids(HOME).len() as u64);
    }
}
