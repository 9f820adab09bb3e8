//! A server in memory on loopback, over UDP and TCP, and a mount of it.

#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use wayfs_control::Registry;
use wayfs_nfs::toy::Toy;
use wayfs_nfs::{Records, framed};
use wayfs_nfsmount::{NfsEnded, NfsMount, NfsMountConfig, NfsMountError, NfsStopper, Settings};

/// What becomes of a message of the server, before it leaves.
pub(crate) type Spoil = Box<dyn FnMut(Vec<u8>) -> Vec<Vec<u8>> + Send>;

/// A server.
pub(crate) struct Host {
    toy: Arc<Mutex<Toy>>,
    pub(crate) port: u16,
    is_silent: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    spoil: Arc<Mutex<Option<Spoil>>>,
}

impl Host {
    pub(crate) fn start() -> Self {
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = udp.local_addr().unwrap().port();
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        let mut toy = Toy::default();
        toy.port = port;
        let host = Self {
            toy: Arc::new(Mutex::new(toy)),
            port,
            is_silent: Arc::default(),
            is_over: Arc::default(),
            spoil: Arc::default(),
        };
        host.serve_datagrams(udp);
        host.serve_streams(tcp);
        host
    }

    pub(crate) fn toy(&self) -> MutexGuard<'_, Toy> {
        self.toy.lock().unwrap()
    }

    /// Whether it takes what comes and says nothing.
    pub(crate) fn silence(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::SeqCst);
    }

    pub(crate) fn spoil(&self, spoil: Spoil) {
        *self.spoil.lock().unwrap() = Some(spoil);
    }

    fn answerer(&self) -> impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send + 'static {
        let (toy, silent, spoil) = (Arc::clone(&self.toy), Arc::clone(&self.is_silent), Arc::clone(&self.spoil));
        move |message| {
            if silent.load(Ordering::SeqCst) {
                return Vec::new();
            }
            let answer = toy.lock().unwrap().handle(message);
            match (answer, spoil.lock().unwrap().as_mut()) {
                (None, _) => Vec::new(),
                (Some(answer), None) => vec![answer],
                (Some(answer), Some(spoil)) => spoil(answer),
            }
        }
    }

    fn serve_datagrams(&self, socket: UdpSocket) {
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let (over, mut answer) = (Arc::clone(&self.is_over), self.answerer());
        std::thread::spawn(move || {
            let mut buffer = vec![0; 70_000];
            while !over.load(Ordering::SeqCst) {
                let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
                for message in answer(&buffer[..len]) {
                    let _ = socket.send_to(&message, from);
                }
            }
        });
    }

    fn serve_streams(&self, listener: TcpListener) {
        listener.set_nonblocking(true).unwrap();
        let (over, silent, spoil, toy) =
            (Arc::clone(&self.is_over), Arc::clone(&self.is_silent), Arc::clone(&self.spoil), Arc::clone(&self.toy));
        let host = Self { toy, port: self.port, is_silent: silent, is_over: Arc::clone(&over), spoil };
        std::thread::spawn(move || {
            while !over.load(Ordering::SeqCst) {
                let Ok((mut stream, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(10));
                    continue;
                };
                let (over, mut answer) = (Arc::clone(&over), host.answerer());
                std::thread::spawn(move || {
                    stream.set_nonblocking(false).unwrap();
                    stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
                    let (mut records, mut buffer) = (Records::default(), vec![0; 70_000]);
                    while !over.load(Ordering::SeqCst) {
                        match stream.read(&mut buffer) {
                            Ok(0) => return,
                            Ok(len) => records.push(&buffer[..len]),
                            Err(_) => continue,
                        }
                        while let Ok(Some(message)) = records.poll() {
                            for message in answer(&message) {
                                let _ = stream.write_all(&framed(&message));
                            }
                        }
                    }
                });
            }
            // The copy must not end what the original serves.
            std::mem::forget(host);
        });
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

/// A mount of a server, and the thread that runs it.
pub(crate) struct Mounted {
    pub(crate) stopper: NfsStopper,
    thread: Option<std::thread::JoinHandle<NfsEnded>>,
    directory: tempfile::TempDir,
}

/// Longest life of a mount.
const LONGEST: Duration = Duration::from_secs(90);

/// Whether this machine lets us mount.
pub(crate) fn may_mount() -> bool {
    let may = Path::new("/dev/fuse").exists();
    if !may {
        eprintln!("skipped: no /dev/fuse");
    }
    may
}

impl Mounted {
    pub(crate) fn new(host: &Host, options: &str) -> Self {
        Self::try_new(host.port, options).unwrap()
    }

    pub(crate) fn try_new(port: u16, options: &str) -> Result<Self, NfsMountError> {
        let directory = tempfile::tempdir().unwrap();
        let point = directory.path().join("mount");
        std::fs::create_dir(&point).unwrap();
        let fixed = format!("port={port},mountport={port},{options}");
        let config = NfsMountConfig {
            server: IpAddr::V4(Ipv4Addr::LOCALHOST),
            host: "toy".into(),
            port: None,
            export: "/".into(),
            mountpoint: point,
            settings: Settings::parse(fixed.split(',')).unwrap(),
            registry: Registry::at(directory.path().join("run")),
            control_socket: directory.path().join("control.sock"),
        };
        let mount = NfsMount::start(config)?;
        let stopper = mount.stopper();
        let thread = Some(std::thread::spawn(move || mount.run()));
        // Whatever goes wrong, no test waits for a file for ever.
        let late = stopper.clone();
        std::thread::spawn(move || {
            std::thread::sleep(LONGEST);
            let _ = late.stop(wayfs_fuse::UmountMode::Force);
        });
        Ok(Self { stopper, thread, directory })
    }

    /// A path below the mount point.
    pub(crate) fn at(&self, path: &str) -> std::path::PathBuf {
        self.directory.path().join("mount").join(path)
    }

    pub(crate) fn control(&self) -> std::path::PathBuf {
        self.directory.path().join("control.sock")
    }

    /// Ends it, in a bounded time.
    pub(crate) fn end(mut self, mode: wayfs_fuse::UmountMode) -> NfsEnded {
        // The kernel lets go of closed files a little later.
        within("it can be unmounted", || self.stopper.stop(mode).is_ok());
        self.wait()
    }

    fn wait(&mut self) -> NfsEnded {
        let thread = self.thread.take().unwrap();
        within("the mount ends", || thread.is_finished());
        thread.join().unwrap()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.thread.is_some() {
            let _ = self.stopper.stop(wayfs_fuse::UmountMode::Force);
            let _ = self.wait();
        }
    }
}

/// Waits until something is so, or panics after half a minute.
pub(crate) fn within(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An address where nobody is.
pub(crate) fn nobody() -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.local_addr().unwrap()
}
