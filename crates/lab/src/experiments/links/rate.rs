//! Rate: how much TCP a line of a given rate carries.

use super::{Part, symmetric};
use crate::probe::{self, Bulk, BulkProgress};
use crate::{Aim, Axis, Context, Estimate, Figure, LabError, Origin, Row, Series, Style, quantile};
use std::time::Duration;
use wayfs_link::{Capacity, DirectionConfig};

/// What TCP with timestamps makes of a packet of 1500 bytes.
const PAYLOAD_SHARE: f64 = 1448.0 / 1500.0;
/// The part of what is possible that is wanted.
const SHARE_MIN: f64 = 0.97;
/// Rates in Mb/s; zero is unlimited.
const RATES: [u64; 6] = [1, 10, 100, 500, 1000, 0];

pub(super) fn run(context: &mut Context<'_>) -> Result<Part, LabError> {
    let mut csv = context.csv("rate", &["configured_mbps", "run", "at_s", "received_bytes"])?;
    let mut part = Part { rows: Vec::new(), figures: Vec::new() };
    let mut shown = Vec::new();
    for rate in RATES {
        let runs = context.choose(1, 3);
        let (mut typical, mut mean) = (Vec::new(), Vec::new());
        for run in 0..runs {
            let notes = measure(context, Try { rate, run })?;
            for note in &notes {
                let numbers = [rate as f64, run as f64, note.at.as_secs_f64(), note.len as f64];
                csv.row(&numbers)?;
            }
            typical.push(median_rate(&notes));
            mean.push(mean_rate(&notes));
        }
        let ours = Estimate::of(&typical);
        let name = if rate == 0 { "unlimited line".to_owned() } else { format!("{rate} Mb/s") };
        part.rows.push(Row::new(format!("mean rate, {name}"), "Mb/s", Estimate::of(&mean)));
        if rate == 0 {
            part.rows.push(Row::new("rate reached, unlimited line", "Mb/s", ours));
            continue;
        }
        let possible = rate as f64 * PAYLOAD_SHARE;
        let row = Row::new(format!("rate reached, {name}"), "Mb/s", ours);
        let wanted = Aim::Between(SHARE_MIN * possible, 1.005 * possible);
        part.rows.push(row.aim(wanted).note(format!("{possible:.1} is what 1448 of 1500 bytes leave")));
        shown.push((rate as f64, ours));
    }
    csv.finish()?;
    let possible = shown.iter().map(|(rate, _)| (*rate, rate * PAYLOAD_SHARE)).collect::<Vec<_>>();
    part.figures.push(Figure {
        title: "Rate reached by TCP".into(),
        x: Axis::logarithmic("rate of the line", "Mb/s"),
        y: Axis::logarithmic("received", "Mb/s"),
        series: vec![
            Series::estimates("ours", Style::Points, Origin::Measured, shown),
            Series::new("1448 of 1500 bytes", Style::Curve, Origin::Model, possible),
        ],
        caption: "One TCP connection (Reno with selective acknowledgements), without the first half second: the median of spans of at least 100 ms, \
                  so that a sender or receiver without a processor does not count; bars are 95 % intervals. The mean is among the numbers."
            .into(),
    });
    Ok(part)
}

/// One try at a rate in Mb/s; zero has no limit.
#[derive(Debug, Clone, Copy)]
struct Try {
    rate: u64,
    run: u64,
}

fn measure(context: &mut Context<'_>, Try { rate, run }: Try) -> Result<Vec<BulkProgress>, LabError> {
    let name = if rate == 0 { "unlimited".to_owned() } else { format!("{rate} Mbps") };
    let part = format!("rate, {name}, run {run}");
    let mut lab = context.topology(&part, context.seed() + run)?;
    for host in ["sender", "receiver"] {
        lab.host(host)?;
        lab.sysctl(host, "net.ipv4.tcp_congestion_control", "reno")?;
    }
    let capacity = if rate == 0 { Capacity::Unlimited } else { Capacity::Rate(rate * 1_000_000) };
    let direction = DirectionConfig { capacity, queue_len_max: 1 << 20, ..DirectionConfig::default() };
    lab.link("sender", "receiver", symmetric(direction))?;
    let transfer = Bulk { duration: Duration::from_secs(context.choose(1, 4)), len_max: u64::MAX };
    let notes = probe::bulk(&lab, "sender", "receiver", transfer)?;
    context.finish(&part, lab);
    Ok(notes)
}

/// Begin of what counts: connections start slowly.
const BEGIN: Duration = Duration::from_millis(500);
/// Shortest span over which a rate is taken.
const SPAN: Duration = Duration::from_millis(100);

/// Mb/s over all that counts. The queue is emptied after the sender's end; that time belongs to the transfer, too.
fn mean_rate(notes: &[BulkProgress]) -> f64 {
    let begin = notes.iter().find(|note| note.at >= BEGIN);
    begin.zip(notes.last()).map_or(0.0, |(begin, end)| rate_between(begin, end))
}

/// The median of Mb/s over spans one after the other.
fn median_rate(notes: &[BulkProgress]) -> f64 {
    let mut rates = Vec::new();
    let mut begin: Option<&BulkProgress> = None;
    for note in notes.iter().filter(|note| note.at >= BEGIN) {
        match begin {
            Some(since) if since.at + SPAN <= note.at => {
                rates.push(rate_between(since, note));
                begin = Some(note);
            }
            Some(_) => {}
            None => begin = Some(note),
        }
    }
    quantile(&mut rates, 0.5)
}

fn rate_between(begin: &BulkProgress, end: &BulkProgress) -> f64 {
    let seconds = end.at.saturating_sub(begin.at).as_secs_f64();
    if seconds > 0.0 { (end.len - begin.len) as f64 * 8.0 / 1e6 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_moves_the_mean_but_not_the_median() {
        // 8 Mb/s, noted every 50 ms, and nothing at all for a second.
        let note = |n: u64| BulkProgress {
            at: Duration::from_millis(50 * n) + if n > 30 { Duration::from_secs(1) } else { Duration::ZERO },
            len: 50_000 * n,
        };
        let notes: Vec<BulkProgress> = (0..60).map(note).collect();
        assert!((median_rate(&notes) - 8.0).abs() < 0.01, "{}", median_rate(&notes));
        assert!(mean_rate(&notes) < 6.0, "{}", mean_rate(&notes));
        assert_eq!((median_rate(&[]), mean_rate(&[])), (0.0, 0.0));
    }
}
