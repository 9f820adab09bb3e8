//! What was seen: rows, a plot, words, raw data.

use super::{Event, GONE_MAX, GRACE, PLACES, SETTLED, Story};
use crate::{Aim, Axis, Context, Estimate, Figure, Findings, LabError, Origin, Row, Series, Style, Verdict};
use std::time::Duration;

/// A file is there once, and a tenth is names, lists and what segments leave.
const ONCE: f64 = 1.1;

impl Story {
    /// When something happened.
    fn when(&self, event: Event) -> Option<Duration> {
        self.events.iter().find(|(happened, _)| *happened == event).map(|(_, at)| *at)
    }

    /// What a place had by then beyond what it had before, by the file's size.
    fn share(&self, place: usize, at: Duration) -> f64 {
        let look = self.looks.iter().take_while(|look| look.at <= at).last();
        let bytes = look.map_or(0, |look| look.space[place].saturating_sub(self.before[place]));
        bytes as f64 / self.len as f64
    }

    /// The most that a place had.
    fn most(&self, place: usize) -> f64 {
        let most = self.looks.iter().map(|look| look.space[place]).max().unwrap_or_default();
        most.saturating_sub(self.before[place]) as f64 / self.len as f64
    }

    /// How long after the removal a place had it no more.
    fn back(&self, place: usize) -> Option<Duration> {
        let removed = self.when(Event::Removed)?;
        let after = self.looks.iter().find(|look| look.at >= removed && look.is_back(place, self.before, self.len));
        Some(after.map_or(GONE_MAX, |look| look.at - removed))
    }
}

pub(super) fn tell(context: &mut Context<'_>, story: &Story) -> Result<Findings, LabError> {
    write(context, story)?;
    let rows = rows(story);
    Ok(Findings {
        expected: expected(story),
        came_out: came_out(&rows),
        why_they_differ: String::new(),
        figures: vec![over_time(story)],
        rows,
    })
}

fn expected(story: &Story) -> String {
    format!(
        "A file of {:.0} MB that cannot be compressed is to be once on each disk that has it: at its writer within {} s of its safety, at the reader after \
         it was read. The stations and the home have chunks only. What is removed is to be gone from all of them within the grace of {} s and a minute.",
        story.len as f64 / 1e6,
        SETTLED.as_secs(),
        GRACE.as_secs(),
    )
}

fn rows(story: &Story) -> Vec<Row> {
    let mut rows = Vec::new();
    for (place, name) in PLACES.into_iter().enumerate() {
        rows.push(Row::new(format!("most space, {name}"), "of its size", Estimate::exact(story.most(place))));
        // A reader has it later than the others.
        let is_reader = name.starts_with("reader");
        let (begin, end) = if is_reader { (Event::Read, Event::ReadLongAgo) } else { (Event::Safe, Event::Settled) };
        if let (Some(begin), Some(end)) = (story.when(begin), story.when(end)) {
            let share = Estimate::exact(story.share(place, end));
            let after = if is_reader { "it was read" } else { "it was safe" };
            rows.push(
                Row::new(format!("space, {name}, later"), "of its size", share)
                    .aim(Aim::AtMost(ONCE))
                    .note(format!("{:.0} s after {after}", (end - begin).as_secs_f64())),
            );
        }
        if let Some(back) = story.back(place) {
            let seconds = Estimate::exact(back.as_secs_f64());
            let row = Row::new(format!("space back after the removal, {name}"), "s", seconds);
            let never = if back == GONE_MAX { "it was not back when the run ended" } else { "" };
            rows.push(row.aim(Aim::AtMost((GRACE + SETTLED).as_secs_f64())).note(never));
        }
    }
    rows
}

fn came_out(rows: &[Row]) -> String {
    let missed: Vec<String> = rows
        .iter()
        .filter(|row| row.verdict() == Verdict::Missed)
        .map(|row| format!("{} ({:.2} {})", row.what, row.ours.mean, row.unit))
        .collect();
    match missed.is_empty() {
        true => "All as wanted.".to_owned(),
        false => format!("Not as wanted: {}.", missed.join("; ")),
    }
}

fn over_time(story: &Story) -> Figure {
    let every = (story.looks.len() / 500).max(1);
    let of_place = |(place, name): (usize, &str)| {
        let looks = story.looks.iter().step_by(every).chain(story.looks.last());
        let points = looks.map(|look| (look.at.as_secs_f64(), story.share(place, look.at)));
        Series::new(name, Style::Steps, Origin::Measured, points)
    };
    let events: Vec<String> =
        story.events.iter().map(|(event, at)| format!("{} {:.1} s", words(*event), at.as_secs_f64())).collect();
    Figure {
        title: "Space over time".into(),
        x: Axis::linear("since the file was begun", "s"),
        y: Axis::linear("space", "of its size"),
        series: PLACES.into_iter().enumerate().map(of_place).collect(),
        caption: format!("{}.", events.join(", ")),
    }
}

const fn words(event: Event) -> &'static str {
    match event {
        Event::Written => "Written at",
        Event::Safe => "safe at",
        Event::Stable => "stable at",
        Event::Settled => "looked at again at",
        Event::Read => "read elsewhere at",
        Event::ReadLongAgo => "looked at once more at",
        Event::Removed => "removed at",
        Event::End => "ended at",
    }
}

fn write(context: &mut Context<'_>, story: &Story) -> Result<(), LabError> {
    let columns: Vec<String> = ["at_s".to_owned()]
        .into_iter()
        .chain(PLACES.iter().map(|place| format!("{}_bytes", place.replace(['\'', ' '], "_"))))
        .collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut csv = context.csv("space", &columns)?;
    for look in &story.looks {
        let at = format!("{:.3}", look.at.as_secs_f64());
        csv.row(&[at].into_iter().chain(look.space.map(|bytes| bytes.to_string())).collect::<Vec<_>>())?;
    }
    csv.finish()
}

#[cfg(test)]
mod tests {
    use super::super::watch::Look;
    use super::*;

    /// A file of 100 bytes that its writer has twice at first.
    fn story(at_the_end: u64) -> Story {
        let look = |second, writer, others| Look {
            at: Duration::from_secs(second),
            space: [writer, others, others, others, others],
        };
        let seconds = |event, second| (event, Duration::from_secs(second));
        Story {
            len: 100,
            before: [50; 5],
            looks: vec![look(0, 50, 50), look(1, 250, 150), look(61, 150, 150), look(700, at_the_end, 50)],
            events: vec![
                seconds(Event::Safe, 1),
                seconds(Event::Settled, 62),
                seconds(Event::Read, 63),
                seconds(Event::ReadLongAgo, 90),
                seconds(Event::Removed, 100),
            ],
        }
    }

    #[test]
    fn space_is_told_by_the_size_of_the_file() {
        let rows = rows(&story(50));
        let row = |what: &str| rows.iter().find(|row| row.what == what).unwrap();
        assert_eq!((row("most space, writer").ours.mean, row("space, writer, later").ours.mean), (2.0, 1.0));
        assert_eq!(row("space back after the removal, writer").ours.mean, 600.0);
        assert!(rows.iter().all(|row| row.verdict() != Verdict::Missed), "{rows:?}");
    }

    #[test]
    fn what_never_goes_is_missed() {
        let rows = rows(&story(150));
        let row = rows.iter().find(|row| row.what == "space back after the removal, writer").unwrap();
        assert_eq!((row.ours.mean, row.verdict()), (GONE_MAX.as_secs_f64(), Verdict::Missed));
    }
}
