//! Passing a chunk on while it comes.
//!
//! It goes on as it came, packed by whoever sent it, if there is nothing to gain by packing it anew: no base fits, and it was packed,
//! or the line to the asker is too fast for packing.

use super::bases::Offer;
use super::history::BASE_LEN_MAX;
use super::inflow::Inflow;
use super::message::{self, Reply};
use super::wait::Wait;
use super::want::Want;
use crate::session::Session;
use crate::volume::{BODIES_MAX, Volume};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::SemaphorePermit;
use wayfs_net::{RequestError, Responder};

/// How often an asker hears that a body goes on whose source is slow: well below its idle timeout.
const SIGN_PERIOD: Duration = Duration::from_secs(2);

impl Volume {
    /// Whether what comes is to go on as it comes, and room in memory for it: whoever holds it may be slow, and what is here goes
    /// before.
    pub(crate) fn room_to_pass_on(
        &self,
        session: &Session,
        offer: &Offer,
        inflow: &Inflow,
    ) -> Option<SemaphorePermit<'_>> {
        let is_small_as_it_is = !session.path(self).is_slow() || {
            let has_siblings = inflow.head.may_be_like_others() && session.history.given().has_bases(offer.number);
            let has_bases = has_siblings || self.fitting(&offer.named) != 0;
            inflow.head.is_packed && !has_bases
        };
        if !is_small_as_it_is || self.bodies.available_permits() <= BODIES_MAX / 2 {
            return None;
        }
        self.bodies.try_acquire().ok()
    }

    /// Gives a chunk as it comes. If it breaks off, the asker is told, and asks again.
    pub(crate) async fn pass_on(
        self: &Arc<Self>,
        session: &Session,
        (want, offer): (Want, &Offer),
        mut inflow: Inflow,
        responder: Responder,
    ) -> Result<(), RequestError> {
        let header = message::encode(&Reply::Found(inflow.head.form));
        let mut body = responder.answer_with_body(header, inflow.head.len).await?;
        loop {
            match tokio::time::timeout(SIGN_PERIOD, inflow.next()).await {
                Ok(Some(piece)) => body.send(piece).await?,
                Ok(None) => break,
                Err(_) => body.still_here().await?,
            }
        }
        if !inflow.is_through() {
            // Dropped, the body is taken back.
            return Ok(());
        }
        body.finish().await?;
        self.metrics.chunks_passed_on.add(1);
        self.metrics.bytes_up.add(inflow.head.len);
        self.metrics.bytes_up_unpacked.add(inflow.head.unpacked_len());
        self.note_given(session, (want, offer), &inflow).await;
        Ok(())
    }

    /// The asker has it: it may be a base of what it asks for next, as if it had been packed here.
    async fn note_given(self: &Arc<Self>, session: &Session, (want, offer): (Want, &Offer), inflow: &Inflow) {
        let is_too_long = inflow.head.unpacked_len() > BASE_LEN_MAX as u64;
        if offer.number == 0 || is_too_long || !session.path(self).is_slow() {
            return;
        }
        self.fetch_under_way(&want.digest, &mut Wait::new(SIGN_PERIOD, &|| ())).await;
        if let Ok(chunk) = self.contents.read(want.digest).await {
            session.history.given().give(offer.number, &chunk);
        }
    }
}
