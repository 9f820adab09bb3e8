//! What a loss means: a full queue, a burst on the air, or a packet now and then.
//!
//! * **Burst**: all that was sent over a while is lost in one run, or nothing at all was acknowledged for a while before the
//!   loss was found, or the link said that it was down. A queue that is full lets a packet in whenever one leaves, and
//!   acknowledgements go on.
//! * **Full queue**: round trips were longer than the path before the loss. Or very much is lost: the queue is too short to
//!   be seen.
//! * **Scattered**: none of these. The path loses packets, and sending less would change nothing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What a loss is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Burst,
    FullQueue,
    Scattered,
}

/// What is known of the path when a loss is found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path {
    /// Without any queue.
    pub(crate) rtt_min: Duration,
    /// Of late.
    pub(crate) rtt: Duration,
    /// Bytes per second that it delivers; zero if that is not known.
    pub(crate) rate: f64,
    /// Longest packet.
    pub(crate) mtu: u64,
    /// The link said that it was down.
    pub(crate) is_excused: bool,
}

/// Packets sent within this are remembered as one.
const GRAIN: Duration = Duration::from_millis(1);
/// Remembered at most; older ones are forgotten.
const SENT_LEN_MAX: usize = 2048;
/// A run of lost packets has at least so many, and takes longer to send than half of a packet less does.
const RUN_PACKETS: u64 = 3;
const RUN_TIME: f64 = 2.5;
/// Acknowledgements come in bunches; so long a pause, and so many times the usual one, is none of that.
const SILENCE_MIN: Duration = Duration::from_millis(15);
const SILENCE_FACTOR: f64 = 3.0;
/// Round trips that are longer than the path by its eighth and this show a queue.
const QUEUE_MIN: Duration = Duration::from_millis(3);
/// More than this part of all is lost on no path whose queue is not full.
const LOST_SHARE_MAX: f64 = 0.1;
/// How long shares are counted, at least.
const SHARE_PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy)]
struct Sent {
    begin: Instant,
    end: Instant,
    bytes: u64,
    acked: u64,
}

/// Judges the losses of one path.
#[derive(Debug, Clone, Default)]
pub(crate) struct LossJudge {
    sent: VecDeque<Sent>,
    acked_at: Option<Instant>,
    /// Before the last acknowledgement nothing was heard for long, though something was under way.
    was_silent: bool,
    /// When the end of the last burst was found.
    burst_found: Option<Instant>,
    /// The usual pause between acknowledgements, in seconds.
    pause: f64,
    lost: u64,
    acked: u64,
    /// The part that was lost in the last whole period.
    lost_share: f64,
    share_began: Option<Instant>,
}

impl LossJudge {
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64) {
        if let Some(last) = self.sent.back_mut().filter(|last| now.saturating_duration_since(last.begin) < GRAIN) {
            (last.end, last.bytes) = (now, last.bytes + bytes);
            return;
        }
        if self.sent.len() >= SENT_LEN_MAX {
            self.sent.pop_front();
        }
        self.sent.push_back(Sent { begin: now, end: now, bytes, acked: 0 });
    }

    /// A packet was acknowledged that was sent then.
    pub(crate) fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64) {
        if self.acked_at != Some(now) {
            self.note_silence(now, sent);
        }
        self.acked += bytes;
        let place = self.place(sent);
        if let Some(entry) = self.sent.get_mut(place).filter(|entry| entry.begin <= sent) {
            entry.acked += bytes;
        }
        while self.sent.front().is_some_and(|first| first.acked >= first.bytes && first.end < sent) {
            self.sent.pop_front();
        }
        self.turn(now);
    }

    /// A loss was found: so many bytes, the last of them sent then.
    pub(crate) fn judge(&mut self, now: Instant, last_sent: Instant, bytes: u64, path: &Path) -> Verdict {
        // What was under way when the end of a burst was found belongs to it.
        let is_same = self.burst_found.is_some_and(|found| last_sent <= found);
        let is_burst = is_same || path.is_excused || self.was_silent || self.is_run(last_sent, path);
        // Older packets are acknowledged or lost, and settled by that.
        while self.sent.front().is_some_and(|first| first.end <= last_sent) {
            self.sent.pop_front();
        }
        if is_burst {
            if !is_same {
                self.burst_found = Some(now);
            }
            return Verdict::Burst;
        }
        self.lost += bytes;
        self.turn(now);
        if path.rtt > path.rtt_min + path.rtt_min / 8 + QUEUE_MIN || self.lost_share > LOST_SHARE_MAX {
            return Verdict::FullQueue;
        }
        Verdict::Scattered
    }

    /// Was nothing heard for long, though something was under way, until this acknowledgement of what was sent then?
    fn note_silence(&mut self, now: Instant, sent: Instant) {
        let first = self.sent.front().map_or(sent, |first| first.begin);
        let silence = match self.acked_at {
            Some(at) if first <= at => now.saturating_duration_since(at),
            // After a pause: what was sent before the first that is acknowledged was sent for nothing.
            Some(_) | None => sent.saturating_duration_since(first),
        };
        self.was_silent = silence >= SILENCE_MIN.max(Duration::from_secs_f64(SILENCE_FACTOR * self.pause));
        // One long silence is not usual.
        self.pause += (silence.as_secs_f64().min(4.0 * self.pause.max(0.001)) - self.pause) / 16.0;
        self.acked_at = Some(now);
    }

    /// Whether all that was sent for a while up to then is lost.
    fn is_run(&self, last_sent: Instant, path: &Path) -> bool {
        if path.rate <= 0.0 {
            return false;
        }
        let last = self.place(last_sent);
        let mut run = (0, last_sent);
        for entry in self.sent.range(..(last + 1).min(self.sent.len())).rev() {
            if entry.acked > 0 {
                break;
            }
            run = (run.0 + entry.bytes, entry.begin);
        }
        let packet_time = path.mtu as f64 / path.rate;
        let took = last_sent.saturating_duration_since(run.1);
        run.0 >= RUN_PACKETS * path.mtu && took.as_secs_f64() >= RUN_TIME * packet_time && took >= GRAIN * 3
    }

    /// Where the packets sent then are.
    fn place(&self, sent: Instant) -> usize {
        self.sent.partition_point(|entry| entry.begin <= sent).saturating_sub(1)
    }

    fn turn(&mut self, now: Instant) {
        let began = *self.share_began.get_or_insert(now);
        if now.saturating_duration_since(began) < SHARE_PERIOD {
            return;
        }
        let all = self.lost + self.acked;
        self.lost_share = if all == 0 { 0.0 } else { self.lost as f64 / all as f64 };
        (self.lost, self.acked, self.share_began) = (0, 0, Some(now));
    }
}

#[cfg(test)]
mod tests;
