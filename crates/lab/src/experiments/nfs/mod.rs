//! NFS over a lossy hop, on real stacks: nfs-ganesha, the kernel's UDP, emulated hops of 1 Mb/s, the client of crate `nfs`, and
//! `wayfs link` where the program has it.
//!
//! The published numbers are those of machines of 1996, whose own speed was half of them: shapes compare, seconds do not. What ours
//! can be held against is the time without errors, stretched by the share of time in which nothing passes.

mod compare;
mod figures;
mod plan;
mod published;
mod room;
mod table;
mod work;

use crate::nfs::NfsServer;
use crate::{Context, Experiment, Findings, LabError, Verdict, link_tool};
use plan::{BAD_MS, Hop};
use table::Table;
use wayfs_link::{BadPeriods, Judged};
use work::{Cells, Work};

/// An experiment of the NFS papers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nfs {
    /// How much a call carries.
    BlockSize,
    /// When calls are sent again.
    Backoff,
    /// The hop repaired.
    Link,
    /// Both.
    Both,
    /// Several clients on one channel.
    TwoClients,
    /// A mobile whose receive buffer is too small.
    Overflow,
}

impl Experiment for Nfs {
    fn name(&self) -> &'static str {
        match self {
            Self::BlockSize => "nfs-block-size",
            Self::Backoff => "nfs-backoff",
            Self::Link => "nfs-link",
            Self::Both => "nfs-both",
            Self::TwoClients => "nfs-two-clients",
            Self::Overflow => "nfs-overflow",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Self::BlockSize => {
                "NFS over a hop with bad periods, real stacks: how much a call reads or writes (figures 3 and 4 of 1996, 4 of 1995)"
            }
            Self::Backoff => {
                "NFS over a hop with bad periods, real stacks: when calls are sent again (tables 1 and 2 of 1995; first timeout, r and c swept)"
            }
            Self::Link => {
                "NFS over a hop with bad periods, real stacks: the hop repaired, as the papers emulated it and by `wayfs link` (table 3 of 1995)"
            }
            Self::Both => {
                "NFS over a hop with bad periods, real stacks: back-off and repaired hop together (tables 4 to 7 of 1995, figures 5, 6 and 9 of 1996)"
            }
            Self::TwoClients => {
                "NFS over a hop with bad periods, real stacks: two to eight clients on one channel (tables 8 and 9 of 1995)"
            }
            Self::Overflow => {
                "NFS over a hop to a mobile whose receive buffer overflows, real stacks (figure 3 of 1995), and reservation"
            }
        }
    }

    fn settings(&self) -> &'static [&'static str] {
        &["durations", "judged", "kilobytes", "runs", "scheme", "side-by-side"]
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        if !NfsServer::is_installed() {
            let why = "Not run: nfs-ganesha, nfs-ganesha-vfs or rpcbind is not installed (apt-get install them).";
            return Ok(Findings { came_out: why.to_owned(), ..Findings::default() });
        }
        let mut work = self.work(context)?;
        let tool =
            work.rows.iter().all(|row| !matches!(row.hop, Hop::Tool(_))) || link_tool::is_there(context.program());
        if !tool {
            work.rows.retain(|row| !matches!(row.hop, Hop::Tool(_)));
        }
        let (cells, failed) = work.carry_out(context)?;
        write_down(context, &work, &cells)?;
        let table = Table { work: &work, cells: &cells };
        let rows = [table.comparisons(*self), table.rows()].concat();
        let missed: Vec<&str> =
            rows.iter().filter(|row| row.verdict() == Verdict::Missed).map(|row| row.what.as_str()).collect();
        let mut came_out =
            if missed.is_empty() { "As wanted.".to_owned() } else { format!("Not as wanted: {}.", missed.join("; ")) };
        if !tool {
            came_out += " `wayfs link` is not in this program: its rows are left out.";
        }
        for error in failed {
            came_out += &format!(" Rows with `wayfs link` are missing: {error}.");
        }
        let why = "The machines of 1996 carried 0.27 Mb/s of the 1 Mb/s when reading; today's carry nearly all of it. Shapes compare, seconds do not.";
        let figures = table.figures(*self);
        Ok(Findings { expected: self.expected().into(), came_out, why_they_differ: why.into(), rows, figures })
    }
}

