//! Lines of JSON with a bound on their length.

use std::io::{self, Read};
use std::time::{Duration, Instant};

/// Longest command in bytes: a path of 4 KiB, written as a list of numbers, and room.
pub(crate) const COMMAND_LEN_MAX: usize = 64 * 1024;

/// Longest reply in bytes: a queue of 10,000 items with long paths, and room.
pub(crate) const REPLY_LEN_MAX: usize = 64 * 1024 * 1024;

/// Why there is no line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineError {
    /// The stream ended in the middle of a line.
    #[error("the connection ended in the middle of a line")]
    Cut,
    /// The line is too long.
    #[error("a line is longer than {0} bytes")]
    TooLong(usize),
    /// Nothing came in the time allowed.
    #[error("no answer in time")]
    TimedOut,
    /// Reading failed.
    #[error("read: {0}")]
    Io(#[from] io::Error),
}

/// Splits a stream into lines.
pub(crate) struct LineReader<R> {
    stream: R,
    buffer: Vec<u8>,
    searched: usize,
    len_max: usize,
}

impl<R: Read> LineReader<R> {
    pub(crate) fn new(stream: R, len_max: usize) -> Self {
        Self { stream, buffer: Vec::new(), searched: 0, len_max }
    }

    /// The next line without its end; `None` at the end of the stream. The stream must have a read timeout;
    /// `deadline` bounds the whole line, however slowly it trickles in.
    pub(crate) fn next(&mut self, deadline: Option<Instant>) -> Result<Option<Vec<u8>>, LineError> {
        loop {
            if let Some(at) = self.buffer[self.searched..].iter().position(|b| *b == b'\n') {
                let mut line: Vec<u8> = self.buffer.drain(..=self.searched + at).collect();
                line.pop();
                self.searched = 0;
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > self.len_max {
                return Err(LineError::TooLong(self.len_max));
            }
            if deadline.is_some_and(|d| Instant::now() >= d) {
                return Err(LineError::TimedOut);
            }
            let mut piece = [0; 16 * 1024];
            match self.stream.read(&mut piece) {
                Ok(0) if self.buffer.is_empty() => return Ok(None),
                Ok(0) => return Err(LineError::Cut),
                Ok(len) => self.buffer.extend_from_slice(&piece[..len]),
                Err(e) if is_timeout(&e) || e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}

/// Time between two looks at the deadline while a read waits.
pub(crate) const READ_STEP: Duration = Duration::from_millis(200);

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_one_by_one() {
        let mut reader = LineReader::new(&b"one\n\ntwo\n"[..], 100);
        assert_eq!(reader.next(None).unwrap().unwrap(), b"one");
        assert_eq!(reader.next(None).unwrap().unwrap(), b"");
        assert_eq!(reader.next(None).unwrap().unwrap(), b"two");
        assert!(reader.next(None).unwrap().is_none());
    }

    #[test]
    fn a_cut_line_and_a_long_line_are_errors() {
        assert!(matches!(LineReader::new(&b"half"[..], 100).next(None), Err(LineError::Cut)));
        let long = vec![b'x'; 40_000];
        assert!(matches!(LineReader::new(&long[..], 100).next(None), Err(LineError::TooLong(100))));
    }
}
