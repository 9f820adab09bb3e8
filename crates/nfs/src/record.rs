//! Messages on a byte stream (RFC 5531, 11): fragments with their lengths before them.

/// Why a stream cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// A message longer than any answer.
    #[error("a message of more than {0} bytes")]
    TooLong(usize),
    /// Fragments without end and without content.
    #[error("a message in more than {0} fragments")]
    TooManyFragments(usize),
}

/// Longest answer: 64 KiB of data or names, with what is around them.
pub(crate) const MESSAGE_LEN_MAX: usize = 80 * 1024;
/// Nobody cuts messages of that length into more.
const FRAGMENTS_MAX: usize = 64;

/// Puts messages together. At most one message and one read are kept.
#[derive(Debug, Default)]
pub struct Records {
    input: Vec<u8>,
    message: Vec<u8>,
    fragments: usize,
}

impl Records {
    /// Takes in what came.
    pub fn push(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The next whole message; call until `None`.
    ///
    /// # Errors
    /// [`RecordError`]: the connection is of no use any more.
    pub fn poll(&mut self) -> Result<Option<Vec<u8>>, RecordError> {
        let mut at = 0;
        let mut found = None;
        while let Some(header) = self.input.get(at..).and_then(<[u8]>::first_chunk::<4>) {
            let header = u32::from_be_bytes(*header);
            let (last, len) = (header >> 31 == 1, (header & 0x7fff_ffff) as usize);
            if self.message.len() + len > MESSAGE_LEN_MAX {
                return Err(RecordError::TooLong(MESSAGE_LEN_MAX));
            }
            let Some(fragment) = self.input.get(at + 4..at + 4 + len) else { break };
            self.message.extend_from_slice(fragment);
            at += 4 + len;
            self.fragments += 1;
            if last {
                self.fragments = 0;
                found = Some(std::mem::take(&mut self.message));
                break;
            }
            if self.fragments >= FRAGMENTS_MAX {
                return Err(RecordError::TooManyFragments(FRAGMENTS_MAX));
            }
        }
        self.input.drain(..at);
        Ok(found)
    }
}

/// A message as one fragment.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let len = u32::try_from(message.len()).expect("messages of ours are short");
    [&(len | 1 << 31).to_be_bytes()[..], message].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_whole_however_they_are_cut() {
        let stream = [framed(b"one"), vec![0, 0, 0, 2, b't', b'w'], framed(b"o"), framed(b"")].concat();
        for step in 1..stream.len() {
            let mut records = Records::default();
            let mut found = Vec::new();
            for bytes in stream.chunks(step) {
                records.push(bytes);
                while let Some(message) = records.poll().unwrap() {
                    found.push(message);
                }
            }
            assert_eq!(found, [b"one".to_vec(), b"two".to_vec(), b"".to_vec()], "in steps of {step}");
        }
    }

    #[test]
    fn lengths_that_lie_end_it() {
        let mut records = Records::default();
        records.push(&[0xff; 4]);
        assert_eq!(records.poll(), Err(RecordError::TooLong(MESSAGE_LEN_MAX)));
        // Also those of fragments that are each short enough.
        let mut records = Records::default();
        for _ in 0..3 {
            records.push(&40_000_u32.to_be_bytes());
            records.push(&[7; 40_000]);
        }
        assert_eq!(records.poll(), Err(RecordError::TooLong(MESSAGE_LEN_MAX)));
        let mut records = Records::default();
        records.push(&[0; 400]);
        assert_eq!(records.poll(), Err(RecordError::TooManyFragments(FRAGMENTS_MAX)));
    }
}
