//! How many records a second one home sustains from many stations.
//!
//! Stations are real daemons, each with a backlog behind its cut line; all lines are restored at once. Every station holds
//! the whole metadata of the volume, so what one sends the home tells all others: the work of the home grows with the
//! number of stations even if the number of records does not. That is why the records are the same in number at each
//! step, shared out among the stations, and why the home's own time is shown beside the rate: stations, home
//! and the emulator share the processors of one machine, which a home in the field would have for itself.

use super::Part;
use super::backlog::{self, Backlog, Load};
use super::gauges::{Gauges, Spent, processor_time, serve_arguments};
use crate::context::Parts;
use crate::experiments::chosen::number;
use crate::{
    Aim, Axis, Context, Estimate, Figure, LabError, Origin, Row, Series, Sites, SitesPlan, Style, line, station_of,
};
use std::ops::Range;
use std::time::{Duration, Instant};
use wayfs_link::LineState;

/// Lines that are no bottleneck: this part is about the home.
const LINE: &str = "gigabit";
/// Most stations: each has a client, and a topology has room for 250 hosts. A client can choose its station only if it is told of
/// it, among at most 80 servers.
const STATIONS_MAX: usize = 64;
/// Between two looks at the home.
const LOOK: Duration = Duration::from_millis(20);
/// Longest wait for all records.
const PATIENCE: Duration = Duration::from_secs(600);
/// Records of which none was confirmed for so long are stuck: nothing but a new session moves them.
const STUCK: Duration = Duration::from_secs(20);
/// The home is done with telling others when it uses less than this share of a processor.
const IDLE_SHARE: f64 = 0.05;
/// Over which that share is taken.
const IDLE_SPAN: Duration = Duration::from_millis(300);

/// What came of one number of stations.
struct Step {
    stations: usize,
    /// Records that the home took, and their times since the lines are back.
    applied: Vec<(f64, u64)>,
    confirmation: Confirmation,
    spent: Spent,
    /// Bytes in the memory of a station, on average.
    memory: f64,
}

/// How the home's word came back to the stations.
#[derive(Clone, Copy)]
enum Confirmation {
    /// Every station had all its records confirmed, durable at the home, so many seconds after the lines were back.
    Whole(f64),
    /// So many records were at the home, and their stations did not hear of it.
    Stuck(u64),
}

impl Step {
    fn records(&self) -> u64 {
        self.applied.last().map_or(0, |(_, applied)| *applied)
    }

    /// Records a second while the second to ninth tenth of them came: stations do not come back at the same moment.
    fn rate(&self) -> f64 {
        let at = |share: f64| {
            let wanted = share * self.records() as f64;
            self.applied.iter().find(|(_, applied)| *applied as f64 >= wanted).copied()
        };
        match at(0.1).zip(at(0.9)) {
            Some(((begin, first), (end, last))) if end > begin => (last - first) as f64 / (end - begin),
            // All came between two looks.
            Some(((begin, _), (_, last))) => last as f64 / begin.max(LOOK.as_secs_f64()),
            None => 0.0,
        }
    }

    /// Records a second that the home's own work allows: engine and disk run beside each other.
    fn rate_of_home(&self) -> f64 {
        self.records() as f64 / self.spent.engine.max(self.spent.disk).max(f64::MIN_POSITIVE)
    }

    fn processor_us(&self) -> f64 {
        self.spent.processor * 1e6 / self.records().max(1) as f64
    }
}

pub(super) fn run(context: &mut Context<'_>) -> Result<Part, LabError> {
    let counts = counts(context)?;
    let records = number(context, "records", context.choose(4_000, 25_600))?;
    let most = counts.last().copied().unwrap_or_default();
    let plan = SitesPlan { wide: vec![line(LINE)?; most], serve: serve_arguments(), ..SitesPlan::profiles(&[])? };
    context.progress(Parts { done: 0, total: counts.len() }, "stations: building the network");
    let mut sites = Sites::network(context, "stations", context.seed(), plan)?;
    sites.start_home()?;
    let mut csv = context.csv("stations", &["stations", "at_s", "records"])?;
    let mut steps = Vec::new();
    let mut started = 0;
    for (number, stations) in counts.iter().copied().enumerate() {
        context.progress(Parts { done: number, total: counts.len() }, &format!("stations: {stations}"));
        for site in started..stations {
            sites.start_station(site)?;
            sites.mount(site)?;
        }
        started = stations;
        let step = measure(&mut sites, Fleet { stations, files: records / stations })?;
        for (at, applied) in &step.applied {
            csv.row(&[stations as f64, *at, *applied as f64])?;
        }
        steps.push(step);
    }
    csv.finish()?;
    sites.finish(context, "stations");
    Ok(part(&steps))
}

