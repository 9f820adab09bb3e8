//! Both ends of the handshake.

use crate::handshake::{
    ChildRole, GREETING_LEN_MAX, Greeting, PROTOCOL_VERSION, REPLY_LEN_MAX, Refusal, Reply, Tell, decode, encode,
};
use crate::servers::{Have, News};
use std::net::SocketAddr;
use std::time::Duration;
use wayfs_net::{CloseCode, Connection, FrameReceiver, FrameSender};
use wayfs_types::{OriginId, Seal, VolumeId};

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
    pub(crate) have: Have,
    pub(crate) admission: Option<Seal>,
}

/// What the parent said when it took us.
#[derive(Debug)]
pub(crate) struct Welcomed {
    pub(crate) have: Have,
    pub(crate) news: News,
    pub(crate) seen_at: SocketAddr,
}

/// The dialling side: becomes a child.
pub(crate) async fn attach(connection: &Connection, attach: Attach) -> Result<(Frames, Welcomed), GreetError> {
    let Attach { volume, origin, role, have, admission } = attach;
    let greeting = Greeting::Attach { version: PROTOCOL_VERSION, volume, origin, role, have, admission };
    match greet(connection, &greeting).await? {
        (frames, Reply::Welcome { have, news, seen_at }) => Ok((frames, Welcomed { have, news, seen_at })),
        (_, Reply::Refused(refusal)) => Err(refusal.into()),
        (_, Reply::Granted(_) | Reply::Servers { .. }) => Err(GreetError::Malformed),
    }
}

/// The dialling side: asks what is known of the servers, without becoming a child.
pub(crate) async fn look(
    connection: &Connection,
    volume: VolumeId,
    have: Have,
) -> Result<(Frames, Have, News), GreetError> {
    match greet(connection, &Greeting::Look { version: PROTOCOL_VERSION, volume, have }).await? {
        (frames, Reply::Servers { have, news }) => Ok((frames, have, news)),
        (_, Reply::Refused(refusal)) => Err(refusal.into()),
        (_, Reply::Granted(_) | Reply::Welcome { .. }) => Err(GreetError::Malformed),
    }
}

/// After [`look`]: tells the other side what it lacks, and waits until it has read it, which it says by closing.
pub(crate) async fn tell(connection: &Connection, (sender, _): &Frames, news: News) {
    // Whoever is gone hears it from somebody else.
    if sender.send(encode(&Tell { news })).await.is_ok() {
        connection.closed().await;
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
        let reply = decode::<Reply>(&frame.ok_or(GreetError::Malformed)?, REPLY_LEN_MAX);
        reply.ok().filter(Reply::is_well_formed).ok_or(GreetError::Malformed)
    };
    let reply = tokio::time::timeout(PATIENCE, talk).await.map_err(|_| GreetError::TimedOut)??;
    Ok(((sender, receiver), reply))
}

/// The accepting side: the first frame.
pub(crate) async fn hear(connection: &Connection) -> Option<(Frames, Greeting)> {
    let (sender, mut receiver) = connection.control()?;
    let frame = tokio::time::timeout(PATIENCE, receiver.recv()).await.ok()?.ok()??;
    let greeting = decode::<Greeting>(&frame, GREETING_LEN_MAX).ok()?;
    Some(((sender, receiver), greeting))
}

/// The accepting side: what may follow the answer to a [`Greeting::Look`].
pub(crate) async fn hear_news(receiver: &mut FrameReceiver) -> Option<News> {
    let frame = tokio::time::timeout(PATIENCE, receiver.recv()).await.ok()?.ok()??;
    let Tell { news } = decode(&frame, REPLY_LEN_MAX).ok()?;
    news.is_well_formed().then_some(news)
}

/// The accepting side: says no, and makes sure that it is heard.
pub(crate) async fn refuse(connection: &Connection, sender: &FrameSender, refusal: Refusal) {
    // A peer that is gone does not hear it and needs not.
    let _ = sender.send(encode(&Reply::Refused(refusal))).await;
    connection.finish(CloseCode::NOT_ADMITTED, "refused", Duration::from_secs(2)).await;
}
