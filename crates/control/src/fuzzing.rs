//! What other processes of this machine leave or say: entries and notes of the registry, replies of daemons, news of links. For the
//! fuzzer.

use crate::link_signals::notice_in;
use crate::registry::{EndNote, Registration};
use crate::{Command, Reply};

/// Reads bytes as each of them; what is understood survives being written and read.
///
/// # Panics
/// If it does not: a fault of the forms.
pub fn read(bytes: &[u8]) {
    if let Ok(entry) = serde_json::from_slice::<Registration>(bytes) {
        survives(&entry);
    }
    if let Ok(note) = serde_json::from_slice::<EndNote>(bytes) {
        survives(&note);
    }
    if let Ok(reply) = serde_json::from_slice::<Reply>(bytes) {
        survives(&reply);
    }
    if let Ok(command) = serde_json::from_slice::<Command>(bytes) {
        survives(&command);
    }
    let _ = notice_in(bytes);
}

fn survives<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) {
    let again = serde_json::to_vec(value).expect("what was read can be written");
    assert!(serde_json::from_slice::<T>(&again).is_ok(), "what was written can be read");
}