/// How many stations, step by step: as the setting `stations=N,…` says, else up to as many as there can be.
fn counts(context: &Context<'_>) -> Result<Vec<usize>, LabError> {
    let Some(typed) = context.setting("stations") else {
        return Ok(context.choose(vec![1, 4], vec![1, 2, 4, 8, 16, 32, STATIONS_MAX]));
    };
    let counts: Result<Vec<usize>, _> = typed.split(',').map(str::parse).collect();
    match counts {
        Ok(counts) if counts.is_sorted() && counts.iter().all(|count| (1..=STATIONS_MAX).contains(count)) => Ok(counts),
        Ok(_) | Err(_) => Err(LabError::Experiment(format!(
            "stations={typed}: numbers from 1 to {STATIONS_MAX} are wanted, the smallest first"
        ))),
    }
}

/// Stations that gather files.
#[derive(Debug, Clone, Copy)]
struct Fleet {
    stations: usize,
    /// Of each.
    files: usize,
}

/// Lets the first so many sites gather, and the home take it all.
fn measure(sites: &mut Sites, Fleet { stations, files }: Fleet) -> Result<Step, LabError> {
    let name = |site: usize| format!("of-{stations}-{site}");
    for site in 0..stations {
        backlog::prepare(sites, Backlog { site, name: &name(site), files })?;
    }
    for site in 0..stations {
        backlog::cut(sites, site);
    }
    let mut records = 0;
    for site in 0..stations {
        records += backlog::gather(sites, Backlog { site, name: &name(site), files }, Load::Empty)?;
    }
    for site in 0..stations {
        backlog::await_silence(sites, site)?;
    }
    let memory = (0..stations).map(|site| memory(sites, &station_of(site))).sum::<f64>() / stations as f64;
    let before = Spent::by_home(sites)?;
    let begin = Gauges::of(sites, "home")?.applied();
    let restored = Instant::now();
    for site in 0..stations {
        sites.lab().set_state(sites.wide(site), LineState::Connected);
    }
    let applied = watch(sites, restored, begin..begin + records)?;
    let confirmation = await_confirmation(sites, stations, restored)?;
    await_idle(sites)?;
    let spent = Spent::by_home(sites)?.since(before);
    if let Confirmation::Stuck(_) = confirmation {
        begin_anew(sites, stations)?;
    }
    Ok(Step { stations, applied, confirmation, spent, memory })
}

/// Until the home's count of records that it applied has gone through a range.
fn watch(sites: &Sites, restored: Instant, count: Range<u64>) -> Result<Vec<(f64, u64)>, LabError> {
    let looking = || -> Result<Vec<(f64, u64)>, LabError> {
        let mut seen = Vec::new();
        while restored.elapsed() < PATIENCE {
            let gauges = Gauges::scrape().map_err(LabError::io("ask the home for its metrics"))?;
            let applied = gauges.applied() - count.start;
            seen.push((restored.elapsed().as_secs_f64(), applied));
            if applied >= count.end - count.start {
                return Ok(seen);
            }
            std::thread::sleep(LOOK);
        }
        Err(LabError::TimedOut { what: format!("the taking of {} records", count.end - count.start), within: PATIENCE })
    };
    sites.lab().inside("home", looking)?
}

/// Waits until all stations know that the home has all their records, or none of them hears anything any more.
fn await_confirmation(sites: &Sites, stations: usize, restored: Instant) -> Result<Confirmation, LabError> {
    let (mut least, mut moved) = (u64::MAX, Instant::now());
    loop {
        let waiting = (0..stations).map(|site| Ok(Gauges::of(sites, &station_of(site))?.waiting()));
        let waiting = waiting.sum::<Result<u64, LabError>>()?;
        if waiting == 0 {
            return Ok(Confirmation::Whole(restored.elapsed().as_secs_f64()));
        }
        if waiting < least {
            (least, moved) = (waiting, Instant::now());
        }
        if moved.elapsed() > STUCK {
            return Ok(Confirmation::Stuck(waiting));
        }
        std::thread::sleep(LOOK);
    }
}

/// Ends the sessions of stations that are stuck: in new ones they hear all that they have missed.
fn begin_anew(sites: &Sites, stations: usize) -> Result<(), LabError> {
    for site in 0..stations {
        backlog::cut(sites, site);
    }
    for site in 0..stations {
        backlog::await_silence(sites, site)?;
    }
    for site in 0..stations {
        sites.lab().set_state(sites.wide(site), LineState::Connected);
    }
    match await_confirmation(sites, stations, Instant::now())? {
        Confirmation::Whole(_) => Ok(()),
        Confirmation::Stuck(records) => {
            Err(LabError::Experiment(format!("{records} records are not confirmed in a new session, either")))
        }
    }
}

