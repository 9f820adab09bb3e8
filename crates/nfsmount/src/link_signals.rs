//! What the link below tells: a listener at the socket of `wayfs link` (`docs/format/link-signals.md`).
//!
//! Lines of JSON, each with `event`. A link that goes away says nothing any more, so whatever it said last is forgotten then.

use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wayfs_nfs::Notice;

/// Longest line that is read: a state with all its peers.
const LINE_LEN_MAX: usize = 1 << 20;
/// Between two looks at whether the mount is over, and between two tries to connect.
const LOOK: Duration = Duration::from_millis(200);

/// Listens until the mount is over; tells what it hears.
pub(crate) fn listen(
    socket: PathBuf,
    is_over: Arc<AtomicBool>,
    tell: impl Fn(Notice) + Send + 'static,
) -> io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name("nfs-link".into()).spawn(move || {
        while !is_over.load(Ordering::Relaxed) {
            if let Err(error) = hear(&socket, &is_over, &tell) {
                tracing::debug!(%error, "the link's socket");
            }
            std::thread::sleep(LOOK);
        }
    })
}

fn hear(socket: &Path, is_over: &AtomicBool, tell: &impl Fn(Notice)) -> io::Result<()> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LOOK))?;
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    let mut is_down = false;
    let heard = loop {
        let room = (LINE_LEN_MAX + 1 - line.len()) as u64;
        match reader.by_ref().take(room).read_until(b'\n', &mut line) {
            Ok(0) => break Ok(()),
            Ok(_) if line.len() > LINE_LEN_MAX => break Err(io::ErrorKind::InvalidData.into()),
            Ok(_) if line.last() == Some(&b'\n') => {
                if let Some(notice) = notice_in(&line) {
                    is_down = notice == Notice::LinkDown;
                    tell(notice);
                }
                line.clear();
            }
            Ok(_) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => break Err(error),
        }
        if is_over.load(Ordering::Relaxed) {
            break Ok(());
        }
    };
    if is_down {
        tell(Notice::LinkUp);
    }
    heard
}

/// What a line means for calls; `None` if nothing.
fn notice_in(line: &[u8]) -> Option<Notice> {
    let value: serde_json::Value = serde_json::from_slice(line).ok()?;
    match value.get("event")?.as_str()? {
        "down" => Some(Notice::LinkDown),
        "up" => Some(Notice::LinkUp),
        "hand-off" | "moved" => Some(Notice::HandOff),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc::channel;

    #[test]
    fn events_of_the_link_become_notices_and_an_end_of_it_takes_the_last_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("link.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let (sender, receiver) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = listen(path, Arc::clone(&is_over), move |notice| {
            let _ = sender.send(notice);
        })
        .unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"{\"event\":\"state\",\"link\":{}}\nrubbish\n{\"event\":\"hand-").unwrap();
        stream.write_all(b"off\",\"peer\":\"x\"}\n{\"event\":\"down\"}\n").unwrap();
        let next = || receiver.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!([next(), next()], [Notice::HandOff, Notice::LinkDown]);
        drop(stream);
        assert_eq!(next(), Notice::LinkUp);
        // A flood without lines is no reason to grow.
        let (mut stream, _) = listener.accept().unwrap();
        let flood = stream.write_all(&vec![b'x'; 4 << 20]);
        assert!(flood.is_err(), "it hangs up");
        is_over.store(true, Ordering::Relaxed);
        drop((stream, listener));
        thread.join().unwrap();
    }
}
