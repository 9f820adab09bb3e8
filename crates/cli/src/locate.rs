//! Which daemon a command is for.
//!
//! Named with `--at` (mount point, any path in a mount, data directory or control socket); else the mount of the path argument, else the
//! mount of the current directory, else the only daemon of the right kind that runs: of this user, or else of root, if it answers all users.

use crate::failure::{Exit, Failure};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use wayfs_control::{ControlClient, DaemonKind, Found, Registration, Registry};

/// How users choose among daemons.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    /// `--at`.
    pub(crate) at: Option<PathBuf>,
    /// The kind that the command is for; `None`: either.
    pub(crate) kind: Option<DaemonKind>,
}

/// Connects to the daemon for a command that is not about a path.
pub(crate) fn connect(registry: &Registry, wanted: &Wanted) -> Result<ControlClient, Failure> {
    let socket = socket(registry, wanted)?;
    Ok(ControlClient::connect(&socket)?)
}

/// Connects to the daemon for a path, and says what the path is from its volume's root.
pub(crate) fn connect_for_path(
    registry: &Registry,
    wanted: &Wanted,
    path: &Path,
) -> Result<(ControlClient, PathBuf), Failure> {
    if let Some(found) = registry.find_by_path(path).filter(|found| wanted.at.is_none() && fits(&found.daemon, wanted))
    {
        return Ok((ControlClient::connect(&found.daemon.socket)?, found.path));
    }
    if wanted.at.is_none() {
        let text = format!("{} lies in no mount that runs", path.display());
        return Err(Failure::new(Exit::Unreachable, text, running_text(&registry.running())));
    }
    // With --at a path inside that mount is taken as such, any other counts from the volume's root.
    let socket = socket(registry, wanted)?;
    let inside = match registry.find_by_path(path) {
        Some(found) if found.daemon.socket == socket && found.daemon.kind == DaemonKind::Mount => found.path,
        _ => path.strip_prefix("/").unwrap_or(path).to_owned(),
    };
    Ok((ControlClient::connect(&socket)?, inside))
}

/// The control socket for a command that is not about a path.
pub(crate) fn socket(registry: &Registry, wanted: &Wanted) -> Result<PathBuf, Failure> {
    if let Some(at) = &wanted.at {
        return named(registry, at);
    }
    let running = registry.running();
    let here = std::env::current_dir().ok().and_then(|dir| registry.find_by_path(&dir));
    choose(&running, here, wanted.kind).map(|daemon| daemon.socket)
}

fn named(registry: &Registry, at: &Path) -> Result<PathBuf, Failure> {
    if std::fs::symlink_metadata(at).is_ok_and(|found| found.file_type().is_socket()) {
        return Ok(at.to_owned());
    }
    registry.find_by_path(at).map(|found| found.daemon.socket).ok_or_else(|| {
        Failure::new(
            Exit::Unreachable,
            format_args!("no daemon runs at {}", at.display()),
            running_text(&registry.running()),
        )
    })
}

/// The rule for commands without a path: the mount one stands in, else the only one of the kind.
fn choose(running: &[Registration], here: Option<Found>, kind: Option<DaemonKind>) -> Result<Registration, Failure> {
    let fits = |daemon: &Registration| kind.is_none_or(|k| k == daemon.kind);
    if let Some(found) = here.filter(|found| fits(&found.daemon)) {
        return Ok(found.daemon);
    }
    // Who has a daemon of his own means that rather than one that the administrator started.
    let has_own = running.iter().any(|daemon| fits(daemon) && !daemon.is_anothers());
    let mut fitting = running.iter().filter(|daemon| fits(daemon) && !(has_own && daemon.is_anothers()));
    match (fitting.next(), fitting.next()) {
        (Some(only), None) => Ok(only.clone()),
        (None, _) => {
            let what = kind.map_or("daemon".to_owned(), |k| k.to_string());
            let start = match kind {
                Some(DaemonKind::Mount) => "Start one with `wayfs mount`.",
                Some(DaemonKind::Server) => "Start one with `wayfs serve`.",
                None => "Start one with `wayfs mount` or `wayfs serve`.",
            };
            Err(Failure::new(Exit::Unreachable, format_args!("no {what} of yours runs on this machine"), start))
        }
        (Some(_), Some(_)) => Err(Failure::usage("several daemons run: which one?", running_text(running))),
    }
}

fn fits(daemon: &Registration, wanted: &Wanted) -> bool {
    wanted.kind.is_none_or(|kind| kind == daemon.kind)
}

fn running_text(running: &[Registration]) -> String {
    if running.is_empty() {
        return "No daemon of yours runs on this machine.".to_owned();
    }
    let list: Vec<String> =
        running.iter().map(|daemon| format!("{} ({})", daemon.place.display(), daemon.kind)).collect();
    format!("Name one with --at: {}.", list.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemon(kind: DaemonKind, place: &str) -> Registration {
        Registration {
            kind,
            place: place.into(),
            socket: format!("{place}.sock").into(),
            pid: 1,
            volume: String::new(),
            for_all: None,
        }
    }

    #[test]
    fn the_only_one_of_the_kind_is_chosen() {
        let running = [daemon(DaemonKind::Mount, "/m"), daemon(DaemonKind::Server, "/s")];
        assert_eq!(choose(&running, None, Some(DaemonKind::Server)).unwrap().place, PathBuf::from("/s"));
        assert_eq!(choose(&running, None, None).unwrap_err().exit, Exit::Usage);
        assert_eq!(choose(&running[..1], None, Some(DaemonKind::Server)).unwrap_err().exit, Exit::Unreachable);
    }

    #[test]
    fn a_daemon_of_ones_own_is_meant_before_one_of_the_administrator() {
        let mut roots = daemon(DaemonKind::Mount, "/r");
        roots.for_all = Some(roots.socket.clone());
        let running = [roots, daemon(DaemonKind::Mount, "/m")];
        assert_eq!(choose(&running, None, None).unwrap().place, PathBuf::from("/m"));
        assert_eq!(choose(&running[..1], None, None).unwrap().place, PathBuf::from("/r"));
    }

    #[test]
    fn the_mount_one_stands_in_wins() {
        let running = [daemon(DaemonKind::Mount, "/m"), daemon(DaemonKind::Mount, "/n")];
        let here = Found { daemon: running[1].clone(), path: PathBuf::new() };
        assert_eq!(choose(&running, Some(here), Some(DaemonKind::Mount)).unwrap().place, PathBuf::from("/n"));
        let several = choose(&running, None, Some(DaemonKind::Mount)).unwrap_err();
        assert!(several.next_step.contains("/m (mount), /n (mount)"));
    }

    #[test]
    fn without_a_daemon_the_failure_says_what_runs() {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::at(directory.path().join("run"));
        let failure = connect_for_path(&registry, &Wanted::default(), Path::new("/nowhere/x")).err().unwrap();
        assert_eq!(failure.exit, Exit::Unreachable);
        let at = Wanted { at: Some("/nowhere".into()), kind: None };
        assert!(socket(&registry, &at).unwrap_err().message.contains("/nowhere"));
    }
}
