//! A responder for scrapes: one question, one answer, on loopback.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::debug;

/// Longest time that a scraper has for its whole request, and again for all of the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest request that is read.
const REQUEST_LEN_MAX: usize = 4096;

/// Why metrics cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The address is not loopback: metrics tell names and habits, and nobody is asked who they are.
    #[error("metrics are served on loopback only: use 127.0.0.1:PORT instead of {0}")]
    NotLoopback(SocketAddr),
    /// The port cannot be had.
    #[error("serve metrics on {address}: {source}; choose another port")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// Answers `GET /metrics` until dropped.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens at `address`; `render` makes the text of each answer.
    ///
    /// # Errors
    /// [`MetricsError`].
    pub fn start(address: SocketAddr, render: impl Fn() -> String + Send + 'static) -> Result<Self, MetricsError> {
        if !address.ip().is_loopback() {
            return Err(MetricsError::NotLoopback(address));
        }
        let fail = |source| MetricsError::Bind { address, source };
        let listener = TcpListener::bind(address).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("metrics".into())
            .spawn(move || {
                for stream in listener.incoming() {
                    if stopping.load(Ordering::Acquire) {
                        return;
                    }
                    // Scrapes come one at a time; a second scraper waits its turn, for some patiences at most.
                    if let Err(error) = stream.and_then(|stream| answer(stream, &render)) {
                        debug!(%error, "a scrape failed");
                    }
                }
            })
            .map_err(fail)?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Wakes the thread out of its wait for the next scrape.
        let _ = TcpStream::connect_timeout(&self.address, PATIENCE);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(mut stream: TcpStream, render: &impl Fn() -> String) -> std::io::Result<()> {
    let mut request = [0; REQUEST_LEN_MAX];
    let mut len = 0;
    let started = Instant::now();
    while len < request.len() && !request[..len].windows(4).any(|end| end == b"\r\n\r\n") {
        // For all of it: one byte now and then would hold up every other scraper.
        let left = PATIENCE.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut request[len..])? {
            0 => break,
            more => len += more,
        }
    }
    let wanted = request.starts_with(b"GET /metrics ") || request.starts_with(b"GET / ");
    let (status, body) = match (is_for_here(&request[..len]), wanted) {
        (false, _) => ("403 Forbidden", "ask by a loopback address or as localhost\n".to_owned()),
        (true, true) => ("200 OK", render()),
        (true, false) => ("404 Not Found", "see /metrics\n".to_owned()),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    send(&mut stream, answer.as_bytes())
}

/// Sends all of an answer within [`PATIENCE`], however little the scraper takes at a time.
fn send(stream: &mut TcpStream, mut answer: &[u8]) -> std::io::Result<()> {
    let started = Instant::now();
    while !answer.is_empty() {
        let left = PATIENCE.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(answer)? {
            0 => return Err(std::io::ErrorKind::WriteZero.into()),
            taken => answer = &answer[taken..],
        }
    }
    Ok(())
}

/// Whether a request names this machine by a loopback address, as `localhost`, or not at all. A page of the web that was
/// told that its own name is 127.0.0.1 asks by that name, and must not read metrics.
fn is_for_here(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let mut hosts = text.split("\r\n").skip(1).filter_map(|line| {
        let (field, value) = line.split_once(':')?;
        field.trim().eq_ignore_ascii_case("host").then(|| value.trim().to_owned())
    });
    hosts.all(|host| {
        let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let name = name.map_or(host.as_str(), |(name, _)| name);
        let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_gets_the_text_and_others_do_not() {
        let server = MetricsServer::start("127.0.0.1:0".parse().unwrap(), || "wayfs_up 1\n".into()).unwrap();
        let ask_at = |host: &str, path: &str| {
            let mut stream = TcpStream::connect_timeout(&server.address(), PATIENCE).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        };
        let ask = |path: &str| ask_at("127.0.0.1:9100", path);
        assert!(ask("/metrics").ends_with("\r\n\r\nwayfs_up 1\n"));
        assert!(ask("/secret").starts_with("HTTP/1.1 404"));
        for host in ["localhost", "LOCALHOST:80", "[::1]:9100", "127.8.8.8"] {
            assert!(ask_at(host, "/metrics").starts_with("HTTP/1.1 200"), "{host}");
        }
        for host in ["example.org", "127.0.0.1.example.org:9100", "10.0.0.1", ""] {
            let answer = ask_at(host, "/metrics");
            assert!(answer.starts_with("HTTP/1.1 403") && !answer.contains("wayfs_up"), "{host}");
        }
    }

    /// A reader that takes a little now and then, so that no single write waits for long.
    #[test]
    fn a_scraper_that_reads_slowly_holds_nobody_up_for_long() {
        let body = "x".repeat(64 << 20);
        let server = MetricsServer::start("127.0.0.1:0".parse().unwrap(), move || body.clone()).unwrap();
        let ask = || {
            let mut stream = TcpStream::connect_timeout(&server.address(), PATIENCE).unwrap();
            write!(stream, "GET /metrics HTTP/1.1\r\n\r\n").unwrap();
            stream
        };
        let mut slow = ask();
        let mut next = ask();
        let (mut part, mut taken) = (vec![0; 64 << 10], 0);
        // The next is answered while the slow one still takes part after part: fewer than the answer has.
        next.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        while next.read(&mut [0; 1]).is_err() {
            taken += slow.read(&mut part).unwrap_or(0);
            assert!(taken < 8 << 20, "the slow one holds the next up for as long as it likes");
        }
    }

    #[test]
    fn other_addresses_are_refused() {
        let error = MetricsServer::start("0.0.0.0:0".parse().unwrap(), String::new).unwrap_err();
        assert!(matches!(error, MetricsError::NotLoopback(_)));
    }
}
