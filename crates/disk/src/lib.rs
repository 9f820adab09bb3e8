//! What of a file system the stores need.
//!
//! * [`SystemDisk`]: the system's files;
//! * `faulty`, with the feature of that name: a disk in memory that loses power at any step, tears, rots and fills.
//!
//! Everything of a data directory goes through it but three things: the lock, the line that says the format, and the
//! tables of the index, whose files are their library's.

#[cfg(feature = "faulty")]
pub mod faulty;
mod system;

pub use system::SystemDisk;

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Says how many bytes are free on the file system of a directory.
pub type FreeRoom = Box<dyn Fn() -> io::Result<u64> + Send + Sync>;

/// An open file, to be read and written at any place.
pub trait DiskFile: Debug + Send + Sync {
    /// Reads up to so many bytes from a place on; fewer only where the file ends.
    ///
    /// # Errors
    /// What the system says.
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize>;

    /// Writes all bytes at a place.
    ///
    /// # Errors
    /// What the system says; some of the bytes may have been written then.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Bytes of the file.
    ///
    /// # Errors
    /// What the system says.
    fn size(&self) -> io::Result<u64>;

    /// Cuts the file, or makes it longer with zeros.
    ///
    /// # Errors
    /// What the system says.
    fn set_size(&self, size: u64) -> io::Result<()>;

    /// Makes all that was written durable, and the size.
    ///
    /// # Errors
    /// What the system says, once: what was not written down may be gone.
    fn sync(&self) -> io::Result<()>;

    /// Reads exactly so many bytes from a place on.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] where the file ends before; what the system says.
    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> io::Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match self.read_at(&mut bytes[done..], at + done as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(len) => done += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Files by their paths. Names are durable when their directory is synced.
pub trait Disk: Debug + Send + Sync {
    /// Makes an empty file, in place of one that is there.
    ///
    /// # Errors
    /// What the system says.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file that is there.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; what the system says.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// The paths of all that is in a directory, in any order.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]; what the system says.
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;

    /// Gives a file or directory another name, in place of what has that.
    ///
    /// # Errors
    /// What the system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// What the system says.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes a directory that its owner alone reads, and those above it, where they are not there.
    ///
    /// # Errors
    /// What the system says.
    fn make_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// What the system says.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// Watches the room of the file system that a directory is on.
    ///
    /// # Errors
    /// What the system says.
    fn watch_room(&self, directory: &Path) -> io::Result<FreeRoom>;

    /// A number that those who write files cannot foresee.
    fn draw_salt(&self) -> u64;
}
