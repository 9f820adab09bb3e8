//! `wayfs doctor`: what this machine offers, and what the daemons say about themselves.

mod machine;
mod repair;

use super::{Context, to_json, write_out};
use crate::args::{DoctorArgs, Output};
use crate::config::ServeSettings;
use crate::failure::{Exit, Failure};
use crate::show;
use wayfs_control::report::{DoctorFact, DoctorReport, Verdict};
use wayfs_control::{Command, ControlClient, DaemonKind, Done, Registration};

pub(crate) fn run(context: &Context, args: &DoctorArgs) -> Result<(), Failure> {
    if let Some(place) = &args.repair {
        return repair::run(context, args, place.as_deref());
    }
    let report = facts(context);
    match context.global.output() {
        Output::Json => write_out(&format!("{}\n", to_json(&report)?))?,
        Output::Text => write_out(&show::doctor(&report))?,
    }
    if report.facts.iter().all(|fact| fact.verdict != Verdict::Bad) {
        return Ok(());
    }
    Err(Failure::new(Exit::NotTrue, "something does not work", "What to do stands under each BAD line."))
}

/// All checks.
pub(crate) fn facts(context: &Context) -> DoctorReport {
    let running = context.registry.running();
    let settings = ServeSettings::new(&crate::args::ServeArgs::default(), &context.config);
    let serves = running.iter().any(|daemon| daemon.kind == DaemonKind::Server);
    let mut facts = vec![machine::fuse_device(), machine::fuse_helper(), machine::passthrough(), machine::clock()];
    facts.push(machine::disk_space(&context.config.dirs.state));
    facts.push(machine::open_files());
    facts.push(machine::udp_buffers());
    if !serves {
        facts.push(machine::port(settings.listen));
    }
    facts.extend(machine::dead_mounts());
    facts.push(daemons(&running));
    for daemon in &running {
        facts.extend(facts_of(daemon));
    }
    DoctorReport { facts }
}

fn daemons(running: &[Registration]) -> DoctorFact {
    match running.len() {
        0 => DoctorFact {
            check: "daemons".into(),
            verdict: Verdict::Warning,
            detail: "none of yours runs".into(),
            next_step: "Start one with `wayfs mount` or `wayfs serve`.".into(),
        },
        number => {
            let places: Vec<String> = running.iter().map(|d| format!("{} at {}", d.kind, d.place.display())).collect();
            good("daemons", format!("{number} running: {}", places.join(", ")))
        }
    }
}

fn facts_of(daemon: &Registration) -> Vec<DoctorFact> {
    let answer = ControlClient::connect(&daemon.socket).and_then(|client| client.ask(&Command::DoctorFacts));
    match answer {
        Ok(Done::Doctor(report)) => report
            .facts
            .into_iter()
            .map(|fact| DoctorFact { check: format!("{}: {}", daemon.place.display(), fact.check), ..fact })
            .collect(),
        Ok(_) => Vec::new(),
        Err(error) => vec![DoctorFact {
            check: format!("{}: answers", daemon.place.display()),
            verdict: Verdict::Bad,
            detail: error.to_string(),
            next_step: format!("Restart it; pid {}.", daemon.pid),
        }],
    }
}

fn good(check: &str, detail: impl Into<String>) -> DoctorFact {
    DoctorFact { check: check.into(), verdict: Verdict::Good, detail: detail.into(), next_step: String::new() }
}
