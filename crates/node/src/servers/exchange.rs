//! Telling each other of the servers, over a session and in a greeting.
//!
//! ```text
//!  attach:   child ── Attach { have } ──▶ parent      parent ── Welcome { news, have } ──▶ child
//!  session:  either ── Ask::Servers { have, news } ──▶ other     other ── Reply::Servers { have, news } ──▶
//!            after the welcome, at every change of the directory, and by the child from time to time
//!  look:     machine ── Greeting::Look { have } ──▶ server, Reply::Servers { have, news } back, then Greeting::Tell { news }
//! ```
//!
//! What was told is noted for each session, so that a change costs one message to each neighbour, and what all know nothing.

use super::news::{Have, News};
use crate::contents::message::{Ask, Reply};
use crate::contents::push::ask;
use crate::greet;
use crate::session::Session;
use crate::volume::Volume;
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::debug;
use wayfs_net::{CloseCode, Connection};
use wayfs_types::VolumeId;

/// Longest wait for a neighbour's answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Neighbours told at the same time.
const AT_ONCE: usize = 32;

/// Tells all neighbours whatever changes, until the volume is gone.
pub(crate) async fn spread(volume: Weak<Volume>) {
    let Some(mut changes) = volume.upgrade().map(|volume| volume.directory.subscribe()) else { return };
    // What was there before the first session is told when it begins.
    while changes.changed().await.is_ok() {
        let Some(sessions) = volume.upgrade().map(|volume| volume.all_sessions()) else { return };
        let mut telling = JoinSet::new();
        for session in sessions {
            if telling.len() >= AT_ONCE {
                telling.join_next().await;
            }
            let Some(volume) = volume.upgrade() else { return };
            telling.spawn(async move { tell(&volume, &session).await });
        }
        while telling.join_next().await.is_some() {}
    }
}

/// Tells a neighbour what it lacks, if anything.
pub(crate) async fn tell(volume: &Arc<Volume>, session: &Session) {
    let news = volume.directory.news_for(&session.has());
    if !news.is_empty() {
        say(volume, session, news).await;
    }
}

/// Asks a neighbour what it has that is new, and tells it what it lacks.
pub(crate) async fn swap(volume: &Arc<Volume>, session: &Session) {
    let news = volume.directory.news_for(&session.has());
    say(volume, session, news).await;
}

async fn say(volume: &Arc<Volume>, session: &Session, news: News) {
    let have = volume.directory.have();
    match timeout(PATIENCE, ask(&session.connection, &Ask::Servers { have: have.clone(), news })).await {
        Ok(Ok(Reply::Servers { have: theirs, news })) => {
            session.note_has(&theirs);
            session.note_has(&have);
            volume.take_news(news);
        }
        Ok(other) => debug!(node = %session.node.short(), ?other, "servers could not be told"),
        Err(_) => debug!(node = %session.node.short(), "servers could not be told in time"),
    }
}

/// Answers a neighbour's [`Ask::Servers`].
pub(crate) fn answer(volume: &Arc<Volume>, session: Option<&Session>, have: &Have, news: News) -> Reply {
    volume.take_news(news);
    let reply = Reply::Servers { have: volume.directory.have(), news: volume.directory.news_for(have) };
    if let Some(session) = session {
        session.note_has(have);
        session.note_has(&volume.directory.have());
    }
    reply
}

/// Swaps news with a server to which there is no session, over a fresh connection, which is closed then.
pub(crate) async fn look(volume: &Arc<Volume>, connection: &Connection) {
    let id: VolumeId = volume.id();
    match timeout(PATIENCE, greet::look(connection, id, volume.directory.have())).await {
        Ok(Ok((frames, have, news))) => {
            volume.take_news(news);
            let lacks = volume.directory.news_for(&have);
            if !lacks.is_empty() && timeout(PATIENCE, greet::tell(connection, &frames, lacks)).await.is_err() {
                debug!(node = %connection.peer().short(), "a server did not listen to news in time");
            }
        }
        Ok(Err(error)) => debug!(node = %connection.peer().short(), %error, "a server tells nothing of servers"),
        Err(_) => debug!(node = %connection.peer().short(), "a server did not answer in time"),
    }
    connection.close(CloseCode::GOODBYE, "");
}

impl Session {
    /// What the neighbour has, as far as is known.
    pub(crate) fn has(&self) -> Have {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn note_has(&self, have: &Have) {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner).note(have);
    }
}
