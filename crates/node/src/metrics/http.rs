//! A responder for scrapes: one question, one answer, on loopback.

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;
use tracing::debug;

/// Longest time that a scraper has for its headers, and for the whole scrape.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest request that is read: the least that the library takes.
const REQUEST_LEN_MAX: usize = 8192;
/// Most scrapes at once, each of which holds one text; others wait their turn, one patience at most.
const SCRAPES_MAX: usize = 8;
/// How long nothing is accepted after an error, which is of the process (descriptors, memory) and would come again at once.
const PAUSE: Duration = Duration::from_millis(100);

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
    /// Ends the thread when it is dropped.
    stop: Option<oneshot::Sender<Infallible>>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens at `address`; `render` makes the text of each answer.
    ///
    /// # Errors
    /// [`MetricsError`].
    pub fn start(
        address: SocketAddr,
        render: impl Fn() -> String + Send + Sync + 'static,
    ) -> Result<Self, MetricsError> {
        if !address.ip().is_loopback() {
            return Err(MetricsError::NotLoopback(address));
        }
        let fail = |source| MetricsError::Bind { address, source };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fail)?;
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("metrics".into())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(&listener, Arc::new(render)) => {}
                        _ = stopped => {}
                    }
                });
            })
            .map_err(fail)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept<F: Fn() -> String + Send + Sync + 'static>(listener: &TcpListener, render: Arc<F>) {
    let places = Arc::new(Semaphore::new(SCRAPES_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let render = Arc::clone(&render);
                tokio::spawn(async move {
                    // For all of it: who reads one byte now and then holds a place for no longer.
                    match timeout(PATIENCE, serve(stream, &*render)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => debug!(%error, "a scrape failed"),
                        Err(_) => debug!("a scrape took too long"),
                    }
                    drop(place);
                });
            }
            Err(error) => {
                debug!(%error, "a scrape was not accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// One question and its answer.
async fn serve(stream: TcpStream, render: &impl Fn() -> String) -> hyper::Result<()> {
    let service = service_fn(async |request: Request<Incoming>| Ok::<_, Infallible>(answer(&request, render)));
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .keep_alive(false)
        .max_buf_size(REQUEST_LEN_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn answer(request: &Request<Incoming>, render: &impl Fn() -> String) -> Response<Full<Bytes>> {
    let wanted = *request.method() == Method::GET && matches!(request.uri().path(), "/metrics" | "/");
    let (status, text) = match (is_for_here(request.headers()), wanted) {
        (false, _) => (StatusCode::FORBIDDEN, "ask by a loopback address or as localhost\n".to_owned()),
        (true, true) => (StatusCode::OK, render()),
        (true, false) => (StatusCode::NOT_FOUND, "see /metrics\n".to_owned()),
    };
    let mut answer = Response::new(Full::new(text.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4"));
    answer
}

/// Whether a request names this machine by a loopback address, as `localhost`, or not at all. A page of the web that was
/// told that its own name is 127.0.0.1 asks by that name, and must not read metrics.
fn is_for_here(headers: &HeaderMap) -> bool {
    headers.get_all(HOST).iter().all(|host| host.to_str().is_ok_and(names_this_machine))
}

fn names_this_machine(host: &str) -> bool {
    let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let name = name.map_or(host, |(name, _)| name);
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;

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
