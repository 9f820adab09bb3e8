//! `--daemon`: the command goes on in the background and returns when it serves.
//!
//! ```text
//!   wayfs mount … --daemon                         its child, in a session of its own
//!     starts the same command with a mark  ──▶      standard error: the log file
//!     reads the child's standard output    ◀──      "ready" when it serves, or the failure as JSON
//!     exits 0 or with that failure                  standard output becomes /dev/null
//! ```

use crate::config::TICKET_VARIABLE;
use crate::failure::{Exit, Failure};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

/// The mark of the child.
const MARK: &str = "WAYFS_BACKGROUND";

/// What the child says when it serves.
const READY: &str = "ready";

/// Longest wait for the child: joining a volume over a slow path and a recovery after a crash fit into it.
const READY_TIMEOUT: Duration = Duration::from_secs(120);

/// Whether this process is the child.
pub(crate) fn is_background() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Starts this very command again in the background and waits until it serves.
///
/// `name` goes into the name of the log file. `secret` goes to the child by its standard input, and is taken out of its arguments
/// and environment, which others can read for as long as it runs.
pub(crate) fn start(logs: &Path, name: &str, secret: Option<&str>) -> Result<PathBuf, Failure> {
    let (log, log_path) = open_log(logs, name)?;
    let program = std::env::current_exe().map_err(|e| Failure::io("find the program itself", &e))?;
    let mut child = Command::new(program)
        .args(std::env::args_os().skip(1).map(|argument| without(argument, secret)))
        .env(MARK, "1")
        .env_remove(TICKET_VARIABLE)
        .stdin(if secret.is_some() { Stdio::piped() } else { Stdio::null() })
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(|e| Failure::io("start the daemon", &e))?;
    if let (Some(secret), Some(mut input)) = (secret, child.stdin.take()) {
        // A child that ended already says why below.
        let _ = input.write_all(secret.as_bytes());
    }
    wait_until_ready(&mut child, &log_path).map(|()| log_path)
}

/// In the foreground: has this very process begin again without the secret in its arguments and environment, which others
/// can read for as long as it runs. Returns if there is nothing to hide; the process stays the same for whoever started it.
pub(crate) fn hide(secret: &str) -> Result<(), Failure> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let hidden: Vec<OsString> = arguments.iter().map(|one| without(one.clone(), Some(secret))).collect();
    let is_in_environment = std::env::var(TICKET_VARIABLE).is_ok_and(|text| text.trim() == secret);
    if hidden == arguments && !is_in_environment {
        return Ok(());
    }
    let doing = |e: &std::io::Error| Failure::io("take the ticket out of the arguments", e);
    let (input, mut ours) = std::io::pipe().map_err(|e| doing(&e))?;
    // A ticket fits into a pipe that nobody reads yet.
    ours.write_all(secret.as_bytes()).map_err(|e| doing(&e))?;
    drop(ours);
    let program = std::env::current_exe().map_err(|e| doing(&e))?;
    let mut again = Command::new(program);
    again.args(hidden.iter().skip(1)).stdin(input);
    if let Some(name) = arguments.first() {
        again.arg0(name);
    }
    if is_in_environment {
        again.env(TICKET_VARIABLE, "-");
    }
    Err(doing(&again.exec()))
}

/// An argument, or `-` for the one that is the secret.
fn without(argument: OsString, secret: Option<&str>) -> OsString {
    let is_secret = argument.to_str().is_some_and(|text| secret == Some(text.trim()));
    if is_secret { OsString::from("-") } else { argument }
}

fn open_log(logs: &Path, name: &str) -> Result<(File, PathBuf), Failure> {
    let doing = |what: &str| format!("{what} {}", logs.display());
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(logs)
        .map_err(|e| Failure::io(doing("create log directory"), &e))?;
    let path = logs.join(format!("{name}.log"));
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&path)
        .map_err(|e| Failure::io(doing("open log file in"), &e))?;
    Ok((file, path))
}

fn wait_until_ready(child: &mut Child, log: &Path) -> Result<(), Failure> {
    let stdout = child.stdout.take().expect("asked for above");
    let (sender, receiver) = sync_channel(1);
    std::thread::spawn(move || {
        let mut line = String::new();
        let _ = BufReader::new(stdout).read_line(&mut line);
        let _ = sender.send(line);
    });
    let see_log = format!("Its log is {}.", log.display());
    match receiver.recv_timeout(READY_TIMEOUT) {
        Ok(line) if line.trim() == READY => Ok(()),
        Ok(line) => Err(Failure::from_json(line.trim()).unwrap_or_else(|| {
            let how = child.wait().map_or_else(|e| e.to_string(), |status| status.to_string());
            Failure::new(Exit::Failed, format_args!("the daemon ended before it served ({how})"), see_log)
        })),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            // It is ours, and nobody would know of it: it must not be left half started.
            let _ = child.kill();
            let _ = child.wait();
            let seconds = READY_TIMEOUT.as_secs();
            Err(Failure::new(
                Exit::Failed,
                format_args!("the daemon did not serve within {seconds} s and was ended"),
                see_log,
            ))
        }
    }
}

/// In the child, first thing: leaves the terminal's session.
pub(crate) fn detach() {
    if is_background() {
        // Fails only for a leader of a process group, which a child just started is not.
        let _ = rustix::process::setsid();
        let _ = std::env::set_current_dir("/");
    }
}

/// In the child, when it serves: tells the parent and lets go of the pipe.
pub(crate) fn report_ready() {
    if !is_background() {
        return;
    }
    let mut stdout = std::io::stdout();
    let _ = writeln!(stdout, "{READY}").and_then(|()| stdout.flush());
    if let Ok(null) = OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

/// In the child, when it fails: tells the parent. (After [`report_ready`] this goes nowhere.)
pub(crate) fn report_failure(failure: &Failure) {
    if is_background() {
        let mut stdout = std::io::stdout();
        let _ = writeln!(stdout, "{}", failure.to_json()).and_then(|()| stdout.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_taken_out_of_the_arguments() {
        let shown = |argument: &str| without(OsString::from(argument), Some("wayfs1-secret"));
        assert_eq!(shown("wayfs1-secret"), "-");
        assert_eq!(shown(" wayfs1-secret\n"), "-");
        assert_eq!(shown("/srv/photos"), "/srv/photos");
        assert_eq!(without(OsString::from("photos"), None), "photos");
    }
}
