//! One session with a neighbour: frames to the engine, requests to the contents.

use crate::contents::{Entitled, History, serve};
use crate::core::CLOSE_LEFT;
use crate::hooks::{SessionChange, SessionEvent};
use crate::servers::Have;
use crate::volume::Volume;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use wayfs_net::{CloseCode, Closed, Connection, FrameReceiver, FrameSender, Moved};
use wayfs_proto::{Input, Neighbour, PeerId};
use wayfs_types::NodeId;

/// How long a peer that ended its messages may take to say why.
const LAST_WORD_WAIT: Duration = Duration::from_secs(1);

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

/// Reads frames until the session ends, and takes it out then.
pub(crate) async fn read_frames(
    volume: Weak<Volume>,
    peer: PeerId,
    connection: Connection,
    mut receiver: FrameReceiver,
) {
    let reason = loop {
        match receiver.recv().await {
            Ok(Some(bytes)) => {
                let Some(volume) = volume.upgrade() else { break "the volume stopped".to_owned() };
                volume.wait_out_pressure_of_frames().await;
                volume.step(Input::Message { peer, bytes });
            }
            Ok(None) => {
                // The end of the stream may come ahead of the word why.
                let _ = tokio::time::timeout(LAST_WORD_WAIT, connection.closed()).await;
                break "the peer said goodbye".to_owned();
            }
            Err(error) => break error.to_string(),
        }
    };
    // After a close of our own the peer's word is not to be had any more.
    let has_left = matches!(connection.close_reason(), Some(Closed::ByPeer { code: CLOSE_LEFT, .. }));
    connection.close(CloseCode::GOODBYE, "");
    if let Some(volume) = volume.upgrade() {
        let end = if has_left { Input::PeerLeft { peer } } else { Input::PeerDown { peer } };
        volume.detach_as(end, peer, &reason);
    }
}

/// Takes the peer's requests until the connection ends. Each is served by a task of its own; the
/// transport bounds how many there are.
pub(crate) async fn serve_requests(volume: Weak<Volume>, peer: PeerId, connection: Connection) {
    while let Ok(request) = connection.accept_request().await {
        let Some(volume) = volume.upgrade() else { return };
        tokio::spawn(serve::answer(Arc::clone(&volume), peer, request));
    }
}
