//! Reading requests and handing them out.

use std::io;
#[cfg(test)]
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::io::Errno as OsError;
use tracing::{debug, error, info, warn};

use crate::buffer::{BufferPool, Message};
use crate::decode::{self, Header};
use crate::device::Device;
use crate::init::{self, InitAnswer};
use crate::interrupts::Interrupts;
use crate::mount::{Mount, UmountError, UmountMode, Unmounter};
use crate::uapi::{self, opcode};
use crate::{Config, Errno, Granted, Handler, InitError, Notifier, Reply, Request};

/// How long the kernel may take to send its first request; it queues it while mounting.
const INIT_WAIT: Duration = Duration::from_secs(10);
/// Readers at most. More than a few per core only cost memory: slow work belongs elsewhere.
const THREADS_MAX: usize = 64;
/// Room for the largest extended attribute with its name and header, the largest request beside writes.
const OTHER_REQUEST_MAX: usize = 128 * 1024;

/// Why a session ended badly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The first exchange failed.
    #[error("start the FUSE session")]
    Init(#[from] InitError),
    /// A thread could not be started.
    #[error("start a reader thread")]
    Thread(#[source] io::Error),
    /// Reading from the device failed for a reason other than the end of the mount.
    #[error("read requests from the kernel")]
    Read(#[source] io::Error),
    /// The handler panicked; the mount was taken down, so that nobody hangs on it.
    #[error("the file system panicked")]
    Panicked,
}

/// A mounted file system about to be served.
#[derive(Debug)]
pub struct Session {
    device: Arc<Device>,
    mount: Option<Mount>,
    config: Config,
    granted: Arc<OnceLock<Granted>>,
}

impl Session {
    /// A session for a mount.
    #[must_use]
    pub fn new(mount: Mount, config: Config) -> Self {
        let device = mount.device();
        Self { device, mount: Some(mount), config, granted: Arc::default() }
    }

    /// A session on a packet socket that plays the kernel.
    #[cfg(test)]
    pub(crate) fn from_fd(fd: OwnedFd, config: Config) -> Self {
        let device = Arc::new(Device::from_fd(fd));
        Self { device, mount: None, config, granted: Arc::default() }
    }

    /// For notifications; they have an effect once the session runs.
    #[must_use]
    pub fn notifier(&self) -> Notifier {
        Notifier::new(Arc::clone(&self.device), Arc::clone(&self.granted))
    }

    /// For unmounting from another thread, which ends [`Session::run`]. None for a foreign descriptor.
    #[must_use]
    pub fn unmounter(&self) -> Option<Unmounter> {
        self.mount.as_ref().map(Mount::unmounter)
    }

    /// Serves until the mount is gone (unmounted by anyone, or aborted), with `threads` readers
    /// (1 to 64; 2 is right for two cores).
    ///
    /// # Errors
    /// As [`Session::spawn`] and [`BackgroundSession::join`].
    pub fn run(self, handler: Arc<dyn Handler>, threads: usize) -> Result<(), SessionError> {
        self.spawn(handler, threads)?.join()
    }

    /// Makes the first exchange, then serves from `threads` threads. The mount answers when this returns.
    ///
    /// # Errors
    /// [`SessionError::Init`] when the kernel and we do not agree; [`SessionError::Thread`].
    pub fn spawn(self, handler: Arc<dyn Handler>, threads: usize) -> Result<BackgroundSession, SessionError> {
        let size = usize::try_from(self.config.max_write_bounded()).unwrap_or(1 << 20);
        let size = (size + 4096).max(OTHER_REQUEST_MAX).max(uapi::READ_BUFFER_MIN);
        let pool = BufferPool::new(size);
        let granted = handshake(&self.device, &self.config, &pool)?;
        info!(minor = granted.protocol_minor, flags = ?granted.flags, "FUSE session agreed");
        let granted = self.granted.get_or_init(|| granted).clone();
        if let Some(mount) = &self.mount {
            mount.raise_readahead(self.config.max_readahead);
        }
        let notifier = self.notifier();
        handler.init(&granted, &notifier);
        let interrupts = Arc::new(Interrupts::default());
        let mut session = BackgroundSession {
            readers: Vec::new(),
            unmounter: self.unmounter(),
            mount: self.mount,
            notifier,
            granted,
            handler,
        };
        for number in 0..threads.clamp(1, THREADS_MAX) {
            let reader = Reader {
                device: reader_device(&self.device, &self.config, number),
                handler: Arc::clone(&session.handler),
                interrupts: Arc::clone(&interrupts),
                pool: Arc::clone(&pool),
                unmounter: session.unmounter.clone(),
            };
            let thread = thread::Builder::new().name(format!("fuse-{number}"));
            let spawned = thread.spawn(move || reader.run());
            session.readers.push(spawned.map_err(SessionError::Thread)?);
        }
        Ok(session)
    }
}

/// The first reader uses the mounted descriptor itself, the others a queue of their own if they can.
fn reader_device(device: &Arc<Device>, config: &Config, number: usize) -> Arc<Device> {
    if number == 0 || !config.clone_device {
        return Arc::clone(device);
    }
    match device.try_clone_queue() {
        Ok(clone) => Arc::new(clone),
        Err(error) => {
            debug!(%error, "readers share one request queue");
            Arc::clone(device)
        }
    }
}

/// Answers init requests until both sides agree.
fn handshake(device: &Device, config: &Config, pool: &BufferPool) -> Result<Granted, InitError> {
    let device_error = |error: OsError| InitError::Device(error.into());
    let mut buffer = pool.take();
    loop {
        if !device.wait_readable(INIT_WAIT).map_err(device_error)? {
            return Err(InitError::Silent(INIT_WAIT.as_secs()));
        }
        let len = match device.read(&mut buffer) {
            Ok(len) => len,
            Err(OsError::INTR | OsError::AGAIN | OsError::NOENT) => continue,
            Err(error) => return Err(device_error(error)),
        };
        let message = &buffer[..len];
        let header = Header::decode(message).map_err(InitError::Decode)?;
        let unique = header.unique.number();
        if header.opcode != opcode::INIT {
            device.send(unique, -Errno::IO.code(), &[]).map_err(device_error)?;
            continue;
        }
        match init::negotiate(&header, message, config) {
            Ok(InitAnswer::TryOurMajor(answer)) => {
                device.send(unique, 0, &[&answer]).map_err(device_error)?;
            }
            Ok(InitAnswer::Agreed(granted, answer)) => {
                device.send(unique, 0, &[&answer]).map_err(device_error)?;
                return Ok(*granted);
            }
            Err(error) => {
                // The mount cannot work; telling the kernel so fails its callers instead of hanging them.
                let _ = device.send(unique, -Errno::PROTO.code(), &[]);
                return Err(error);
            }
        }
    }
}

/// A session that is being served.
///
/// Dropped without [`BackgroundSession::join`], it unmounts, by force if the mount is in use, and
/// waits for its readers.
#[derive(Debug)]
pub struct BackgroundSession {
    readers: Vec<JoinHandle<Result<(), SessionError>>>,
    unmounter: Option<Unmounter>,
    mount: Option<Mount>,
    notifier: Notifier,
    granted: Granted,
    handler: Arc<dyn Handler>,
}

impl std::fmt::Debug for dyn Handler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handler")
    }
}

