use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use rustix::fs::FlockOperation;
use wayfs_fuse::{
    Attributes, Config, Entry, Errno, FileHandle, Handler, Inode, OpenFlags, Opened, Operation, Reply, Request,
    Timestamp, UmountMode, Unique,
};

use crate::stage::{Plan, stage, stage_with};

/// One file, `stuck`, whose reads are answered only when their caller gives up.
#[derive(Default)]
struct Stuck {
    waiting: Mutex<BTreeMap<Unique, Reply>>,
}

fn attributes(inode: Inode) -> Attributes {
    let time = Timestamp::default();
    let directory = inode == Inode::ROOT;
    Attributes {
        inode,
        size: 1000,
        blocks: 2,
        atime: time,
        mtime: time,
        ctime: time,
        btime: None,
        mode: if directory { libc::S_IFDIR | 0o755 } else { libc::S_IFREG | 0o644 },
        links: 1,
        uid: 0,
        gid: 0,
        device: 0,
        block_size: 4096,
    }
}

impl Handler for Stuck {
    fn handle(&self, request: Request, reply: Reply) {
        if let Operation::Read { .. } = request.operation() {
            let unique = request.unique();
            self.waiting.lock().unwrap().insert(unique, reply);
            if request.is_interrupted() {
                self.interrupted(unique);
            }
            return;
        }
        let ttl = Duration::from_secs(60);
        let inode = Inode::new(2);
        match request.operation() {
            Operation::Lookup { .. } => reply.entry(&Entry {
                inode,
                generation: 0,
                entry_ttl: ttl,
                attributes_ttl: ttl,
                attributes: attributes(inode),
            }),
            Operation::GetAttributes { .. } => reply.attributes(&attributes(request.inode()), ttl),
            Operation::Open { .. } => reply.opened(&Opened::new(FileHandle::new(0), OpenFlags::DIRECT_IO)),
            Operation::Flush { .. } | Operation::Release { .. } => reply.ok(),
            _ => reply.error(Errno::NOSYS),
        };
    }

    fn interrupted(&self, unique: Unique) {
        let reply = self.waiting.lock().unwrap().remove(&unique);
        if let Some(reply) = reply {
            reply.error(Errno::INTR);
        }
    }
}

extern "C" fn do_nothing(_signal: libc::c_int) {}

/// A signal handler without SA_RESTART, so that the interrupted call comes back.
fn catch_signal() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: an all-zero sigaction is valid; the handler does nothing and is async-signal-safe.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = do_nothing as extern "C" fn(libc::c_int) as usize;
            assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
        }
    });
}

/// Runs `call` in a thread, signals that thread until it comes back, and returns what it returned.
fn interrupt<T: Send>(call: impl FnOnce() -> T + Send) -> T {
    catch_signal();
    let thread_id = Arc::new(AtomicI32::new(0));
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        let id = Arc::clone(&thread_id);
        scope.spawn(move || {
            id.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::SeqCst);
            let _ = sender.send(call());
        });
        for _ in 0..100 {
            match receiver.recv_timeout(Duration::from_millis(100)) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("the call panicked"),
            }
            let id = thread_id.load(Ordering::SeqCst);
            if id != 0 {
                // SAFETY: signals a thread of this process, for which a handler is installed.
                unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, libc::SIGUSR1) };
            }
        }
        panic!("a signal does not get the call back");
    })
}

#[test]
fn a_signal_ends_a_stuck_read() {
    let Some(stage) = stage_with(Arc::new(Stuck::default()), Config::default()) else { return };
    let file = File::open(stage.at("stuck")).unwrap();
    let error = interrupt(|| (&file).read(&mut [0; 10]).unwrap_err());
    assert_eq!(error.raw_os_error(), Some(libc::EINTR));
    drop(file);
    stage.finish();
}

#[test]
fn a_signal_ends_the_wait_for_a_lock() {
    let Some(stage) = stage(Plan::default()) else { return };
    fs::write(stage.at("file"), "x").unwrap();
    let holder = File::open(stage.at("file")).unwrap();
    let waiter = File::open(stage.at("file")).unwrap();
    rustix::fs::flock(&holder, FlockOperation::LockExclusive).unwrap();
    let result = interrupt(|| rustix::fs::flock(&waiter, FlockOperation::LockExclusive));
    assert_eq!(result, Err(rustix::io::Errno::INTR));
    drop(holder);
    // The kernel tells of a close after it returned, so the lock is free a moment later.
    let is_free = || rustix::fs::flock(&waiter, FlockOperation::NonBlockingLockExclusive).is_ok();
    let freed = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        is_free()
    });
    assert!(freed, "the lock goes with its holder");
    drop(waiter);
    stage.finish();
}

#[test]
fn a_killed_process_does_not_stay() {
    let Some(stage) = stage_with(Arc::new(Stuck::default()), Config::default()) else { return };
    let path: PathBuf = stage.at("stuck");
    let mut child = std::process::Command::new("cat").arg(path).stdout(std::process::Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    child.kill().unwrap();
    for _ in 0..250 {
        if child.try_wait().unwrap().is_some() {
            return stage.finish();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the process hangs in the mount");
}

#[test]
fn a_forced_umount_frees_who_waits() {
    let Some(stage) = stage_with(Arc::new(Stuck::default()), Config::default()) else { return };
    let file = File::open(stage.at("stuck")).unwrap();
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        let file = &file;
        scope.spawn(move || sender.send((&*file).read(&mut [0; 10]).unwrap_err().raw_os_error()));
        assert!(receiver.recv_timeout(Duration::from_millis(200)).is_err(), "waits");
        stage.session().umount(UmountMode::Force).unwrap();
        let code = receiver.recv_timeout(Duration::from_secs(5)).expect("is freed");
        assert!(matches!(code, Some(libc::ECONNABORTED | libc::ENOTCONN | libc::EIO)), "{code:?}");
    });
    drop(file);
    stage.finish();
}

#[test]
fn killed_in_the_middle_of_work_nothing_stays_behind() {
    let Some(stage) = stage(Plan::default()) else {
        return;
    };
    let script = "i=0; while :; do i=$((i+1)); echo x > f$i; cat f$i > /dev/null; mv f$i g; ls > /dev/null; done";
    for round in 0..10_u64 {
        let mut child =
            std::process::Command::new("sh").args(["-c", script]).current_dir(stage.point()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(20 + 7 * round));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // A grandchild may be finishing its last command.
    for _ in 0..200 {
        if stage.session().umount(UmountMode::Orderly).is_ok() {
            return stage.finish();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the mount stays in use");
}
