//! In whose name calls are made, and whether a caller still waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wayfs_fuse::{InterruptFlag, Operation, Request};
use wayfs_nfs::rpc::{Credentials, GROUPS_MAX};

/// Users that are remembered, and for how long: group lists hardly change, and reading one costs a look into `/proc`.
const USERS_MAX: usize = 256;
const REMEMBERED: Duration = Duration::from_secs(5);

/// Process, user, group.
type Key = (u32, u32, u32);

/// Credentials of those who make requests.
#[derive(Debug)]
pub(crate) struct Users {
    machine: String,
    /// Everybody's calls are made in this name, if set.
    fixed: (Option<u32>, Option<u32>),
    known: Mutex<BTreeMap<Key, (Instant, Arc<Credentials>)>>,
}

impl Users {
    pub(crate) fn new(machine: String, uid: Option<u32>, gid: Option<u32>) -> Self {
        Self { machine, fixed: (uid, gid), known: Mutex::default() }
    }

    /// Of a request.
    pub(crate) fn of(&self, request: &Request) -> Arc<Credentials> {
        let key = (request.pid(), request.uid(), request.gid());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, credentials)) = known.get(&key)
            && at.elapsed() < REMEMBERED
        {
            return Arc::clone(credentials);
        }
        if known.len() >= USERS_MAX {
            known.clear();
        }
        let (uid, gid) = (self.fixed.0.unwrap_or(request.uid()), self.fixed.1.unwrap_or(request.gid()));
        let groups = if self.fixed.0.is_some() { Vec::new() } else { groups_of(request.pid()) };
        let credentials = Arc::new(Credentials { machine: self.machine.clone(), uid, gid, groups });
        known.insert(key, (Instant::now(), Arc::clone(&credentials)));
        credentials
    }
}

fn groups_of(pid: u32) -> Vec<u32> {
    groups_in(&status_line(pid, "Groups:").unwrap_or_default())
}

fn groups_in(line: &str) -> Vec<u32> {
    line.split_whitespace().filter_map(|group| group.parse().ok()).take(GROUPS_MAX).collect()
}

fn status_line(pid: u32, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
}

/// Whose wait may end before there is an answer.
#[derive(Debug, Clone)]
pub(crate) struct Waiter {
    flag: InterruptFlag,
    pid: u32,
    /// It closes a file: a process that is on its way out cannot be interrupted any more, and must not hang.
    is_closing: bool,
}

/// A signal that the program handles ends a wait only when the server has been silent for so long: programs do not expect that files
/// are interrupted by their timers.
const SILENCE: Duration = Duration::from_secs(2);

impl Waiter {
    pub(crate) fn of(request: &Request) -> Self {
        let is_closing = matches!(request.operation(), Operation::Flush { .. });
        Self { flag: request.interrupt_flag(), pid: request.pid(), is_closing }
    }

    /// Nobody: work in the background.
    pub(crate) fn nobody() -> Self {
        Self { flag: InterruptFlag::default(), pid: 0, is_closing: false }
    }

    /// Whether the wait is to end; `silence` is how long the server has owed an answer.
    pub(crate) fn is_over(&self, silence: Duration) -> bool {
        if self.flag.is_set() {
            return silence > SILENCE || is_dying(self.pid);
        }
        self.is_closing && silence > SILENCE && is_exiting(self.pid)
    }
}

/// Signals that end no process by themselves: CHLD, CONT, STOP, TSTP, TTIN, TTOU, URG, WINCH.
const HARMLESS: u64 = bit(17) | bit(18) | bit(19) | bit(20) | bit(21) | bit(22) | bit(23) | bit(28);

const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}

/// Whether a signal waits that will end the process. One that cannot be looked at is taken to be dying.
fn is_dying(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/status")).map_or(true, |status| has_deadly_signal(&status))
}

fn has_deadly_signal(status: &str) -> bool {
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0)
    };
    let pending = mask("SigPnd:") | mask("ShdPnd:");
    pending & bit(9) != 0 || pending & !mask("SigCgt:") & !mask("SigIgn:") & !mask("SigBlk:") & !HARMLESS != 0
}

/// Whether the process ends: `PF_EXITING` in the ninth field of its `stat`.
fn is_exiting(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| says_exiting(&stat))
}

fn says_exiting(stat: &str) -> bool {
    const PF_EXITING: u64 = 0x4;
    // The name of the program is in parentheses, and may hold anything.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    after
        .split_whitespace()
        .nth(6)
        .and_then(|flags| flags.parse::<u64>().ok())
        .is_some_and(|flags| flags & PF_EXITING != 0)
}

/// Reads text as each table of `/proc` that is looked at here, for the fuzzer.
#[doc(hidden)]
pub fn read_process_tables(text: &str) {
    let _ = (has_deadly_signal(text), says_exiting(text));
    assert!(groups_in(text).len() <= GROUPS_MAX, "the kernel takes no more groups");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_neither_dying_nor_exiting() {
        let pid = std::process::id();
        assert!(!is_dying(pid) && !is_exiting(pid));
        assert!(is_dying(u32::MAX) && is_exiting(u32::MAX));
    }

    #[test]
    fn a_wait_of_nobody_is_never_over_by_itself() {
        assert!(!Waiter::nobody().is_over(Duration::from_secs(3600)));
    }
}
