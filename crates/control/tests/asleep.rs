//! A server that nobody asks anything sleeps. Alone in its program, so that the thread is found by its name.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::sync::Arc;
use std::time::Duration;
use wayfs_control::{Command, CommandHandler, ControlError, ControlServer, Done, Sink};

struct Nothing;

impl CommandHandler for Nothing {
    fn run(&self, _command: Command, _out: &mut dyn Sink) -> Result<Done, ControlError> {
        Ok(Done::Nothing)
    }
}

/// How often the thread that takes connections went to sleep so far. It gives itself its name when it begins.
fn sleeps() -> u64 {
    loop {
        if let Some(sleeps) = sleeps_of_named() {
            return sleeps;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn sleeps_of_named() -> Option<u64> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let is_control = |name: String| name.trim() == "control";
    let mut control = tasks.filter(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(is_control));
    let status = std::fs::read_to_string(control.next()?.join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
    Some(line.trim().parse().unwrap())
}

#[test]
fn nothing_wakes_a_server_that_nobody_asks() {
    let directory = tempfile::tempdir().unwrap();
    let server = ControlServer::start(&directory.path().join("control"), Arc::new(Nothing)).unwrap();
    // However late it comes to its first sleep, that is one.
    let before = sleeps();
    std::thread::sleep(Duration::from_secs(2));
    let after = sleeps();
    server.stop();
    assert!(after <= before + 2, "it woke {} times", after - before);
}