impl BackgroundSession {
    /// What holds for this mount.
    #[must_use]
    pub fn granted(&self) -> &Granted {
        &self.granted
    }

    /// For notifications and passthrough.
    #[must_use]
    pub fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }

    /// For unmounting from another thread. None for a foreign descriptor.
    #[must_use]
    pub fn unmounter(&self) -> Option<Unmounter> {
        self.unmounter.clone()
    }

    /// Unmounts; the readers then end, and [`BackgroundSession::join`] returns.
    ///
    /// # Errors
    /// [`UmountError`], with the mount as it was.
    pub fn umount(&self, mode: UmountMode) -> Result<(), UmountError> {
        self.unmounter.as_ref().map_or(Ok(()), |unmounter| unmounter.umount(mode))
    }

    /// Waits until the mount is gone and every reader has ended.
    ///
    /// # Errors
    /// [`SessionError::Read`] or [`SessionError::Panicked`], the first that occurred.
    pub fn join(mut self) -> Result<(), SessionError> {
        self.join_readers()
    }

    fn join_readers(&mut self) -> Result<(), SessionError> {
        if self.readers.is_empty() {
            return Ok(());
        }
        let mut outcome = Ok(());
        for reader in self.readers.drain(..) {
            let result = reader.join().unwrap_or(Err(SessionError::Panicked));
            outcome = outcome.and(result);
        }
        if let Some(mount) = self.mount.take() {
            mount.finish();
        }
        self.handler.destroy();
        outcome
    }
}

