//! Servers that are silent, gone or hostile: nothing hangs, nothing grows, and what is lost is told.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod common;

use common::{Host, Mounted, may_mount, within};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use wayfs_control::report::StatusWord;
use wayfs_control::{Command as Control, ControlClient, Done, LinkNotice};
use wayfs_fuse::UmountMode;

fn program(script: &str) -> Child {
    Command::new("sh").args(["-c", script]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn ends(child: &mut Child) {
    within("the program ends", || child.try_wait().unwrap().is_some());
}

/// [S-nfs-wait]
#[test]
fn a_program_that_waits_for_a_silent_server_can_be_ended() {
    if !may_mount() {
        return;
    }
    for proto in ["udp", "tcp"] {
        let host = Host::start();
        host.toy().put("file", b"x");
        let mounted = Mounted::new(&host, &format!("proto={proto},noac"));
        host.silence(true);
        let mut waiting = program(&format!("exec cat {}", mounted.at("file").display()));
        within("it waits for the server", || fs::read_to_string(format!("/proc/{}/wchan", waiting.id())).is_ok());
        std::thread::sleep(std::time::Duration::from_millis(500));
        assert!(waiting.try_wait().unwrap().is_none(), "a hard mount waits");
        let pid = rustix::process::Pid::from_child(&waiting);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        ends(&mut waiting);
        // The server comes back, and so does the mount.
        host.silence(false);
        assert_eq!(fs::read(mounted.at("file")).unwrap(), b"x");
        assert_eq!(mounted.end(UmountMode::Orderly).failure, None);
    }
}

#[test]
fn a_soft_mount_gives_up_and_says_so() {
    if !may_mount() {
        return;
    }
    let host = Host::start();
    host.toy().put("file", b"x");
    let mounted = Mounted::new(&host, "soft=2,retry=constant:every=0.1s,noac");
    host.silence(true);
    assert_eq!(fs::read(mounted.at("file")).unwrap_err().raw_os_error(), Some(libc::ETIMEDOUT));
    host.silence(false);
    assert_eq!(fs::read(mounted.at("file")).unwrap(), b"x");
    let file = OpenOptions::new().write(true).open(mounted.at("file")).unwrap();
    host.silence(true);
    file.write_all_at(b"lost", 0).unwrap();
    assert_eq!(file.sync_all().unwrap_err().raw_os_error(), Some(libc::ETIMEDOUT));
    drop(file);
    host.silence(false);
    assert_eq!(mounted.end(UmountMode::Orderly).lost_bytes, 4);
}

/// [S-nfs-wait]
#[test]
fn a_forced_end_waits_for_nobody_and_counts_what_is_lost() {
    if !may_mount() {
        return;
    }
    let host = Host::start();
    let mounted = Mounted::new(&host, "");
    let mut file = fs::File::create(mounted.at("file")).unwrap();
    host.silence(true);
    file.write_all(b"never arrives").unwrap();
    let mut waiting = program(&format!("exec ls {}", mounted.at("other").display()));
    let umount = Control::Umount { flush: false, timeout_ms: 100, force: false };
    let refused = ControlClient::connect(&mounted.control()).unwrap().ask(&umount);
    assert!(refused.is_err(), "an orderly end does not give bytes up: {refused:?}");
    assert_eq!(mounted.end(UmountMode::Force).lost_bytes, 13);
    ends(&mut waiting);
    drop(file);
}

#[test]
fn status_says_that_the_server_is_away_and_what_waits_for_it() {
    if !may_mount() {
        return;
    }
    let host = Host::start();
    let mounted = Mounted::new(&host, "");
    let status = || match ControlClient::connect(&mounted.control()).unwrap().ask(&Control::Status) {
        Ok(Done::Status(mut report)) => report.volumes.remove(0),
        other => panic!("{other:?}"),
    };
    assert_eq!((status().word, status().parent.unwrap().connected), (StatusWord::Active, true));
    let mut file = fs::File::create(mounted.at("file")).unwrap();
    host.silence(true);
    file.write_all(b"on its way").unwrap();
    within("it is seen that the server is away", || status().word == StatusWord::Offline);
    assert_eq!(status().ledger.not_safe.unwrap().bytes, 10);
    host.silence(false);
    // The link tells that it is back: the calls go again at once.
    let notice = Control::LinkNotice { notice: LinkNotice::Up };
    ControlClient::connect(&mounted.control()).unwrap().ask(&notice).unwrap();
    file.sync_all().unwrap();
    assert_eq!(host.toy().durable("file").unwrap(), b"on its way");
    drop(file);
    assert_eq!(mounted.end(UmountMode::Orderly).lost_bytes, 0);
}

#[test]
fn a_server_that_is_not_there_is_told_of() {
    if !may_mount() {
        return;
    }
    let port = common::nobody().port();
    let error = Mounted::try_new(port, "soft=2,retry=constant:every=0.05s").err().unwrap();
    assert!(error.to_string().contains("no answer"), "{error}");
    let error = Mounted::try_new(port, "proto=tcp,soft=1").err().unwrap();
    assert!(error.to_string().contains("connect"), "{error}");
}

/// Changes answers: cut short, with other bytes, twice, of nobody's call.
fn hostile(seed: u64) -> common::Spoil {
    let mut state = seed;
    Box::new(move |answer| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let roll = state >> 33;
        let mut bad = answer.clone();
        if !roll.is_multiple_of(3) || bad.len() < 12 {
            return vec![answer];
        }
        let at = (roll / 3) as usize % bad.len();
        match roll % 5 {
            0 => bad.truncate(at.max(8)),
            1 => bad[at] ^= 0x80,
            2 => bad.splice(at / 4 * 4..at / 4 * 4, [0xff; 4]).for_each(drop),
            3 => bad[..4].copy_from_slice(&(roll as u32).to_be_bytes()),
            // A flood of the same.
            _ => return vec![answer; 50],
        }
        vec![bad, answer]
    })
}

#[test]
fn hostile_answers_give_errors_and_nothing_else() {
    if !may_mount() {
        return;
    }
    for seed in 0..4 {
        let host = Host::start();
        host.toy().put("file", &[3; 20_000]);
        let mounted = Mounted::new(&host, "soft=3,retry=constant:every=0.05s,noac");
        host.spoil(hostile(seed));
        for round in 0..40 {
            let path = mounted.at(&format!("new-{round}"));
            let _ = fs::write(&path, vec![1; 9000]);
            let _ = fs::read(mounted.at("file"));
            let _ = fs::read_dir(mounted.at("")).map(|names| names.take(1000).count());
            let _ = fs::rename(&path, mounted.at("renamed"));
            let _ = fs::remove_file(mounted.at("renamed"));
        }
        host.spoil(Box::new(|answer| vec![answer]));
        // A server that lies about bytes is believed until the file is another.
        host.toy().put("file", &[4; 10_000]);
        assert!(fs::read(mounted.at("file")).unwrap() == [4; 10_000], "seed {seed}");
        assert_eq!(mounted.end(UmountMode::Force).failure, None);
    }
}

/// A listing that leads back to its beginning.
#[test]
fn a_listing_without_end_is_an_error() {
    if !may_mount() {
        return;
    }
    let host = Host::start();
    for number in 0..200 {
        host.toy().put(&format!("file-{number}"), b"x");
    }
    let mounted = Mounted::new(&host, "noac");
    // Every part of the listing is the first.
    let mut first: Option<Vec<u8>> = None;
    host.spoil(Box::new(move |answer| {
        if answer.len() < 4000 {
            return vec![answer];
        }
        let first = first.get_or_insert_with(|| answer.clone());
        vec![[&answer[..4], &first[4..]].concat()]
    }));
    let names = fs::read_dir(mounted.at("")).unwrap();
    let listed = names.take(100_000).filter_map(Result::ok).count();
    assert!(listed <= 400, "{listed}");
    host.spoil(Box::new(|answer| vec![answer]));
    assert_eq!(fs::read_dir(mounted.at("")).unwrap().count(), 200);
    mounted.end(UmountMode::Orderly);
}

/// The kernel never uses a file again whose kind changes under its hands.
#[test]
fn a_handle_that_suddenly_leads_to_another_kind_of_file_is_stale() {
    if !may_mount() {
        return;
    }
    let host = Host::start();
    host.toy().put("file", b"x");
    let mounted = Mounted::new(&host, "noac");
    let file = fs::File::open(mounted.at("file")).unwrap();
    // Attributes alone are 112 bytes; the kind is their first word.
    host.spoil(Box::new(|mut answer| {
        if answer.len() == 112 && answer[31] == 1 {
            answer[31] = 2;
        }
        vec![answer]
    }));
    assert_eq!(file.metadata().unwrap_err().raw_os_error(), Some(libc::ESTALE));
    host.spoil(Box::new(|answer| vec![answer]));
    assert_eq!(file.metadata().unwrap().len(), 1);
    assert_eq!(fs::read(mounted.at("file")).unwrap(), b"x");
    drop(file);
    mounted.end(UmountMode::Orderly);
}
