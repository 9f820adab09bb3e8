//! Cores that do not sleep while a network exists.
//!
//! A core that sleeps between packets takes long to wake up, a virtual one most of all: its host gives it back late. The
//! kernel keeps cores awake as long as somebody holds `/dev/cpu_dma_latency` open and has asked there for no delay at all: idle
//! cores then look for work instead of halting. That costs the power of all cores, so it lasts no longer than the network does.

use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Once;

/// Where the kernel is asked to wake up cores quickly.
const DEVICE: &str = "/dev/cpu_dma_latency";

/// What cores do while they have nothing to do.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdleCores {
    /// Whatever the machine lets them do: nobody asked for anything.
    #[default]
    Asleep,
    /// They wait awake.
    Awake,
    /// They were to be awake, but the machine refused; with what it said.
    Refused(String),
}

/// Keeps cores awake until it is dropped, if that was wanted and the machine allows it.
#[derive(Debug)]
pub(crate) struct KeepAwake {
    /// Held open: the kernel forgets the request when it is closed.
    _device: Option<File>,
    state: IdleCores,
}

impl KeepAwake {
    /// None: cores sleep as ever.
    pub(crate) const fn none() -> Self {
        Self { _device: None, state: IdleCores::Asleep }
    }

    /// Begins. A machine that refuses measures with cores that sleep; the log says so once.
    pub(crate) fn begin() -> Self {
        static SAID: Once = Once::new();
        Self::at(Path::new(DEVICE)).unwrap_or_else(|error| {
            SAID.call_once(|| tracing::warn!(%error, device = DEVICE, "cores sleep between packets"));
            Self { _device: None, state: IdleCores::Refused(format!("{DEVICE}: {error}")) }
        })
    }

    fn at(device: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().write(true).open(device)?;
        // Microseconds that waking up may take, as a number of 32 bits.
        file.write_all(&0_u32.to_ne_bytes())?;
        Ok(Self { _device: Some(file), state: IdleCores::Awake })
    }

    pub(crate) const fn state(&self) -> &IdleCores {
        &self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_delay_is_asked_for_with_32_bits() {
        let device = tempfile::NamedTempFile::new().unwrap();
        let keep_awake = KeepAwake::at(device.path()).unwrap();
        assert_eq!((keep_awake.state(), std::fs::read(device.path()).unwrap()), (&IdleCores::Awake, vec![0; 4]));
        assert_eq!(KeepAwake::none().state(), &IdleCores::Asleep);
    }

    #[test]
    fn without_the_device_a_laboratory_goes_on() {
        assert!(KeepAwake::at(Path::new("/nowhere/at/all")).is_err());
        assert_ne!(KeepAwake::begin().state(), &IdleCores::Asleep);
    }
}
