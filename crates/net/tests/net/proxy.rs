//! A UDP path with faults: loss, delay, a bottleneck with a deep queue, and outages.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;

/// One way, until it is changed.
const DELAY: Duration = Duration::from_millis(5);
/// Packets that the path holds; what comes on top is lost, as on a real one.
const QUEUE_LEN_MAX: usize = 2000;

/// Forwards between whoever sent last and one server.
pub(crate) struct Proxy {
    addr: SocketAddr,
    faults: Arc<Faults>,
    back: Back,
    down: mpsc::Sender<Packet>,
    tasks: Vec<tokio::task::AbortHandle>,
}

/// The socket that the server sees, which changes when the client roams.
type Back = Arc<Mutex<Arc<UdpSocket>>>;

#[derive(Default)]
struct Faults {
    dead: AtomicBool,
    loss_permille: AtomicU32,
    /// Bytes per second of each way; zero is no limit.
    rate: AtomicU32,
    /// Milliseconds of each way on top of [`DELAY`].
    delay_more_ms: AtomicU32,
    /// Bytes on the way to the server that are in the queue.
    standing: AtomicUsize,
    /// A fixed sequence: the same losses in each run, as far as the packets are the same.
    random: AtomicU32,
}

impl Faults {
    fn drops(&self) -> bool {
        let next = |n: u32| Some(n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
        let random = self.random.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap();
        self.dead.load(Ordering::Relaxed) || (random >> 8) % 1000 < self.loss_permille.load(Ordering::Relaxed)
    }
}

impl Faults {
    fn time_on_the_line(&self, len: usize) -> Duration {
        match self.rate.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            rate => Duration::from_secs_f64(len as f64 / f64::from(rate)),
        }
    }
}

impl Proxy {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let front = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let addr = front.local_addr().unwrap();
        let out = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let back = Arc::new(Mutex::new(out.clone()));
        let client = Arc::new(Mutex::new(None));
        let faults = Arc::new(Faults::default());
        let (up, up_queue) = mpsc::channel(QUEUE_LEN_MAX);
        let (down, down_queue) = mpsc::channel(QUEUE_LEN_MAX);
        let server_known = Arc::new(Mutex::new(Some(server)));
        let front_fixed = Arc::new(Mutex::new(front.clone()));
        let tasks = vec![
            tokio::spawn(read(front, Some(client.clone()), faults.clone(), up)),
            tokio::spawn(write(back.clone(), server_known, up_queue, Some(faults.clone()))),
            tokio::spawn(read(out, None, faults.clone(), down.clone())),
            tokio::spawn(write(front_fixed, client, down_queue, None)),
        ];
        let tasks = tasks.into_iter().map(|task| task.abort_handle()).collect();
        Self { addr, faults, back, down, tasks }
    }

    /// The client appears at another address; what is sent to the old one is lost.
    pub(crate) async fn roam(&mut self) {
        let out = Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        *self.back.lock().await = out.clone();
        let reader = tokio::spawn(read(out, None, self.faults.clone(), self.down.clone()));
        self.tasks.push(reader.abort_handle());
        self.tasks[2].abort();
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) fn cut(&self) {
        self.faults.dead.store(true, Ordering::Relaxed);
    }

    pub(crate) fn mend(&self) {
        self.faults.dead.store(false, Ordering::Relaxed);
    }

    pub(crate) fn limit(&self, bytes_per_second: u32) {
        self.faults.rate.store(bytes_per_second, Ordering::Relaxed);
    }

    /// From now on each way takes so much longer.
    pub(crate) fn lengthen(&self, ms: u32) {
        self.faults.delay_more_ms.store(ms, Ordering::Relaxed);
    }

    /// Bytes that stand before what is sent to the server now.
    pub(crate) fn standing(&self) -> usize {
        self.faults.standing.load(Ordering::Relaxed)
    }

    pub(crate) fn lose(&self, permille: u32) {
        self.faults.loss_permille.store(permille, Ordering::Relaxed);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::AbortHandle::abort);
    }
}

type Peer = Arc<Mutex<Option<SocketAddr>>>;
type Packet = (Instant, Vec<u8>);

async fn read(socket: Arc<UdpSocket>, sender: Option<Peer>, faults: Arc<Faults>, queue: mpsc::Sender<Packet>) {
    let mut buffer = vec![0; 65_536];
    let mut line_free = Instant::now();
    loop {
        let Ok((len, from)) = socket.recv_from(&mut buffer).await else { continue };
        if let Some(sender) = &sender {
            *sender.lock().await = Some(from);
        }
        if faults.drops() {
            continue;
        }
        line_free = line_free.max(Instant::now()) + faults.time_on_the_line(len);
        let delay = DELAY + Duration::from_millis(faults.delay_more_ms.load(Ordering::Relaxed).into());
        let queued = queue.try_send((line_free + delay, buffer[..len].to_vec()));
        if sender.is_some() && queued.is_ok() {
            faults.standing.fetch_add(len, Ordering::Relaxed);
        }
    }
}

async fn write(socket: Back, to: Peer, mut queue: mpsc::Receiver<Packet>, counts: Option<Arc<Faults>>) {
    while let Some((due, packet)) = queue.recv().await {
        tokio::time::sleep_until(due).await;
        if let Some(faults) = &counts {
            faults.standing.fetch_sub(packet.len(), Ordering::Relaxed);
        }
        let to = *to.lock().await;
        let socket = socket.lock().await.clone();
        if let Some(to) = to {
            let _ = socket.send_to(&packet, to).await;
        }
    }
}
