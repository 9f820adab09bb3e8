//! Both ends of the handshake.

use crate::handshake::{ChildRole, Greeting, PROTOCOL_VERSION, Refusal, Reply, decode, encode};
use crate::server_info::ServerInfo;
use std::net::SocketAddr;
use std::time::Duration;
use wayfs_net::{CloseCode, Connection, FrameReceiver, FrameSender};
use wayfs_types::{OriginId, VolumeId};

/// Longest wait for the other side's first frame. A home that grants a join syncs its disk meanwhile.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Why a handshake failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GreetError {
    /// The server said no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The connection failed meanwhile.
    #[error("the handshake was interrupted: {0}")]
    Interrupted(String),
    /// Nothing was said in time.
    #[error("the server did not answer the handshake in time")]
    TimedOut,
    /// What was said makes no sense.
    #[error("the server answered something that this program does not understand")]
    Malformed,
}

/// The frames of a connection.
pub(crate) type Frames = (FrameSender, FrameReceiver);

/// Who dials as what.
#[derive(Debug, Clone)]
pub(crate) struct Attach {
    pub(crate) volume: VolumeId,
    pub(crate) origin: OriginId,
    pub(crate) role: ChildRole,
    pub(crate) addresses: Vec<SocketAddr>,
}

/// The dialling side: becomes a child. The list of servers that the parent knows comes back.
pub(crate) async fn attach(connection: &Connection, attach: Attach) -> Result<(Frames, Vec<ServerInfo>), GreetError> {
    let Attach { volume, origin, role, addresses } = attach;
    let greeting = Greeting::Attach { version: PROTOCOL_VERSION, volume, origin, role, addresses };
    match greet(connection, &greeting).await? {
        (frames, Reply::Welcome { servers }) => Ok((frames, servers)),
        (_, Reply::Refused(refusal)) => Err(refusal.into()),
        (_, Reply::Granted(_)) => Err(GreetError::Malformed),
    }
}

/// Says a greeting and reads the reply.
pub(crate) async fn greet(connection: &Connection, greeting: &Greeting) -> Result<(Frames, Reply), GreetError> {
    let (sender, mut receiver) =
        connection.control().ok_or_else(|| GreetError::Interrupted("the connection is in use".into()))?;
    let _waiting = connection.waiting();
    let talk = async {
        let interrupted = |error: wayfs_net::FrameError| GreetError::Interrupted(error.to_string());
        sender.send(encode(greeting)).await.map_err(interrupted)?;
        let frame = receiver.recv().await.map_err(interrupted)?;
        decode::<Reply>(&frame.ok_or(GreetError::Malformed)?).map_err(|_| GreetError::Malformed)
    };
    let reply = tokio::time::timeout(PATIENCE, talk).await.map_err(|_| GreetError::TimedOut)??;
    Ok(((sender, receiver), reply))
}

/// The accepting side: the first frame.
pub(crate) async fn hear(connection: &Connection) -> Option<(Frames, Greeting)> {
    let (sender, mut receiver) = connection.control()?;
    let frame = tokio::time::timeout(PATIENCE, receiver.recv()).await.ok()?.ok()??;
    let greeting = decode::<Greeting>(&frame).ok()?;
    Some(((sender, receiver), greeting))
}

/// The accepting side: says no, and makes sure that it is heard.
pub(crate) async fn refuse(connection: &Connection, sender: &FrameSender, refusal: Refusal) {
    // A peer that is gone does not hear it and needs not.
    let _ = sender.send(encode(&Reply::Refused(refusal))).await;
    connection.finish(CloseCode::NOT_ADMITTED, "refused", Duration::from_secs(2)).await;
}
