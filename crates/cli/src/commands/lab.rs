//! `wayfs lab …`: experiments on emulated networks.

mod up;

use crate::args::{GlobalArgs, LabCommand, LabRunArgs, Output};
use crate::failure::{Exit, Failure};
use crate::show;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::time::Duration;
use wayfs_lab::{EXPERIMENTS, Experiment, LabError, Options, Parts, Progress, Summary};

pub(crate) fn run(global: &GlobalArgs, command: LabCommand) -> Result<(), Failure> {
    match command {
        LabCommand::List => list(global.output()),
        LabCommand::Profiles => profiles(global.output()),
        LabCommand::Run(args) => experiments(global.output(), &args),
        LabCommand::Report { dir } => {
            let page = wayfs_lab::report(&dir).map_err(failure)?;
            print(&format!("{}\n", page.display()))
        }
        LabCommand::Up { file, logs } => up::run(global.output(), &file, &logs),
        LabCommand::Clean => {
            let swept = wayfs_lab::sweep().map_err(failure)?;
            print(&format!("{swept} dead laboratories taken away\n"))
        }
    }
}

fn list(output: Output) -> Result<(), Failure> {
    match output {
        Output::Json => {
            let list: Vec<_> =
                EXPERIMENTS.iter().map(|e| serde_json::json!({ "name": e.name(), "about": e.about() })).collect();
            print(&format!("{}\n", serde_json::json!(list)))
        }
        Output::Text => {
            let rows: Vec<Vec<String>> =
                EXPERIMENTS.iter().map(|e| vec![e.name().to_owned(), e.about().to_owned()]).collect();
            print(&show::table(&["NAME", "ASKS"], &rows))
        }
    }
}

fn profiles(output: Output) -> Result<(), Failure> {
    let rate = |bits: u64| if bits == 0 { "unlimited".to_owned() } else { format!("{} Mb/s", bits as f64 / 1e6) };
    let profiles = wayfs_lab::PROFILES.iter();
    match output {
        Output::Json => {
            let list: Vec<_> = profiles
                .map(|p| {
                    serde_json::json!({
                        "name": p.name, "delay_us": p.delay_us, "up_bits_per_second": p.up_bits_per_second,
                        "down_bits_per_second": p.down_bits_per_second, "source": p.source
                    })
                })
                .collect();
            print(&format!("{}\n", serde_json::json!(list)))
        }
        Output::Text => {
            let rows: Vec<Vec<String>> = profiles
                .map(|p| {
                    vec![
                        p.name.to_owned(),
                        format!("{} ms", p.delay_us as f64 / 1000.0),
                        rate(p.up_bits_per_second),
                        rate(p.down_bits_per_second),
                        p.source.to_owned(),
                    ]
                })
                .collect();
            print(&show::table(&["NAME", "ONE WAY", "UP", "DOWN", "SOURCE"], &rows))
        }
    }
}

fn experiments(output: Output, args: &LabRunArgs) -> Result<(), Failure> {
    let chosen = choose(&args.names)?;
    let program = std::env::current_exe().map_err(|error| Failure::io("find this program", &error))?;
    let (out, settings) = (args.out.clone(), BTreeMap::new());
    let mut options = Options { seed: args.seed, quick: args.quick, out, program, settings };
    for setting in &args.settings {
        options.set(setting).map_err(|error| Failure::usage(error, "Write it as `--set KEY=VALUE`."))?;
    }
    wayfs_lab::check_settings(&chosen, &options)
        .map_err(|error| Failure::usage(error, "docs/lab.md says what each experiment takes."))?;
    for experiment in chosen {
        let bar = Bar::new(experiment.name());
        let summary = wayfs_lab::run(experiment, &options, &bar).map_err(failure)?;
        drop(bar);
        match output {
            Output::Text => print(&text(&summary))?,
            Output::Json => print(&format!("{}\n", super::to_json(&summary)?))?,
        }
    }
    let page = wayfs_lab::report(&options.out).map_err(failure)?;
    match output {
        Output::Text => print(&format!("{}\n", page.display())),
        Output::Json => Ok(()),
    }
}

fn choose(names: &[String]) -> Result<Vec<&'static dyn Experiment>, Failure> {
    if names.iter().any(|name| name == "all") {
        return Ok(EXPERIMENTS.to_vec());
    }
    let find = |name: &String| {
        wayfs_lab::experiment(name).ok_or_else(|| {
            Failure::usage(format!("there is no experiment {name}"), "`wayfs lab list` shows their names.")
        })
    };
    names.iter().map(find).collect()
}

/// The numbers of a run, and what is wrong with it.
fn text(summary: &Summary) -> String {
    let number = |value: f64| if value.abs() >= 100.0 { format!("{value:.1}") } else { format!("{value:.3}") };
    let rows: Vec<Vec<String>> = summary
        .findings
        .rows
        .iter()
        .map(|row| {
            let published = row.published.map(number).unwrap_or_default();
            let verdict = match row.verdict() {
                wayfs_lab::Verdict::Open => "",
                wayfs_lab::Verdict::Met => "as wanted",
                wayfs_lab::Verdict::Missed => "NOT as wanted",
            };
            vec![row.what.clone(), number(row.ours.mean), row.unit.clone(), published, verdict.to_owned()]
        })
        .collect();
    let mut text = format!("\n{}: {}\n\n", summary.experiment, summary.about);
    text.push_str(&show::table(&["WHAT", "OURS", "UNIT", "PUBLISHED", ""], &rows));
    for part in summary.rejected() {
        text.push_str(&format!(
            "Rejected: {}: the emulator was {:.0} us late at the 99th percentile. Repeat it on a quieter machine.\n",
            part.part, part.lateness.p99_us
        ));
    }
    text
}

fn failure(error: LabError) -> Failure {
    match error {
        LabError::Forbidden { .. } => {
            Failure::new(Exit::Refused, error, "Run it as root, where network namespaces are allowed.")
        }
        LabError::Description(_) => Failure::usage(error, "`wayfs lab profiles` lists the named lines."),
        LabError::Io { .. }
        | LabError::Tool { .. }
        | LabError::UnknownHost(_)
        | LabError::HostName(_)
        | LabError::TooManyHosts(_)
        | LabError::TimedOut { .. }
        | LabError::Experiment(_) => Failure::new(Exit::Failed, error, ""),
    }
}

fn print(text: &str) -> Result<(), Failure> {
    super::write_out(text)
}

/// How far an experiment is: a bar on a terminal, a line a part elsewhere.
struct Bar {
    name: &'static str,
    bar: ProgressBar,
    visible: bool,
}

impl Bar {
    fn new(name: &'static str) -> Self {
        let visible = std::io::stderr().is_terminal();
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {elapsed}  {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(name);
        bar.enable_steady_tick(Duration::from_millis(500));
        Self { name, bar, visible }
    }
}

impl Progress for Bar {
    fn show(&self, Parts { done, total }: Parts, what: &str) {
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
        self.bar.set_message(what.to_owned());
        if !self.visible {
            // A closed standard error is no reason to end an experiment.
            let _ = writeln!(std::io::stderr(), "{} {done}/{total} {what}", self.name);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_are_chosen_by_name_and_all_at_once() {
        assert_eq!(choose(&["links".into()]).unwrap().len(), 1);
        assert_eq!(choose(&["all".into()]).unwrap().len(), EXPERIMENTS.len());
        assert_eq!(choose(&["nothing".into()]).err().unwrap().exit, Exit::Usage);
    }
}
