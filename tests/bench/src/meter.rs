//! What a process uses, by the kernel's word.

use anyhow::{Context, Result};
use std::fs;

/// Processor time of all its threads so far, those that ended too, in seconds; exact to a hundredth.
pub(crate) fn processor_seconds(process: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).context("read what a process used")?;
    Ok(ticks(&stat).context("the kernel tells processor time")? as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Of the process and of the kernel for it: the 14th and 15th number. The name before them may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, numbers) = stat.rsplit_once(')')?;
    let mut numbers = numbers.split_whitespace().skip(11);
    Some(numbers.next()?.parse::<u64>().ok()? + numbers.next()?.parse::<u64>().ok()?)
}

/// How a process stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    /// What it has in memory, in MiB.
    pub(crate) resident_mib: f64,
    /// Its threads.
    pub(crate) threads: u64,
    /// How often its living threads went to sleep so far, and so were woken.
    pub(crate) wake_ups: u64,
}

impl Standing {
    /// Of a process now.
    pub(crate) fn of(process: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).context("read how a process stands")?;
        let resident = number(&status, "VmRSS:").context("the kernel tells memory")?;
        let threads = number(&status, "Threads:").context("the kernel tells threads")?;
        let mut wake_ups = 0;
        for task in fs::read_dir(format!("/proc/{process}/task"))? {
            // A thread that has ended meanwhile is not asked.
            let status = fs::read_to_string(task?.path().join("status")).unwrap_or_default();
            wake_ups += number(&status, "voluntary_ctxt_switches:").unwrap_or_default();
        }
        Ok(Self { resident_mib: resident as f64 / 1024.0, threads, wake_ups })
    }
}

/// Memory of a process, in MiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    /// That it has.
    pub(crate) now_mib: f64,
    /// The most that it ever had, or since that was forgotten.
    pub(crate) most_mib: f64,
}

impl Memory {
    /// Of a process now.
    pub(crate) fn of(process: u32) -> Result<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).context("read how a process stands")?;
        let mib = |name| number(&status, name).map(|kib| kib as f64 / 1024.0).context("the kernel tells memory");
        Ok(Self { now_mib: mib("VmRSS:")?, most_mib: mib("VmHWM:")? })
    }

    /// The most that a process has counts from now on.
    pub(crate) fn forget_most(process: u32) -> Result<()> {
        fs::write(format!("/proc/{process}/clear_refs"), "5").context("have the kernel forget the most memory")
    }
}

/// The number behind a name at the begin of a line.
fn number(status: &str, name: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 1 0 5 0 0";
        assert_eq!(ticks(stat), Some(300));
    }

    #[test]
    fn this_process_stands_somehow() {
        let standing = Standing::of(std::process::id()).unwrap();
        assert!(standing.resident_mib > 0.5 && standing.threads >= 1, "{standing:?}");
        assert!(processor_seconds(std::process::id()).is_ok());
    }

    #[test]
    fn the_most_memory_is_that_since_it_was_forgotten() {
        let process = std::process::id();
        drop(std::hint::black_box(vec![1_u8; 64 << 20]));
        Memory::forget_most(process).unwrap();
        let before = Memory::of(process).unwrap();
        assert!(before.most_mib < before.now_mib + 32.0, "{before:?}");
        let held = std::hint::black_box(vec![1_u8; 64 << 20]);
        let after = Memory::of(process).unwrap();
        assert!(after.most_mib >= before.now_mib + 32.0, "{before:?}, {after:?}, {}", held.len());
    }

    #[test]
    fn wake_ups_are_not_mistaken_for_those_without_a_wish() {
        let status = "nonvoluntary_ctxt_switches:\t7\nvoluntary_ctxt_switches:\t41\n";
        assert_eq!(number(status, "voluntary_ctxt_switches:"), Some(41));
    }
}
