//! What a sync writes when something was frozen before it, and what a commit does when the disk is busy.

use super::{copy_image, data_dir, meta_config, open_meta};
use crate::{DiskMetaStore, MetaConfig};
use std::fs::File;
use std::process::Command;
use wayfs_types::{Batch, MetaStore, StorageError, Ticket};

fn put(store: &mut DiskMetaStore, key: u8) -> Ticket {
    let mut batch = Batch::default();
    batch.put(vec![key], vec![key; 100]);
    store.commit(batch).unwrap()
}

#[test]
fn a_sync_writes_what_was_frozen_and_not_what_came_later() {
    let scratch = tempfile::tempdir().unwrap();
    let live = scratch.path().join("live");
    let config = MetaConfig { gather_bytes: 1 << 20, ..meta_config() };
    let mut store = DiskMetaStore::open(&data_dir(&live), config).unwrap();
    let syncer = store.syncer();
    let early = put(&mut store, 1);
    let frozen = syncer.freeze().unwrap();
    assert_eq!(frozen, early);
    let late = put(&mut store, 2);
    assert!(late > frozen, "what comes later has a ticket of its own");
    assert_eq!(syncer.freeze().unwrap(), frozen, "nothing follows what is not written");
    assert_eq!(syncer.sync_to(frozen), Ok(frozen));
    assert_eq!(store.get(&[2]).unwrap(), Some(vec![2; 100]), "it is read all the same");
    copy_image(&live, &scratch.path().join("image"));
    let image = open_meta(&scratch.path().join("image"));
    assert_eq!(image.get(&[1]).unwrap(), Some(vec![1; 100]));
    assert_eq!(image.get(&[2]).unwrap(), None, "it is not on the disk");
    assert_eq!(syncer.sync_to(late), Ok(late), "and is when it is asked for");
}

#[test]
fn many_commits_beside_a_frozen_batch_are_written_behind_it() {
    let scratch = tempfile::tempdir().unwrap();
    let config = MetaConfig { gather_bytes: 1000, ..meta_config() };
    let mut store = DiskMetaStore::open(&data_dir(scratch.path()), config).unwrap();
    let syncer = store.syncer();
    put(&mut store, 0);
    let frozen = syncer.freeze().unwrap();
    let mut last = Ticket(0);
    for key in 1..=200 {
        last = put(&mut store, key);
    }
    assert!(last.0 > frozen.0 + 1, "they do not gather without a bound");
    assert!(syncer.sync_to(frozen).unwrap() >= frozen);
    assert_eq!(syncer.sync_to(last), Ok(last));
    drop((store, syncer));
    let store = open_meta(scratch.path());
    assert!((0..=200).all(|key| store.get(&[key]) == Ok(Some(vec![key; 100]))));
}

/// The process that has few descriptors is one of its own: the limit is of the whole process.
const FEW: &str = "WAYFS_TEST_FEW_DESCRIPTORS";

#[test]
fn a_process_without_descriptors_goes_on_when_it_has_some() {
    if std::env::var_os(FEW).is_some() {
        return without_descriptors();
    }
    let me = std::env::current_exe().unwrap();
    let name = "tests::freezing::a_process_without_descriptors_goes_on_when_it_has_some";
    let output = Command::new(me).args(["--exact", name, "--nocapture"]).env(FEW, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn without_descriptors() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let scratch = tempfile::tempdir().unwrap();
    let config = MetaConfig { gather_bytes: 1 << 20, ..meta_config() };
    let mut store = DiskMetaStore::open(&data_dir(scratch.path()), config).unwrap();
    let syncer = store.syncer();
    let first = put(&mut store, 0);
    syncer.sync_to(first).unwrap();
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(200), maximum: limit.maximum }).unwrap();
    let mut hoard = Vec::new();
    let refused = loop {
        match File::open("/dev/null") {
            Ok(file) => hoard.push(file),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::MFILE.raw_os_error()));
    for key in 1..20 {
        let ticket = put(&mut store, key);
        match syncer.sync_to(ticket) {
            Ok(_) | Err(StorageError::Busy(_)) => {}
            Err(error) => panic!("an error that wrote nothing ended the store: {error}"),
        }
    }
    drop(hoard);
    let last = put(&mut store, 20);
    assert_eq!(syncer.sync_to(last), Ok(last));
    assert_eq!(store.get(&[20]).unwrap(), Some(vec![20; 100]));
}
