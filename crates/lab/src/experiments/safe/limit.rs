//! What no protocol can do without: a round trip of the line, and a durable append.

use crate::{LabError, Topology};
use std::fs::File;
use std::io::{self, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

/// Payload of a datagram that fits every line.
const DATAGRAM_LEN: usize = 1400;
/// Bytes of the answer.
const ANSWER_LEN: usize = 50;
/// An answer that takes longer is lost.
const PATIENCE: Duration = Duration::from_secs(2);
/// Round trips that may be lost in a row.
const LOST_MAX: usize = 5;
/// Ends the far side.
const END: u64 = u64::MAX;

/// Datagrams from one host to another, and an answer to the last of them.
pub(super) struct Echo {
    near: UdpSocket,
    far: SocketAddr,
    len: usize,
}

impl Echo {
    /// So many bytes each time.
    pub(super) fn between(lab: &Topology, near: &str, far: &str, len: usize) -> Result<Self, LabError> {
        let doing = || LabError::io("make a socket for round trips");
        let answering = lab.inside(far, || UdpSocket::bind("0.0.0.0:0"))?.map_err(doing())?;
        let near = lab.inside(near, || UdpSocket::bind("0.0.0.0:0"))?.map_err(doing())?;
        near.set_read_timeout(Some(PATIENCE)).map_err(doing())?;
        let far = SocketAddr::new(lab.address(far)?.into(), answering.local_addr().map_err(doing())?.port());
        std::thread::spawn(move || answer(&answering));
        Ok(Self { near, far, len })
    }

    /// One, timed.
    pub(super) fn round_trip(&self) -> Result<Duration, LabError> {
        for _ in 0..LOST_MAX {
            match self.once() {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                result => return result.map_err(LabError::io("measure a round trip")),
            }
        }
        Err(LabError::TimedOut { what: "an answer from the station's host".to_owned(), within: PATIENCE })
    }

    fn once(&self) -> io::Result<Duration> {
        let bytes = [0; DATAGRAM_LEN];
        let mut left = self.len;
        let began = Instant::now();
        while left > 0 {
            let now = left.min(DATAGRAM_LEN);
            left -= now;
            // What is still to come; the far side answers when that is nothing.
            let mut datagram = bytes;
            datagram[..8].copy_from_slice(&(left as u64).to_be_bytes());
            self.near.send_to(&datagram[..now.max(8)], self.far)?;
        }
        self.near.recv(&mut [0; DATAGRAM_LEN])?;
        Ok(began.elapsed())
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // A far side that does not hear it ends with the program.
        let _ = self.near.send_to(&END.to_be_bytes(), self.far);
    }
}

fn answer(socket: &UdpSocket) {
    let mut datagram = [0; DATAGRAM_LEN];
    while let Ok((_, from)) = socket.recv_from(&mut datagram) {
        match datagram.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)) {
            Some(0) if socket.send_to(&[0; ANSWER_LEN], from).is_err() => return,
            Some(END) | None => return,
            Some(_) => {}
        }
    }
}

/// A file that grows by durable appends.
pub(super) struct Commit {
    file: File,
    bytes: Vec<u8>,
}

impl Commit {
    /// So many bytes each time.
    pub(super) fn on(path: &Path, len: usize) -> Result<Self, LabError> {
        let file = File::create(path).map_err(LabError::io(format!("create {}", path.display())))?;
        Ok(Self { file, bytes: vec![1; len] })
    }

    /// One, timed.
    pub(super) fn append(&mut self) -> Result<Duration, LabError> {
        let began = Instant::now();
        let appended = self.file.write_all(&self.bytes).and_then(|()| self.file.sync_data());
        appended.map_err(LabError::io("append durably"))?;
        Ok(began.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_comes_when_all_has_arrived() {
        let far = UdpSocket::bind("127.0.0.1:0").unwrap();
        let near = UdpSocket::bind("127.0.0.1:0").unwrap();
        near.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let echo = Echo { near, far: far.local_addr().unwrap(), len: 4096 };
        let answering = std::thread::spawn(move || answer(&far));
        echo.near.send_to(&1_u64.to_be_bytes(), echo.far).unwrap();
        assert!(echo.near.recv(&mut [0; 100]).is_err(), "more is to come");
        assert!(echo.round_trip().unwrap() > Duration::ZERO);
        drop(echo);
        answering.join().unwrap();
    }

    #[test]
    fn appends_are_all_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("commit");
        let mut commit = Commit::on(&path, 100).unwrap();
        for _ in 0..3 {
            commit.append().unwrap();
        }
        assert_eq!(std::fs::metadata(path).unwrap().len(), 300);
    }
}