impl Nfs {
    const fn expected(self) -> &'static str {
        match self {
            Self::BlockSize => {
                "Without errors large blocks win by their headers; with long bad periods the best is at most 4096 bytes, since one lost fragment loses a block. A size that is chosen by what is lost is never more than 5 % worse than the best."
            }
            Self::Backoff => {
                "A client that doubles its timeout waits far longer than the burst; the hybrid bounds the worst case; an earlier pair changed first timeout and shape at once, so here one thing differs at a time. Ours takes the time without errors, stretched by the share of bad time, and at most 15 % more."
            }
            Self::Link => {
                "A hop that is repaired lets nearly no timer of the client end. Holding packets at the driver is the best case; the real thing is within 3 % of it."
            }
            Self::Both => {
                "The repaired hop lifts the average, the back-off bounds the worst case, and neither disturbs the other. Ours with the link tool is within 3 % of the limit."
            }
            Self::TwoClients => {
                "Each client gains by the mechanisms, and clients that begin together share the hop evenly."
            }
            Self::Overflow => {
                "Reads are slower than writes where the mobile's receive buffer overflows; with reservation nothing overflows, and a read takes what the mobile itself takes."
            }
        }
    }

    /// What is to be run, as far as settings do not say otherwise.
    fn work(self, context: &Context<'_>) -> Result<Work, LabError> {
        let number = |key: &str, default: u32| match context.setting(key) {
            None => Ok(default),
            Some(typed) => typed
                .parse()
                .ok()
                .filter(|number| *number > 0)
                .ok_or_else(|| LabError::Experiment(format!("{key}={typed}: a number of at least 1 is wanted"))),
        };
        let bad_ms = context.choose(vec![0, 160], BAD_MS.to_vec());
        let mut rows = self.rows();
        if let Some(typed) = context.setting("scheme") {
            let known = plan::SCHEMES.into_iter().find(|scheme| *scheme == typed);
            let wanted = || LabError::Experiment(format!("scheme={typed}: one of {}", plan::SCHEMES.join(", ")));
            let scheme = known.ok_or_else(wanted)?;
            rows.iter_mut().filter(|row| matches!(row.hop, Hop::Tool(_))).for_each(|row| row.hop = Hop::Tool(scheme));
        }
        Ok(Work {
            rows,
            conditions: self.conditions(&bad_ms, context.choose(2, 8)),
            runs: number("runs", context.choose(3, 10))?,
            kilobytes: number("kilobytes", context.choose(256, 1024))?,
            side_by_side: number("side-by-side", SIDE_BY_SIDE)? as usize,
            model: model(context)?,
        })
    }
}

/// Channels at the same time; an emulator of one core is in time with them on an otherwise quiet machine.
const SIDE_BY_SIDE: u32 = 24;

/// How bad periods are drawn and judged.
fn model(context: &Context<'_>) -> Result<BadPeriods, LabError> {
    let mut model = BadPeriods::default();
    if let Some(typed) = context.setting("durations") {
        let wanted =
            || LabError::Experiment(format!("durations={typed}: uniform, uniform20, exponential or deterministic"));
        (model.durations, model.tick) = plan::durations(typed).ok_or_else(wanted)?;
    }
    model.judged = match context.setting("judged") {
        None | Some("touch") => Judged::ByTouch,
        Some("driver") => Judged::AtDriver,
        Some(typed) => return Err(LabError::Experiment(format!("judged={typed}: touch or driver"))),
    };
    Ok(model)
}

fn write_down(context: &mut Context<'_>, work: &Work, cells: &Cells) -> Result<(), LabError> {
    let mut csv = context.csv(
        "transfers",
        &["row", "way", "bad_ms", "clients", "run", "client", "seconds", "resent", "probes", "strays"],
    )?;
    for ((row, condition), cell) in cells {
        let (row, condition) = (&work.rows[*row], &work.conditions[*condition]);
        for (run, clients) in cell.runs.iter().enumerate() {
            for (client, transferred) in clients.iter().enumerate() {
                let statistics = &transferred.statistics;
                let (bad, many) = (condition.bad_ms.to_string(), condition.clients.to_string());
                let place = [run.to_string(), client.to_string(), transferred.seconds.to_string()];
                let counts = [statistics.resent, statistics.probes, statistics.strays].map(|count| count.to_string());
                let names = [row.name.clone(), condition.way.name().to_owned(), bad, many];
                csv.row(&[&names[..], &place, &counts].concat())?;
            }
        }
    }
    csv.finish()
}
