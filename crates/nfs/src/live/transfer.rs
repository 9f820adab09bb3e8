//! Whole files, with several calls in flight.

use super::{Export, LiveError};
use crate::calls::{self, Stability};
use crate::results;
use crate::rpc::Xid;
use crate::{Answer, AnsweredBlock, Handle, Kind, Status, WriteVerifier, learn};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// What a file is written from; it may be asked for the same bytes twice, since a server that restarts forgets what it has not committed.
pub trait Source {
    /// Fills the buffer from there on; fewer bytes only at the end.
    ///
    /// # Errors
    /// Those of the source.
    fn fill(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl Source for std::fs::File {
    fn fill(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match std::os::unix::fs::FileExt::read_at(self, &mut buffer[filled..], offset + filled as u64)? {
                0 => break,
                len => filled += len,
            }
        }
        Ok(filled)
    }
}

impl Source for [u8] {
    fn fill(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or_default();
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
}

/// Bytes that are written before they are committed: so much is sent again at most when a server restarts.
const COMMIT_EVERY: u64 = 16 << 20;
/// How often a server may restart within that before we give up.
const RESTARTS_MAX: u32 = 100;
/// See `export.rs`: a server that asks for patience.
const JUKEBOX: Duration = Duration::from_secs(1);

/// A part of a file that is on its way.
#[derive(Debug, Clone, Copy)]
struct Part {
    offset: u64,
    len: u32,
}

impl Export {
    /// Reads a file to its end. `sink` gets every byte once, with its place, in whatever order they come.
    ///
    /// # Errors
    /// [`LiveError`]; [`LiveError::Io`] if the sink fails.
    pub fn read_file(
        &mut self,
        file: &Handle,
        size: u64,
        mut sink: impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> Result<u64, LiveError> {
        let mut in_flight: BTreeMap<Xid, Part> = BTreeMap::new();
        // Where the next call reads; where the file ends, once that was seen.
        let (mut next, mut end, mut read) = (0, None::<u64>, 0);
        loop {
            // Beyond the size that is known only one call feels its way: the file may have grown.
            while end.is_none_or(|end| next < end)
                && (in_flight.is_empty() || (next < size && in_flight.len() < self.window.calls()))
            {
                let len = self.read_block.size();
                let part = Part { offset: next, len };
                in_flight.insert(self.caller.submit(&calls::read(file, part.offset, len)), part);
                next += u64::from(len);
            }
            if in_flight.is_empty() {
                return Ok(read);
            }
            let answered = self.next_part(&mut in_flight);
            let outcome = answered.and_then(|(part, results)| match results::read(&results, part.len)? {
                Err(status) => self.not_now(status).map(|()| Some(part)),
                Ok(result) => {
                    sink(part.offset, result.bytes).map_err(LiveError::io("write what was read"))?;
                    let len = result.bytes.len() as u32;
                    read += u64::from(len);
                    let reached = part.offset + u64::from(len);
                    if result.is_end {
                        end = Some(end.map_or(reached, |end| end.min(reached)));
                        return Ok(None);
                    }
                    if len == 0 {
                        return Err(crate::xdr::DecodeError::Impossible("no bytes, and not the end").into());
                    }
                    let rest = part.len - len;
                    Ok((rest > 0 && end.is_none_or(|end| reached < end)).then_some(Part { offset: reached, len: rest }))
                }
            });
            match outcome {
                Ok(None) => {}
                Ok(Some(part)) => {
                    in_flight.insert(self.caller.submit(&calls::read(file, part.offset, part.len)), part);
                }
                Err(error) => return Err(self.abandon(in_flight, error)),
            }
        }
    }

    /// Writes a whole file and makes it durable. `progress` is told how many bytes the server has.
    ///
    /// # Errors
    /// [`LiveError`]; [`LiveError::Io`] if the source fails.
    pub fn write_file(
        &mut self,
        file: &Handle,
        source: &(impl Source + ?Sized),
        mut progress: impl FnMut(u64),
    ) -> Result<u64, LiveError> {
        let (mut committed, mut restarts) = (0, 0);
        loop {
            let (written, verifier) = self.write_piece(file, source, committed, &mut progress)?;
            if written == 0 {
                return Ok(committed);
            }
            let durable = match verifier {
                Verifier::Durable => true,
                Verifier::Mixed => false,
                Verifier::Same(verifier) => self.commit(file)? == verifier,
            };
            if durable {
                committed += written;
                continue;
            }
            // The server restarted and forgot: the same bytes go again.
            restarts += 1;
            if restarts > RESTARTS_MAX {
                return Err(crate::xdr::DecodeError::Impossible("a new write verifier every time").into());
            }
        }
    }

    /// Writes at most [`COMMIT_EVERY`] bytes from `begin` on.
    fn write_piece(
        &mut self,
        file: &Handle,
        source: &(impl Source + ?Sized),
        begin: u64,
        progress: &mut impl FnMut(u64),
    ) -> Result<(u64, Verifier), LiveError> {
        let mut in_flight: BTreeMap<Xid, Part> = BTreeMap::new();
        let (mut next, mut is_end, mut written) = (begin, false, 0);
        let mut verifier = None;
        loop {
            while !is_end && next - begin < COMMIT_EVERY && in_flight.len() < self.window.calls() {
                let part = Part { offset: next, len: self.write_block.size() };
                let len = match self.submit_write(file, source, part, &mut in_flight) {
                    Ok(len) => len,
                    Err(error) => return Err(self.abandon(in_flight, error)),
                };
                is_end = len < part.len;
                next += u64::from(len);
            }
            if in_flight.is_empty() {
                return Ok((written, verifier.unwrap_or(Verifier::Durable)));
            }
            let answered = self.next_part(&mut in_flight);
            let outcome = answered.and_then(|(part, results)| match results::write(&results, part.len)? {
                Err(status) => self.not_now(status).map(|()| Some(part)),
                Ok(result) => {
                    let own = if result.is_durable { Verifier::Durable } else { Verifier::Same(result.verifier) };
                    verifier = Some(verifier.map_or(own, |verifier: Verifier| verifier.and(own)));
                    written += u64::from(result.count);
                    progress(begin + written);
                    let rest = part.len - result.count;
                    Ok((rest > 0).then_some(Part { offset: part.offset + u64::from(result.count), len: rest }))
                }
            });
            let again = match outcome {
                Ok(None) => continue,
                Ok(Some(part)) => self.submit_write(file, source, part, &mut in_flight).map(drop),
                Err(error) => Err(error),
            };
            if let Err(error) = again {
                return Err(self.abandon(in_flight, error));
            }
        }
    }

    fn submit_write(
        &mut self,
        file: &Handle,
        source: &(impl Source + ?Sized),
        part: Part,
        in_flight: &mut BTreeMap<Xid, Part>,
    ) -> Result<u32, LiveError> {
        let mut bytes = vec![0; part.len as usize];
        let len = source.fill(&mut bytes, part.offset).map_err(LiveError::io("read what is to be written"))?;
        if len == 0 {
            return Ok(0);
        }
        let call = calls::write(file, part.offset, &bytes[..len], Stability::Unstable);
        in_flight.insert(self.caller.submit(&call), Part { offset: part.offset, len: len as u32 });
        Ok(len as u32)
    }

    fn commit(&mut self, file: &Handle) -> Result<WriteVerifier, LiveError> {
        loop {
            let (answer, _) = self.caller.call(&calls::commit(file, 0, 0))?;
            match results::commit(&answer)? {
                Ok(verifier) => return Ok(verifier),
                Err(status) => self.not_now(status)?,
            }
        }
    }

    /// Waits for an answer to one of these; what is learned from it goes to window and block size.
    fn next_part(&mut self, in_flight: &mut BTreeMap<Xid, Part>) -> Result<(Part, Vec<u8>), LiveError> {
        loop {
            let Answer { xid, kind, sendings, round_trip, results } = self.caller.next_answer()?;
            let Some(part) = in_flight.remove(&xid) else { continue };
            let block = if kind == Kind::Write { &mut self.write_block } else { &mut self.read_block };
            learn(block, &mut self.window, AnsweredBlock { len: part.len, sendings, round_trip });
            return Ok((part, self.caller.results(results)?));
        }
    }

    /// A server that asks for patience gets it; any other no is one.
    fn not_now(&self, status: Status) -> Result<(), LiveError> {
        match status {
            Status::JUKEBOX => self.caller.pause(JUKEBOX),
            status => Err(LiveError::Status { what: "transfer".into(), status }),
        }
    }

    fn abandon(&mut self, in_flight: BTreeMap<Xid, Part>, error: LiveError) -> LiveError {
        in_flight.into_keys().for_each(|xid| self.caller.cancel(xid));
        error
    }
}

/// What the verifiers of several writes say together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verifier {
    /// All are durable.
    Durable,
    /// All that are not have this one.
    Same(WriteVerifier),
    /// The server restarted among them.
    Mixed,
}

impl Verifier {
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Durable, it) | (it, Self::Durable) => it,
            (Self::Same(one), Self::Same(other)) if one == other => self,
            (Self::Same(_) | Self::Mixed, Self::Same(_) | Self::Mixed) => Self::Mixed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_among_writes_shows() {
        let (one, other) = (Verifier::Same(WriteVerifier([1; 8])), Verifier::Same(WriteVerifier([2; 8])));
        assert_eq!(Verifier::Durable.and(one), one);
        assert_eq!(one.and(one).and(Verifier::Durable), one);
        assert_eq!(one.and(other).and(one), Verifier::Mixed);
    }

    #[test]
    fn a_source_may_be_asked_twice() {
        let source: &[u8] = b"hello";
        let mut buffer = [0; 4];
        assert_eq!((source.fill(&mut buffer, 3).unwrap(), &buffer[..2]), (2, &b"lo"[..]));
        assert_eq!(source.fill(&mut buffer, 9).unwrap(), 0);
    }
}