/// Waits until the home has told the other stations.
fn await_idle(sites: &mut Sites) -> Result<(), LabError> {
    let home = sites.daemon("home").map(|process| process.id()).unwrap_or_default();
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let before = processor_time(home)?;
        std::thread::sleep(IDLE_SPAN);
        if (processor_time(home)? - before).as_secs_f64() < IDLE_SHARE * IDLE_SPAN.as_secs_f64() {
            return Ok(());
        }
    }
    Err(LabError::TimedOut { what: "an idle home".into(), within: PATIENCE })
}

/// Bytes that a daemon has in memory; zero if it cannot be asked.
fn memory(sites: &mut Sites, host: &str) -> f64 {
    let process = sites.daemon(host).map(|process| process.id()).unwrap_or_default();
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<f64>().ok());
    kib.unwrap_or_default() * 1024.0
}

fn part(steps: &[Step]) -> Part {
    let mut part = Part::default();
    for step in steps {
        let of = format!("{} stations, {} records in all", step.stations, step.records());
        let row = |what: &str, unit: &str, value: f64| Row::new(format!("{what}, {of}"), unit, Estimate::exact(value));
        part.rows.push(row("records that the home took per second", "/s", step.rate()).note(RATE_NOTE));
        part.rows.push(row("records per second that its own work allows", "/s", step.rate_of_home()).note(HOME_NOTE));
        part.rows.extend(confirmation(step.confirmation, row));
        part.rows.push(row("processor time of the home per record", "us", step.processor_us()));
    }
    if let Some(last) = steps.last() {
        let what = format!("memory of a station, {} of them", last.stations);
        part.rows.push(Row::new(what, "MiB", Estimate::exact(last.memory / f64::from(1 << 20))));
    }
    part.figures.push(figure(steps));
    part
}

fn confirmation(confirmation: Confirmation, row: impl Fn(&str, &str, f64) -> Row) -> Vec<Row> {
    let stuck = match confirmation {
        Confirmation::Whole(_) => 0,
        Confirmation::Stuck(records) => records,
    };
    let stuck = row(STUCK_ROW, "", stuck as f64);
    let mut rows = vec![stuck.aim(Aim::AtMost(0.0)).note(STUCK_NOTE)];
    if let Confirmation::Whole(seconds) = confirmation {
        rows.push(row("until all were confirmed, since the lines are back", "s", seconds).note(CONFIRMED_NOTE));
    }
    rows
}

fn figure(steps: &[Step]) -> Figure {
    let series = |name: &str, value: fn(&Step) -> f64| {
        let points = steps.iter().map(|step| (step.stations as f64, value(step)));
        Series::new(name, Style::Lines, Origin::Measured, points)
    };
    Figure {
        title: "Records that one home sustains".into(),
        x: Axis::logarithmic("stations", ""),
        y: Axis::logarithmic("records per second", "/s"),
        series: vec![
            series("taken, all on this machine", Step::rate),
            series("what the home's own work allows", Step::rate_of_home),
        ],
        caption: "The same number of records from ever more stations, which all get every record. Stations, home and emulator share this machine's \
                  processors; the upper curve counts only the engine or the disk of the home, whichever takes longer."
            .into(),
    }
}

const RATE_NOTE: &str =
    "from the second to the ninth tenth of them, into its memory; the home shares its processors with all stations";
/// Begin of the name of a row: records that are at the home while their stations wait for its word.
pub(super) const STUCK_ROW: &str = "records whose stations did not hear of their confirmation";
const STUCK_NOTE: &str = "the home has them; only a new session brings the word";
const CONFIRMED_NOTE: &str = "with the search for the home, at which every station is for itself";
const HOME_NOTE: &str =
    "records by the time of the home's engine or disk, whichever is longer; also the telling of all other stations";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_leaves_the_late_comers_out() {
        let applied = vec![(0.5, 0), (1.0, 10), (1.4, 50), (1.8, 90), (5.0, 100)];
        let spent = Spent { engine: 0.5, disk: 0.1, processor: 1.0 };
        let step = Step { stations: 2, applied, confirmation: Confirmation::Whole(6.0), spent, memory: 0.0 };
        assert!((step.rate() - 100.0).abs() < 1e-9);
        assert!((step.rate_of_home() - 200.0).abs() < 1e-9);
        assert!((step.processor_us() - 10_000.0).abs() < 1e-6);
    }
}
