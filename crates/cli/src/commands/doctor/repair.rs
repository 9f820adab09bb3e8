//! `wayfs doctor --repair`: names damaged files and what their repair loses; `--yes` does it.

use crate::args::{DoctorArgs, Output};
use crate::commands::{Context, to_json, write_out};
use crate::config::ServeSettings;
use crate::failure::{Exit, Failure};
use crate::progress::Bar;
use crate::show;
use std::io;
use std::path::{Path, PathBuf};
use wayfs_client::repair::{RepairError, is_cache, repair as repair_cache};
use wayfs_control::Progress;
use wayfs_control::report::{RepairReport, RepairState};
use wayfs_node::repair::Consent;
use wayfs_server::{StartError, repair as repair_server};

pub(super) fn run(context: &Context, args: &DoctorArgs, place: Option<&Path>) -> Result<(), Failure> {
    let consent = if args.yes { Consent::Repair } else { Consent::LookOnly };
    let reports = match place {
        Some(place) => vec![look(context, place, consent)?],
        None => look_at_own(context, consent)?,
    };
    match context.global.output() {
        Output::Json => write_out(&format!("{}\n", to_json(&reports)?))?,
        Output::Text => write_out(&show::repairs(&reports))?,
    }
    judge(&reports)
}

/// The data directory and the cache that this user's daemons have by default. One that is in use is named and left out.
fn look_at_own(context: &Context, consent: Consent) -> Result<Vec<RepairReport>, Failure> {
    let server = ServeSettings::new(&crate::args::ServeArgs::default(), &context.config).data;
    let mut places = vec![server, context.config.mounts()];
    places.retain(|place| place.join("volumes").is_dir() || is_cache(place));
    if places.is_empty() {
        let next = "Name a data directory or a cache: `wayfs doctor --repair DIR`.";
        return Err(Failure::new(
            Exit::NotFound,
            "no server and no mount of yours has files in the usual places",
            next,
        ));
    }
    places.iter().map(|place| look(context, place, consent)).collect()
}

fn look(context: &Context, place: &Path, consent: Consent) -> Result<RepairReport, Failure> {
    let mut bar = Bar::beside(context.global.output());
    let mut tell = |volume: &str, rows: u64| {
        let what = format!("rows of {volume}");
        bar.show(&Progress { what, done_bytes: 0, total_bytes: 0, done_items: rows, total_items: 0 });
    };
    let place: PathBuf = place.canonicalize().unwrap_or_else(|_| place.to_owned());
    if is_cache(&place) {
        return repair_cache(&place, consent, &mut tell).map_err(|error| cache_failure(&error));
    }
    repair_server(&place, consent, &mut tell).map_err(|error| server_failure(&error))
}

fn judge(reports: &[RepairReport]) -> Result<(), Failure> {
    let volumes = || reports.iter().flat_map(|report| &report.volumes);
    let any = |state: RepairState| volumes().any(|volume| volume.state == state);
    if any(RepairState::Hopeless) {
        return Err(Failure::new(Exit::Failed, "not all can be repaired here", "What to do stands under each volume."));
    }
    if any(RepairState::Damaged) {
        let next = "The same command with `--yes` repairs it and loses what is named; nothing was changed so far.";
        return Err(Failure::new(Exit::NotTrue, "files are damaged", next));
    }
    Ok(())
}

fn server_failure(error: &StartError) -> Failure {
    let (exit, next) = match error {
        StartError::Locked(_) => (Exit::Refused, "Stop the server first: `wayfs stop`."),
        StartError::Volume { source, .. } if !source.is_damage() => {
            (Exit::Refused, "Stop the server first: `wayfs stop`.")
        }
        StartError::Directory { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            (Exit::Refused, "Run it as the user whose server this is.")
        }
        StartError::Unreadable { .. } => (Exit::Usage, "`wayfs serve --data DIR` has DIR."),
        StartError::Directory { .. }
        | StartError::Identity(_)
        | StartError::Bind(_)
        | StartError::Runtime(_)
        | StartError::Volume { .. }
        | StartError::Copied { .. }
        | StartError::Policy { .. }
        | StartError::Control(_)
        | StartError::Metrics(_) => {
            (Exit::Failed, "Nothing more was changed; `damaged/` in a volume's store has what was set aside.")
        }
    };
    Failure::new(exit, error, next)
}

fn cache_failure(error: &RepairError) -> Failure {
    let (exit, next) = match error {
        RepairError::NoCache(_) => (Exit::Usage, "`wayfs mount --cache DIR` has DIR."),
        RepairError::List { .. } => (Exit::Failed, "Name a directory that you may read."),
        RepairError::Store { .. } => (Exit::Failed, "Nothing more was changed."),
    };
    Failure::new(exit, error, next)
}
