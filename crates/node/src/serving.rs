//! What comes over a session: frames go to the engine, requests to the contents.

use crate::close_codes::CLOSE_LEFT;
use crate::contents::serve;
use crate::volume::Volume;
use std::sync::{Arc, Weak};
use std::time::Duration;
use wayfs_net::{CloseCode, Closed, Connection, FrameReceiver};
use wayfs_proto::{Input, PeerId};

/// How long a peer that ended its messages may take to say why.
const LAST_WORD_WAIT: Duration = Duration::from_secs(1);

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
