//! One session with a neighbour.

use crate::contents::{Entitled, History};
use crate::hooks::{SessionChange, SessionEvent};
use crate::servers::Have;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wayfs_net::{Connection, FrameSender, Moved};
use wayfs_proto::{Neighbour, PeerId};
use wayfs_types::NodeId;

/// A live session.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) peer: PeerId,
    pub(crate) node: NodeId,
    pub(crate) neighbour: Neighbour,
    pub(crate) connection: Connection,
    pub(crate) sender: FrameSender,
    /// What went over it lately.
    pub(crate) history: Arc<History>,
    /// Chunks that it may have, if it is a member with a part of the volume.
    pub(crate) entitled: Arc<Entitled>,
    /// What the neighbour knows of the servers.
    pub(crate) servers: Arc<Mutex<Have>>,
    /// What it had moved when that was last looked at.
    pub(crate) moved: Arc<Mutex<Moved>>,
    /// Why we are ending it, once we are: nothing more is sent.
    pub(crate) broken: Option<String>,
}

impl Session {
    /// Whether it moved anything but signs of life since this was last asked.
    pub(crate) fn has_moved(&self) -> bool {
        let now = self.connection.moved();
        let then = std::mem::replace(&mut *self.moved.lock().unwrap_or_else(PoisonError::into_inner), now);
        now.is_more_than(then)
    }

    pub(crate) fn change(&self, event: SessionEvent) -> SessionChange {
        SessionChange {
            node: self.node,
            address: self.connection.remote_addr(),
            neighbour: self.neighbour.clone(),
            event,
        }
    }
}

/// What can be said of a session, for status reports.
#[derive(Debug, Clone)]
pub struct SessionReport {
    /// The session.
    pub peer: PeerId,
    /// The machine.
    pub node: NodeId,
    /// Its address.
    pub address: std::net::SocketAddr,
    /// What it is to us.
    pub neighbour: Neighbour,
    /// Smoothed round-trip time.
    pub rtt: Duration,
}
