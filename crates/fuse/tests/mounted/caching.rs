use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wayfs_fuse::{InitFlags, Inode};

use crate::stage::{Plan, stage};

#[test]
fn the_host_is_not_asked_again_until_a_notification() {
    let Some(stage) = stage(Plan::default()) else { return };
    let notifier = stage.session().notifier();
    assert!(!stage.at("late").exists());
    fs::write(stage.on_host("late"), "now").unwrap();
    assert!(!stage.at("late").exists(), "the negative entry is cached");
    notifier.inval_entry(Inode::ROOT, "late".as_ref()).unwrap();
    assert_eq!(fs::read_to_string(stage.at("late")).unwrap(), "now");

    fs::write(stage.on_host("late"), "new").unwrap();
    assert_eq!(fs::read_to_string(stage.at("late")).unwrap(), "now", "pages are cached");
    // The first file looked up after the root.
    notifier.inval_inode(Inode::new(2), 0, 0).unwrap();
    assert_eq!(fs::read_to_string(stage.at("late")).unwrap(), "new");
    stage.finish();
}

#[test]
fn removed_names_go_and_unknown_ones_do_not_matter() {
    let Some(stage) = stage(Plan::default()) else { return };
    let notifier = stage.session().notifier();
    fs::write(stage.at("file"), "x").unwrap();
    fs::remove_file(stage.on_host("file")).unwrap();
    assert!(stage.at("file").exists());
    notifier.delete(Inode::ROOT, Inode::new(2), "file".as_ref()).unwrap();
    assert!(!stage.at("file").exists());
    notifier.inval_entry(Inode::ROOT, "never seen".as_ref()).unwrap();
    notifier.inval_inode(Inode::new(999), 0, 0).unwrap();
    notifier.delete(Inode::ROOT, Inode::new(999), "never seen".as_ref()).unwrap();
    stage.finish();
}

#[test]
fn expired_names_are_looked_up_again() {
    let Some(stage) = stage(Plan::default()) else { return };
    let notifier = stage.session().notifier();
    fs::write(stage.at("one"), "x").unwrap();
    fs::write(stage.at("two"), "x").unwrap();
    let expect_gone = |name: &str| {
        assert!(stage.at(name).exists());
        fs::remove_file(stage.on_host(name)).unwrap();
        assert!(stage.at(name).exists(), "cached");
    };
    expect_gone("one");
    notifier.expire_entry(Inode::ROOT, "one".as_ref()).unwrap();
    assert!(!stage.at("one").exists());
    expect_gone("two");
    match notifier.expire_all_entries() {
        Ok(()) => assert!(!stage.at("two").exists()),
        Err(error) => eprintln!("skipped: {error}"),
    }
    stage.finish();
}

#[test]
fn stored_pages_are_read_without_asking() {
    let Some(stage) = stage(Plan::default()) else { return };
    let notifier = stage.session().notifier();
    fs::write(stage.on_host("file"), vec![b'h'; 4096]).unwrap();
    assert_eq!(fs::metadata(stage.at("file")).unwrap().len(), 4096);
    notifier.store(Inode::new(2), 0, &[b'k'; 4096]).unwrap();
    assert_eq!(fs::read(stage.at("file")).unwrap(), vec![b'k'; 4096]);
    stage.finish();
}

#[test]
fn what_was_wanted_is_granted() {
    let Some(stage) = stage(Plan::default()) else { return };
    let granted = stage.session().granted();
    eprintln!("granted: {granted:?}");
    let expected = InitFlags::PARALLEL_DIROPS | InitFlags::DO_READDIRPLUS | InitFlags::ATOMIC_O_TRUNC;
    assert!(granted.flags.contains(expected));
    assert!(!granted.flags.contains(InitFlags::WRITEBACK_CACHE));
    stage.finish();
}

#[test]
fn read_ahead_is_raised_beyond_the_kernels_own() {
    let Some(stage) = stage(Plan::default()) else { return };
    let device = std::os::unix::fs::MetadataExt::dev(&fs::metadata(stage.point()).unwrap());
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    match fs::read_to_string(path) {
        Ok(text) => assert_eq!(text.trim(), "1024"),
        Err(error) => eprintln!("skipped: {error}"),
    }
    stage.finish();
}

#[test]
fn writeback_caching_loses_nothing() {
    let mut plan = Plan::default();
    plan.config.writeback_cache = true;
    let Some(stage) = stage(plan) else { return };
    assert!(stage.session().granted().flags.contains(InitFlags::WRITEBACK_CACHE));
    for n in 0..20 {
        fs::write(stage.at(&format!("f{n}")), vec![n; 10_000]).unwrap();
    }
    for n in 0..20 {
        assert_eq!(fs::read(stage.at(&format!("f{n}"))).unwrap(), vec![n; 10_000]);
    }
    // A write of part of a page through a handle that cannot read.
    fs::write(stage.on_host("part"), vec![b'.'; 5000]).unwrap();
    let file = fs::File::options().write(true).open(stage.at("part")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"middle", 2000).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let text = fs::read(stage.on_host("part")).unwrap();
    assert_eq!((&text[1999..2007], text.len()), (&b".middle."[..], 5000));
    stage.finish();
}

#[test]
fn short_lives_of_attributes_are_kept() {
    let mut plan = Plan::default();
    plan.loopback.attribute_ttl = Duration::ZERO;
    plan.loopback.entry_ttl = Duration::ZERO;
    let Some(stage) = stage(plan) else { return };
    fs::write(stage.at("file"), "1").unwrap();
    fs::write(stage.on_host("file"), "12345").unwrap();
    assert_eq!(fs::metadata(stage.at("file")).unwrap().len(), 5);
    fs::remove_file(stage.on_host("file")).unwrap();
    assert!(!stage.at("file").exists());
    stage.finish();
}

#[test]
fn notifications_under_load_wait_for_nobody_for_ever() {
    let Some(stage) = stage(Plan::default()) else {
        return;
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let notifier = stage.session().notifier();
        let done = &done;
        let notifying = scope.spawn(move || {
            let mut sent = 0_u32;
            while !done.load(Ordering::Relaxed) {
                for number in 0..8 {
                    let name = format!("f{number}");
                    notifier.inval_entry(Inode::ROOT, name.as_ref()).unwrap();
                    notifier.inval_inode(Inode::new(2 + number), 0, 0).unwrap();
                    sent += 1;
                }
            }
            sent
        });
        let stage = &stage;
        let workers: Vec<_> = (0..4_u8)
            .map(|worker| {
                scope.spawn(move || {
                    for round in 0..100 {
                        let path = stage.at(&format!("f{}", worker * 2 + round % 2));
                        fs::write(&path, vec![worker; 20_000]).unwrap();
                        assert_eq!(fs::read(&path).unwrap(), vec![worker; 20_000]);
                        fs::remove_file(&path).unwrap();
                    }
                })
            })
            .collect();
        let outcomes: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(notifying.join().unwrap() > 0);
        assert!(outcomes.iter().all(Result::is_ok));
    });
    stage.finish();
}
