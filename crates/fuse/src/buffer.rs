//! Where the bytes of a request live while it is in hand.
//!
//! A reader needs a buffer as large as the largest write. Small requests, nearly all of them, are
//! copied out of it into a vector of their own size; a large one takes the buffer with it and the
//! reader goes on with another from the pool. So a request can go to another thread without a copy
//! of its data, and ten thousand waiting lookups do not hold ten thousand megabytes.

use std::sync::{Arc, Mutex, PoisonError};

/// Up to this length copying costs less than another large buffer (under a microsecond).
const COPY_MAX: usize = 16 * 1024;
/// Free buffers kept; more simultaneous large writes than this allocate afresh.
const FREE_MAX: usize = 8;

/// Large buffers of one size, for all readers of a session.
#[derive(Debug)]
pub(crate) struct BufferPool {
    size: usize,
    free: Mutex<Vec<Box<[u8]>>>,
}

impl BufferPool {
    pub(crate) fn new(size: usize) -> Arc<Self> {
        Arc::new(Self { size, free: Mutex::new(Vec::with_capacity(FREE_MAX)) })
    }

    pub(crate) fn take(&self) -> Box<[u8]> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(|| vec![0; self.size].into_boxed_slice())
    }

    fn give_back(&self, buffer: Box<[u8]>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < FREE_MAX {
            free.push(buffer);
        }
    }
}

/// The whole message of one request.
#[derive(Debug)]
pub(crate) struct Message {
    bytes: Box<[u8]>,
    len: usize,
    /// Where the buffer came from; none for a copy.
    pool: Option<Arc<BufferPool>>,
}

impl Message {
    /// Takes the first `len` bytes out of a reader's buffer, by copy or together with the buffer.
    pub(crate) fn take(reader: &mut Box<[u8]>, len: usize, pool: &Arc<BufferPool>) -> Self {
        let len = len.min(reader.len());
        if len <= COPY_MAX {
            return Self { bytes: reader[..len].into(), len, pool: None };
        }
        let bytes = std::mem::replace(reader, pool.take());
        Self { bytes, len, pool: Some(Arc::clone(pool)) }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.give_back(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_message_takes_the_buffer_and_gives_it_back() {
        let pool = BufferPool::new(64 * 1024);
        let mut reader = pool.take();
        reader[20_000] = 9;
        let message = Message::take(&mut reader, 30_000, &pool);
        assert_eq!(message.bytes()[20_000], 9);
        assert_eq!(reader.len(), 64 * 1024);
        drop(message);
        assert_eq!(pool.free.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_small_message_is_a_copy() {
        let pool = BufferPool::new(64 * 1024);
        let mut reader = pool.take();
        reader[0] = 1;
        let message = Message::take(&mut reader, 100, &pool);
        reader[0] = 2;
        assert_eq!((message.bytes()[0], message.bytes().len()), (1, 100));
    }
}