impl Drop for BackgroundSession {
    fn drop(&mut self) {
        if self.readers.is_empty() {
            return;
        }
        if self.umount(UmountMode::Orderly).is_err()
            && let Err(error) = self.umount(UmountMode::Force)
        {
            warn!(%error, "unmount a dropped session");
        }
        if self.unmounter.is_some()
            && let Err(error) = self.join_readers()
        {
            warn!(%error, "dropped session ended badly");
        }
    }
}

/// One thread that reads requests.
struct Reader {
    device: Arc<Device>,
    handler: Arc<dyn Handler>,
    interrupts: Arc<Interrupts>,
    pool: Arc<BufferPool>,
    unmounter: Option<Unmounter>,
}

/// Takes the mount down when a reader ends other than by the end of the mount (also by a panic):
/// half a session would leave callers hanging.
struct TakeDown<'a>(Option<&'a Unmounter>);

impl Drop for TakeDown<'_> {
    fn drop(&mut self) {
        if let Some(unmounter) = self.0
            && let Err(error) = unmounter.umount(UmountMode::Force)
        {
            error!(%error, "take down a broken mount");
        }
    }
}

impl Reader {
    fn run(self) -> Result<(), SessionError> {
        let mut take_down = TakeDown(self.unmounter.as_ref());
        let mut buffer = self.pool.take();
        loop {
            match self.device.read(&mut buffer) {
                // Only a socket in place of the device reads nothing: its other end was closed.
                Ok(0) => break,
                Ok(len) => self.dispatch(&mut buffer, len),
                // NOENT: the request was withdrawn while it was being read.
                Err(OsError::INTR | OsError::AGAIN | OsError::NOENT) => {}
                Err(OsError::NODEV | OsError::CONNABORTED) => break,
                Err(error) => {
                    error!(%error, "read a request");
                    return Err(SessionError::Read(error.into()));
                }
            }
        }
        take_down.0 = None;
        Ok(())
    }

    fn dispatch(&self, buffer: &mut Box<[u8]>, len: usize) {
        let message = &buffer[..len];
        let header = match Header::decode(message) {
            Ok(header) => header,
            Err(error) => return warn!(%error, len, "request without a sound header"),
        };
        match header.opcode {
            opcode::FORGET | opcode::BATCH_FORGET => {
                let each = |inode, lookups| self.handler.forget(inode, lookups);
                if let Err(error) = decode::decode_forget(&header, message, each) {
                    warn!(%error, "forget cut short");
                }
            }
            opcode::INTERRUPT => self.interrupt(&header, message),
            opcode::DESTROY => self.answer(&header, 0),
            opcode::INIT => self.answer(&header, -Errno::IO.code()),
            // An answer to a retrieve, which we never send; it wants no answer itself.
            opcode::NOTIFY_REPLY => debug!("unexpected notify reply"),
            _ => self.request(header, Message::take(buffer, len, &self.pool)),
        }
    }

    fn request(&self, header: Header, message: Message) {
        let flag = self.interrupts.register(header.unique);
        let request = Request::new(header, message, flag);
        match request.decode() {
            Ok(operation) => {
                let device = Arc::clone(&self.device);
                let interrupts = Arc::clone(&self.interrupts);
                let reply = Reply::new(device, interrupts, &header, &operation);
                if let Some(reply) = self.handler.answer(&request, operation, reply) {
                    self.handler.handle(request, reply);
                }
            }
            Err(error) => {
                warn!(%error, opcode = header.opcode, "request that does not decode");
                self.interrupts.finish(header.unique);
                self.answer(&header, -Errno::IO.code());
            }
        }
    }

    fn interrupt(&self, header: &Header, message: &[u8]) {
        match decode::decode_interrupt(header, message) {
            Ok(unique) => {
                if self.interrupts.interrupt(unique) {
                    self.handler.interrupted(unique);
                }
            }
            Err(error) => warn!(%error, "interrupt that does not decode"),
        }
    }

    fn answer(&self, header: &Header, error: i32) {
        if let Err(error) = self.device.send(header.unique.number(), error, &[]) {
            debug!(%error, opcode = header.opcode, "answer found nobody waiting");
        }
    }
}

#[cfg(test)]
mod tests;
