use super::*;
use std::sync::atomic::AtomicUsize;
use std::thread::ThreadId;
use std::time::Duration;

/// Polled by whom, and how often.
#[derive(Default)]
struct Log {
    polls: AtomicUsize,
    last: Mutex<Option<ThreadId>>,
    waker: Mutex<Option<Waker>>,
    ends_at: usize,
}

impl Log {
    fn wake(&self) {
        let waker = self.waker.lock().unwrap().clone();
        waker.expect("it was polled").wake();
    }

    fn polls(&self) -> usize {
        self.polls.load(Ordering::SeqCst)
    }

    fn wait_for(&self, polls: usize) {
        let end = Instant::now() + Duration::from_secs(20);
        while self.polls() < polls {
            assert!(Instant::now() < end, "polled {} times, not {polls}", self.polls());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

struct Logged(Arc<Log>);

impl Future for Logged {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        *self.0.waker.lock().unwrap() = Some(cx.waker().clone());
        *self.0.last.lock().unwrap() = Some(std::thread::current().id());
        let polls = self.0.polls.fetch_add(1, Ordering::SeqCst) + 1;
        if polls == self.0.ends_at { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// A runtime with the endpoint's driver spawned already, and a connection's that ends at a poll.
fn driven(ends_at: usize) -> (tokio::runtime::Runtime, Arc<Log>) {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let runtime = SharedRuntime::new(tokio.handle().clone());
    runtime.spawn(Box::pin(std::future::ready(())));
    let log = Arc::new(Log { ends_at, ..Log::default() });
    runtime.spawn(Box::pin(Logged(Arc::clone(&log))));
    log.wait_for(1);
    (tokio, log)
}

#[test]
fn who_holds_it_drives_when_the_outermost_is_dropped() {
    let (_tokio, log) = driven(usize::MAX);
    let outer = SendHere::begin();
    let inner = SendHere::begin();
    log.wake();
    log.wake();
    drop(inner);
    assert_eq!(log.polls(), 1);
    drop(outer);
    assert_eq!(log.polls(), 2, "once, however often it was woken");
    assert_eq!(*log.last.lock().unwrap(), Some(std::thread::current().id()));
    assert!(!SendHere::is_held());
}

#[test]
fn who_does_not_leaves_it_to_the_task() {
    let (_tokio, log) = driven(usize::MAX);
    log.wake();
    log.wait_for(2);
    assert_ne!(*log.last.lock().unwrap(), Some(std::thread::current().id()));
}

#[test]
fn a_connection_that_ends_here_ends_for_the_task() {
    let (tokio, log) = driven(2);
    let here = SendHere::begin();
    log.wake();
    drop(here);
    assert_eq!(log.polls(), 2);
    // Would be polled again otherwise, which a future that is done may answer by a panic.
    log.wake();
    let end = Instant::now() + Duration::from_secs(20);
    while tokio.metrics().num_alive_tasks() > 0 {
        assert!(Instant::now() < end, "the task lives on");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(log.polls(), 2);
}

#[test]
fn no_wake_is_lost_between_many_threads() {
    let (_tokio, log) = driven(usize::MAX);
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let log = Arc::clone(&log);
            std::thread::spawn(move || {
                for _ in 0..2000 {
                    let here = (number % 2 == 0).then(SendHere::begin);
                    log.wake();
                    drop(here);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    // Whatever was under way: a wake that comes now is answered by a poll after it.
    let before = log.polls();
    log.wake();
    log.wait_for(before + 1);
}

#[test]
fn a_runtime_that_ends_lets_go_of_connections_that_are_not_over() {
    let (tokio, log) = driven(usize::MAX);
    assert_eq!(Arc::strong_count(&log), 2, "the driver's future has the other");
    drop(tokio);
    assert_eq!(Arc::strong_count(&log), 1, "its socket would stay open");
}
