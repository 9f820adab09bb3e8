//! Sessions against a packet socket that plays the kernel.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::*;
use crate::decode::tests::message;
use crate::{Inode, Operation, Unique};

const WAIT: Duration = Duration::from_secs(5);

/// The kernel's end.
struct Kernel {
    socket: OwnedFd,
}

impl Kernel {
    fn send(&self, unique: u64, opcode: u32, body: &[u8]) {
        let mut bytes = message(opcode, body);
        bytes[8..16].copy_from_slice(&unique.to_ne_bytes());
        rustix::net::send(&self.socket, &bytes, SendFlags::empty()).unwrap();
    }

    /// The next answer: number, error, rest.
    fn receive(&self) -> (u64, i32, Vec<u8>) {
        let mut fds = [rustix::event::PollFd::new(&self.socket, rustix::event::PollFlags::IN)];
        let timeout = rustix::event::Timespec { tv_sec: 5, tv_nsec: 0 };
        assert_eq!(rustix::event::poll(&mut fds, Some(&timeout)).unwrap(), 1, "an answer within five seconds");
        let mut bytes = vec![0; 4096];
        let (len, _) = rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::empty()).unwrap();
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(word(0), u32::try_from(len).unwrap());
        let unique = u64::from_ne_bytes(bytes[8..16].try_into().unwrap());
        (unique, word(4).cast_signed(), bytes[16..len].to_vec())
    }
}

/// Passes everything on to the test.
struct Recorder {
    requests: Mutex<Sender<(Request, Reply)>>,
    events: Mutex<Sender<String>>,
}

impl Handler for Recorder {
    fn handle(&self, request: Request, reply: Reply) {
        self.requests.lock().unwrap().send((request, reply)).unwrap();
    }

    fn forget(&self, inode: Inode, lookups: u64) {
        self.events.lock().unwrap().send(format!("forget {inode} {lookups}")).unwrap();
    }

    fn interrupted(&self, unique: Unique) {
        self.events.lock().unwrap().send(format!("interrupted {unique}")).unwrap();
    }

    fn destroy(&self) {
        let _ = self.events.lock().unwrap().send("destroy".to_owned());
    }
}

struct Stage {
    kernel: Kernel,
    session: BackgroundSession,
    requests: Receiver<(Request, Reply)>,
    events: Receiver<String>,
}

