//! Waits for an NFS server that never answers end with Ctrl-C, whatever waits.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for anything, on a busy machine.
const READY: Duration = Duration::from_secs(60);

/// Starts the program; both ends of what it says are its own.
fn start(directory: &std::path::Path, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_wayfs"))
        .args(arguments)
        .env("WAYFS_RUNTIME_DIR", directory.join("run"))
        .env("XDG_STATE_HOME", directory.join("state"))
        .env("XDG_CONFIG_HOME", directory.join("config"))
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Interrupts it; gives its code and what it said, or kills it when it goes on.
fn interrupt(mut child: Child) -> (Option<i32>, String) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let deadline = Instant::now() + READY;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("it waits on");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn ctrl_c_ends_every_wait_for_a_server_that_never_answers() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("mnt")).unwrap();
    std::fs::write(directory.path().join("local"), b"bytes").unwrap();
    // A socket that takes calls and answers none.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    silent.set_read_timeout(Some(READY)).unwrap();
    let port = silent.local_addr().unwrap().port().to_string();
    let export = format!("nfs://127.0.0.1:{port}/export");
    let file = format!("{export}/file");
    let mount_port = format!("mountport={port}");
    for arguments in [
        &["nfs", "get", &file, "--mount-port", &port][..],
        &["nfs", "put", "local", &file, "--mount-port", &port],
        &["nfs", "ls", &export, "--mount-port", &port],
        &["nfs", "bench", &export, "--mount-port", &port],
        &["mount", &export, "mnt", "-o", &mount_port],
    ] {
        let child = start(directory.path(), arguments);
        let (len, _) = silent.recv_from(&mut [0; 2000]).expect("the program asks the server");
        assert!(len > 0);
        let (code, said) = interrupt(child);
        assert_eq!(code, Some(6), "wayfs {arguments:?}: {said}");
        assert!(said.contains("interrupted"), "wayfs {arguments:?}: {said}");
        // What it had still sent is not the next one's.
        silent.set_nonblocking(true).unwrap();
        while silent.recv_from(&mut [0; 2000]).is_ok() {}
        silent.set_nonblocking(false).unwrap();
    }
    assert_eq!(std::fs::read_dir(directory.path().join("mnt")).unwrap().count(), 0);
}
