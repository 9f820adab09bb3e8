//! Issues the operations of a trace at their times, whatever becomes of those before.
//!
//! Workers take the steps in order; each sleeps until its step is due and carries it out. As long as one of them is
//! free, a slow operation delays no other but those on the same file that need it (nothing passes the making, renaming or
//! removing of its file). How late each was issued is kept: a replay that falls behind measures its own queue.

use super::order::Order;
use super::trace::{FileNumber, Operation, Step, Trace};
use super::tree::Tree;
use crate::experiments::noise::noise;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Operations at the same time. The client of a trace had as many programs and read-ahead daemons.
const WORKERS: usize = 32;
/// Before the first step: all workers must be there.
const HEAD_START: Duration = Duration::from_millis(50);
/// The mode that files are made with, and that `attributes` sets.
const MODE: u32 = 0o644;

/// How one operation went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    /// What was done. A handle that had to be opened first counts as an `open` of its own.
    pub(super) operation: Operation,
    /// How late it was issued.
    pub(super) late: Duration,
    /// How long it took.
    pub(super) took: Duration,
    /// Whether it did what it was to.
    pub(super) is_success: bool,
}

/// Replays a trace, `speed` times as fast as it was.
pub(super) fn play(trace: &Trace, tree: &Tree, speed: f64) -> Vec<Sample> {
    let player =
        Player { trace, tree, speed, order: Order::of(trace), handles: Mutex::default(), next: AtomicUsize::new(0) };
    let begin = Instant::now() + HEAD_START;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(|| player.work(begin))).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("replaying does not panic")).collect()
    })
}

struct Player<'a> {
    trace: &'a Trace,
    tree: &'a Tree,
    speed: f64,
    order: Order,
    handles: Mutex<BTreeMap<FileNumber, Arc<File>>>,
    next: AtomicUsize,
}

impl Player<'_> {
    fn work(&self, begin: Instant) -> Vec<Sample> {
        let mut samples = Vec::new();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(step) = self.trace.steps.get(number) else { return samples };
            let due = begin + step.at.div_f64(self.speed);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            self.order.wait(number);
            self.issue(step, number, due, &mut samples);
            self.order.done(step);
        }
    }

    fn issue(&self, step: &Step, number: usize, due: Instant, samples: &mut Vec<Sample>) {
        let mut issued = Instant::now();
        let late = issued.saturating_duration_since(due);
        let handle = match step.operation {
            Operation::Read | Operation::Write => {
                let (handle, was_open) = self.handle(step.file);
                if !was_open {
                    let took = issued.elapsed();
                    let is_success = handle.is_ok();
                    samples.push(Sample { operation: Operation::Open, late, took, is_success });
                    issued = Instant::now();
                }
                handle.map(Some)
            }
            _ => Ok(None),
        };
        let done = handle.and_then(|handle| self.carry_out(step, number, handle.as_deref()));
        samples.push(Sample { operation: step.operation, late, took: issued.elapsed(), is_success: done.is_ok() });
    }

    /// The handle of a file, and whether it was open.
    fn handle(&self, file: FileNumber) -> (io::Result<Arc<File>>, bool) {
        if let Some(handle) = self.handles.lock().unwrap_or_else(PoisonError::into_inner).get(&file) {
            return (Ok(Arc::clone(handle)), true);
        }
        let opened = OpenOptions::new().read(true).write(true).open(self.tree.path(file)).map(Arc::new);
        if let Ok(handle) = &opened {
            self.handles.lock().unwrap_or_else(PoisonError::into_inner).insert(file, Arc::clone(handle));
        }
        (opened, false)
    }

    fn target(&self, step: &Step) -> io::Result<PathBuf> {
        step.target().map(|file| self.tree.path(file)).ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))
    }

    fn carry_out(&self, step: &Step, number: usize, handle: Option<&File>) -> io::Result<()> {
        let path = self.tree.path(step.file);
        match step.operation {
            Operation::StatFs => rustix::fs::statvfs(self.tree.root()).map(drop).map_err(io::Error::from),
            Operation::Stat => fs::symlink_metadata(path).map(drop),
            Operation::Access => rustix::fs::access(path, rustix::fs::Access::READ_OK).map_err(io::Error::from),
            Operation::Missing => match fs::symlink_metadata(self.tree.missing(number)) {
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
                Ok(_) => Err(io::Error::from(ErrorKind::AlreadyExists)),
            },
            Operation::Open => File::open(path).map(drop),
            Operation::List => fs::read_dir(path)?.try_for_each(|entry| entry.map(drop)),
            Operation::Read => read(handle, step),
            Operation::Write => write(handle, step),
            Operation::Close => {
                drop(self.handles.lock().unwrap_or_else(PoisonError::into_inner).remove(&step.file));
                Ok(())
            }
            Operation::Truncate => OpenOptions::new().write(true).open(path)?.set_len(step.len),
            Operation::Attributes => fs::set_permissions(path, Permissions::from_mode(MODE)),
            Operation::Create => File::create(path).map(drop),
            Operation::Remove => fs::remove_file(path),
            Operation::MakeDirectory => fs::create_dir(path),
            Operation::RemoveDirectory => fs::remove_dir(path),
            Operation::Rename => fs::rename(path, self.target(step)?),
            Operation::Link => fs::hard_link(path, self.target(step)?),
        }
    }
}