fn socket_pair() -> (OwnedFd, OwnedFd) {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

fn init_body() -> Vec<u8> {
    [7_u32, 45, 1 << 17, u32::MAX, u32::MAX].iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn stage(threads: usize) -> Stage {
    let (ours, theirs) = socket_pair();
    let kernel = Kernel { socket: theirs };
    kernel.send(2, opcode::INIT, &init_body());
    let (request_sender, requests) = channel();
    let (event_sender, events) = channel();
    let handler = Recorder { requests: Mutex::new(request_sender), events: Mutex::new(event_sender) };
    let config = Config { clone_device: false, ..Config::default() };
    let session = Session::from_fd(ours, config).spawn(Arc::new(handler), threads).unwrap();
    let (unique, error, body) = kernel.receive();
    assert_eq!((unique, error, body.len()), (2, 0, 64));
    Stage { kernel, session, requests, events }
}

impl Stage {
    fn finish(self) {
        drop(self.kernel);
        self.session.join().unwrap();
        assert_eq!(self.events.try_iter().last().as_deref(), Some("destroy"));
    }
}

#[test]
fn a_request_is_answered_from_another_thread() {
    let stage = stage(1);
    stage.kernel.send(4, opcode::LOOKUP, b"name\0");
    let (request, reply) = stage.requests.recv_timeout(WAIT).unwrap();
    assert_eq!(request.operation(), Operation::Lookup { name: "name".as_ref() });
    assert_eq!((request.unique(), reply.unique()), (Unique::new(4), Unique::new(4)));
    // The reader is free meanwhile.
    stage.kernel.send(6, opcode::STATFS, &[]);
    let (_, second) = stage.requests.recv_timeout(WAIT).unwrap();
    second.ok();
    assert_eq!(stage.kernel.receive(), (6, 0, vec![]));
    let answering = thread::spawn(move || reply.error(Errno::NOENT));
    assert_eq!(stage.kernel.receive(), (4, -libc::ENOENT, vec![]));
    answering.join().unwrap();
    stage.finish();
}

#[test]
fn a_dropped_reply_answers_eio() {
    let stage = stage(1);
    stage.kernel.send(4, opcode::READLINK, &[]);
    drop(stage.requests.recv_timeout(WAIT).unwrap());
    assert_eq!(stage.kernel.receive(), (4, -libc::EIO, vec![]));
    stage.finish();
}

#[test]
fn what_does_not_decode_answers_eio() {
    let stage = stage(1);
    stage.kernel.send(4, opcode::LOOKUP, b"no end");
    assert_eq!(stage.kernel.receive(), (4, -libc::EIO, vec![]));
    rustix::net::send(&stage.kernel.socket, b"rubbish", SendFlags::empty()).unwrap();
    stage.kernel.send(6, opcode::INIT, &init_body());
    assert_eq!(stage.kernel.receive(), (6, -libc::EIO, vec![]));
    stage.finish();
}

#[test]
fn an_interrupt_reaches_request_and_handler() {
    let stage = stage(1);
    stage.kernel.send(4, opcode::STATFS, &[]);
    let (request, reply) = stage.requests.recv_timeout(WAIT).unwrap();
    assert!(!request.is_interrupted());
    stage.kernel.send(5, opcode::INTERRUPT, &4_u64.to_ne_bytes());
    assert_eq!(stage.events.recv_timeout(WAIT).unwrap(), "interrupted 4");
    assert!(request.is_interrupted());
    reply.error(Errno::INTR);
    assert_eq!(stage.kernel.receive(), (4, -libc::EINTR, vec![]));
    stage.finish();
}

#[test]
fn an_interrupt_before_its_request_is_kept_for_it() {
    let stage = stage(1);
    stage.kernel.send(5, opcode::INTERRUPT, &4_u64.to_ne_bytes());
    stage.kernel.send(4, opcode::STATFS, &[]);
    let (request, reply) = stage.requests.recv_timeout(WAIT).unwrap();
    assert!(request.is_interrupted());
    reply.error(Errno::INTR);
    assert_eq!(stage.kernel.receive().1, -libc::EINTR);
    stage.finish();
}

#[test]
fn forgets_are_told_and_not_answered() {
    let stage = stage(2);
    stage.kernel.send(4, opcode::FORGET, &3_u64.to_ne_bytes());
    assert_eq!(stage.events.recv_timeout(WAIT).unwrap(), "forget 7 3");
    stage.kernel.send(6, opcode::DESTROY, &[]);
    assert_eq!(stage.kernel.receive(), (6, 0, vec![]));
    stage.finish();
}

#[test]
fn answers_keep_to_the_room_that_the_caller_has() {
    let stage = stage(1);
    let ask = |unique, size: u32| {
        let mut body = [size, 0].iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        body.extend_from_slice(b"user.x\0");
        stage.kernel.send(unique, opcode::GETXATTR, &body);
        stage.requests.recv_timeout(WAIT).unwrap().1
    };
    ask(4, 0).xattr(b"value");
    assert_eq!(stage.kernel.receive(), (4, 0, vec![5, 0, 0, 0, 0, 0, 0, 0]));
    ask(6, 4).xattr(b"value");
    assert_eq!(stage.kernel.receive(), (6, -libc::ERANGE, vec![]));
    ask(8, 5).xattr(b"value");
    assert_eq!(stage.kernel.receive(), (8, 0, b"value".to_vec()));

    let mut read = [1_u64, 0].iter().flat_map(|long| long.to_ne_bytes()).collect::<Vec<u8>>();
    read.extend([3_u32, 0, 0, 0, 0, 0].iter().flat_map(|word| word.to_ne_bytes()));
    stage.kernel.send(10, opcode::READ, &read);
    stage.requests.recv_timeout(WAIT).unwrap().1.data_in_two(b"ab", b"cdef");
    assert_eq!(stage.kernel.receive(), (10, 0, b"abc".to_vec()));
    stage.finish();
}

#[test]
fn large_writes_arrive_whole() {
    let stage = stage(1);
    let data = vec![7_u8; 100_000];
    let mut body = [1_u64, 0].iter().flat_map(|long| long.to_ne_bytes()).collect::<Vec<u8>>();
    body.extend([100_000_u32, 0, 0, 0, 0, 0].iter().flat_map(|word| word.to_ne_bytes()));
    body.extend_from_slice(&data);
    stage.kernel.send(4, opcode::WRITE, &body);
    let (request, reply) = stage.requests.recv_timeout(WAIT).unwrap();
    let Operation::Write { data: received, .. } = request.operation() else { panic!("a write") };
    assert_eq!(received, data);
    reply.written(100_000);
    assert_eq!(stage.kernel.receive().1, 0);
    stage.finish();
}

#[test]
fn notifications_are_laid_out_as_the_kernel_reads_them() {
    let stage = stage(1);
    let notifier = stage.session.notifier();
    notifier.inval_entry(Inode::ROOT, "ab".as_ref()).unwrap();
    let (unique, code, body) = stage.kernel.receive();
    assert_eq!((unique, code), (0, uapi::notify::INVAL_ENTRY));
    assert_eq!(body[8..12], 2_u32.to_ne_bytes());
    assert_eq!(&body[16..], b"ab\0");
    notifier.inval_inode(Inode::new(5), 0, -1).unwrap();
    let (_, code, body) = stage.kernel.receive();
    assert_eq!((code, body.len()), (uapi::notify::INVAL_INODE, 24));
    notifier.delete(Inode::ROOT, Inode::new(5), "ab".as_ref()).unwrap();
    let (_, code, body) = stage.kernel.receive();
    assert_eq!((code, &body[24..]), (uapi::notify::DELETE, &b"ab\0"[..]));
    let long = "x".repeat(2000);
    assert!(matches!(notifier.inval_entry(Inode::ROOT, long.as_ref()), Err(crate::NotifyError::NameTooLong)));
    stage.finish();
    assert!(matches!(notifier.expire_all_entries(), Err(crate::NotifyError::Unmounted)));
}

#[test]
fn an_old_kernel_is_refused_with_its_version() {
    let (ours, theirs) = socket_pair();
    let kernel = Kernel { socket: theirs };
    let body: Vec<u8> = [7_u32, 19, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
    kernel.send(2, opcode::INIT, &body);
    struct Nothing;
    impl Handler for Nothing {
        fn handle(&self, _request: Request, _reply: Reply) {}
    }
    let result = Session::from_fd(ours, Config::default()).spawn(Arc::new(Nothing), 1);
    assert!(matches!(result, Err(SessionError::Init(InitError::Version { major: 7, minor: 19 }))));
    assert_eq!(kernel.receive().1, -libc::EPROTO);
}
