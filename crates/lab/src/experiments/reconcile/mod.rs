//! Reconciliation: what it costs a home that stations tell it what they have, and how long it takes.
//!
//! Records gather at a station while its line is cut, and go home at once when it is restored. The home counts what it
//! spends; the time until everything is visible is seen at the station.

mod backlog;
mod cost;
mod fleet;
mod gauges;
mod large;
mod outage;

use crate::{Context, Experiment, Figure, Findings, LabError, Row, Verdict};

/// The experiment.
pub(super) struct Reconcile;

/// What one part found.
#[derive(Default)]
struct Part {
    rows: Vec<Row>,
    figures: Vec<Figure>,
}

impl Experiment for Reconcile {
    fn name(&self) -> &'static str {
        "reconcile"
    }

    fn about(&self) -> &'static str {
        "What does it cost a home, and how long does it take, to hear what stations have: 100 to 100,000 records, 1 to 64 stations?"
    }

    fn settings(&self) -> &'static [&'static str] {
        &["only", "records", "scenarios", "stations"]
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        type Run = fn(&mut Context<'_>) -> Result<Part, LabError>;
        const PARTS: [(&str, Run); 4] =
            [("cost", cost::run), ("outage", outage::run), ("large", large::run), ("stations", fleet::run)];
        let only = context.setting("only").map(str::to_owned);
        if let Some(only) = only.as_deref().filter(|only| PARTS.iter().all(|(name, _)| name != only)) {
            let names = PARTS.map(|(name, _)| name).join(", ");
            return Err(LabError::Experiment(format!("there is no part {only}: only=PART takes one of {names}")));
        }
        let mut findings = Findings { expected: EXPECTED.into(), ..Findings::default() };
        for (name, run) in PARTS {
            if only.as_deref().is_none_or(|only| only == name) {
                let part = run(context)?;
                findings.rows.extend(part.rows);
                findings.figures.extend(part.figures);
            }
        }
        tell(&mut findings);
        Ok(findings)
    }
}

const EXPECTED: &str = "The home spends milliseconds on 500 records, on every line, where the research's prototype spent 1.1 s: both send only the knowledge of updates, but \
ours applies them in one transaction of a log-structured store, on a processor some ten times faster. Home time grows in proportion to the records. Total time is three to \
five round trips (the state of the volume, the records, their confirmation), the bytes of the records on thin lines (500 records are some 50 KB: 7 s at 56 kb/s, below 0.5 s at 1 Mb/s), \
and the home time; it stays below the research's period of 15 s everywhere.\n\nAfter an outage the station first has to find its home: it tries for 5 s at a time with pauses of at most 2 s, so records should arrive a few \
seconds after the line is back.\n\nOne home takes thousands of records a second from one station. Each further station has to be told of every record, so the home's work per record grows with \
the number of stations.";

/// Says in words what the rows say.
fn tell(findings: &mut Findings) {
    let named = |start: &str| findings.rows.iter().filter(|row| row.what.starts_with(start)).collect::<Vec<_>>();
    let range = |rows: &[&Row]| {
        let low = rows.iter().map(|row| row.ours.mean).fold(f64::INFINITY, f64::min);
        let high = rows.iter().map(|row| row.ours.mean).fold(f64::NEG_INFINITY, f64::max);
        (low, high)
    };
    let mut said = Vec::new();
    let home: Vec<&Row> = named("home time").into_iter().filter(|row| row.published.is_some()).collect();
    if !home.is_empty() {
        let (low, high) = range(&home);
        said.push(format!(
            "The home worked {:.1} to {:.1} ms on 500 records, by scenario (published: 1100 ms).",
            low * 1e3,
            high * 1e3
        ));
        let total: Vec<&Row> =
            named("total time").into_iter().filter(|row| row.what.contains(" 500 records")).collect();
        let (low, high) = range(&total);
        said.push(format!("In total, 500 records took {low:.2} to {high:.2} s."));
    }
    if let Some(row) = named("bytes on the wire, record without contents, to the home").first() {
        said.push(format!("A record without contents is {:.0} bytes on the wire.", row.ours.mean));
    }
    let outages = named("until the first record");
    if !outages.is_empty() {
        let (low, high) = range(&outages);
        said.push(format!("After an outage the first record was confirmed {low:.2} to {high:.2} s after the line was back, on average of each length."));
    }
    if let Some(row) = named("records confirmed per second").first() {
        said.push(format!("{}: {:.0} a second.", row.what, row.ours.mean));
    }
    let rates = named("records that the home took per second");
    if let (Some(first), Some(last)) = (rates.first(), rates.last()) {
        said.push(format!("{}: {:.0}; {}: {:.0}.", first.what, first.ours.mean, last.what, last.ours.mean));
    }
    let stuck: Vec<&Row> = named(fleet::STUCK_ROW).into_iter().filter(|row| row.ours.mean > 0.0).collect();
    if let Some(worst) = stuck.iter().max_by(|a, b| a.ours.mean.total_cmp(&b.ours.mean)) {
        said.push(format!(
            "{} (at worst): {:.0}. They are at the home; a new session brought the word.",
            worst.what, worst.ours.mean
        ));
    }
    if let Some(back) = echo(&findings.rows) {
        said.push(back);
    }
    findings.came_out = said.join(" ");
    let missed: Vec<&str> =
        findings.rows.iter().filter(|row| row.verdict() == Verdict::Missed).map(|row| row.what.as_str()).collect();
    findings.why_they_differ = match missed.is_empty() {
        true => WHY.into(),
        false => format!(
            "Not as wanted: {}. Look at the raw data for single slow trials: a busy machine shows as time of the disk.",
            missed.join("; ")
        ),
    };
}

/// What comes back for a record: more than went, since the home tells a station the state that its own records led to, too.
fn echo(rows: &[Row]) -> Option<String> {
    let of =
        |end: &str| rows.iter().find(|row| row.what == format!("bytes on the wire, record without contents, {end}"));
    let (there, back) = (of("to the home")?.ours.mean, of("back")?.ours.mean);
    (back > there).then(|| {
        format!("What comes back to the station is {:.1} times what it sent ({back:.0} bytes a record): the home tells it the state that its own records led to.", back / there)
    })
}

const WHY: &str = "The published time is of a 550 MHz processor with Java between the messages and the store, and without crash recovery; ours is of this machine, and everything that the home confirms \
is on disk. The rate from many stations is bounded by this one machine, on which home, stations and the emulated network run together; the home's own work (second row of each number of \
stations) says what a home with processors of its own could take.";