/// Reads as much as there is: a trace may read past the end.
fn read(handle: Option<&File>, step: &Step) -> io::Result<()> {
    let mut bytes = vec![0; step.len as usize];
    handle.map_or(Ok(()), |file| file.read_at(&mut bytes, step.offset).map(drop))
}

fn write(handle: Option<&File>, step: &Step) -> io::Result<()> {
    handle.map_or(Ok(()), |file| file.write_all_at(&noise(step.offset, step.len as usize), step.offset))
}

#[cfg(test)]
mod tests {
    use super::super::trace::HEADER;
    use super::*;

    #[test]
    fn all_operations_are_carried_out_at_their_times() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!(
            "{HEADER}\n,file,1,,5000\n,directory,2,,3\n0,statfs,,,\n0,stat,1,,\n0,access,1,,\n0,missing,,,\n0,open,1,,\n0,list,2,,\n\
             0,read,1,0,4096\n20000,write,1,100,50\n30000,close,1,,\n40000,truncate,1,,10\n50000,attributes,1,,\n60000,create,3,,\n60000,rename,3,4,\n\
             60000,link,4,5,\n60000,remove,5,,\n60000,mkdir,6,,\n60000,rmdir,6,,\n80000,remove,4,,\n"
        );
        let trace = Trace::read(&text).unwrap();
        let tree = Tree::new(directory.path());
        tree.make(&trace).unwrap();
        let begin = Instant::now();
        let samples = play(&trace, &tree, 2.0);
        assert!(begin.elapsed() >= Duration::from_millis(40), "{:?}", begin.elapsed());
        let failed: Vec<&Sample> = samples.iter().filter(|sample| !sample.is_success).collect();
        assert!(failed.is_empty(), "{failed:?}");
        // The read opened its handle first.
        assert_eq!(samples.len(), trace.steps.len() + 1);
        assert!(Operation::ALL.iter().all(|operation| samples.iter().any(|sample| sample.operation == *operation)));
        assert_eq!(fs::metadata(tree.path(FileNumber(1))).unwrap().len(), 10);
    }

    #[test]
    fn what_fails_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let trace = Trace::read(&format!("{HEADER}\n,file,1,,5000\n0,read,1,0,10\n")).unwrap();
        let samples = play(&trace, &Tree::new(directory.path()), 1.0);
        assert!(samples.iter().all(|sample| !sample.is_success) && samples.len() == 2);
    }
}
