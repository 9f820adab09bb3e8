//! `wayfs nfs …`: files of an NFS server.

use super::write_out;
use crate::args::{GlobalArgs, NfsCommand, NfsOptions, Output, ProtoArg};
use crate::failure::{Exit, Failure};
use crate::show;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::net::{IpAddr, ToSocketAddrs};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use wayfs_nfs::calls::Place;
use wayfs_nfs::live::{Block, Export, LiveError, Options, Ports, Transport};
use wayfs_nfs::{FileKind, Statistics, Status, WaitPolicy};

pub(crate) fn run(global: &GlobalArgs, command: &NfsCommand) -> Result<(), Failure> {
    let output = global.output();
    match command {
        NfsCommand::Get { url, file, options } => get(output, &Url::parse(url)?, file.as_deref(), options),
        NfsCommand::Put { file, url, options } => put(output, file, &Url::parse(url)?, options),
        NfsCommand::Ls { url, options } => list(output, &Url::parse(url)?, options),
        NfsCommand::Bench { url, size, options } => bench(output, &Url::parse(url)?, *size, options),
        NfsCommand::Notice { .. } => unreachable!("carried out by `nfs_mount`"),
    }
}

/// Where something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) host: String,
    pub(super) port: Option<u16>,
    /// Begins with a slash, or is empty.
    pub(super) path: String,
}

impl Url {
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let bad = || Failure::usage(format!("{text} is no NFS address"), "Write it as nfs://HOST[:PORT]/EXPORT/PATH.");
        let rest = text.strip_prefix("nfs://").ok_or_else(bad)?;
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        let (host, port) = match authority.strip_prefix('[').and_then(|host| host.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        let port = port.map(str::parse).transpose().map_err(|_| bad())?;
        if host.is_empty() {
            return Err(bad());
        }
        Ok(Self { host: host.to_owned(), port, path: path.to_owned() })
    }

    /// Host and port as they are written.
    pub(super) fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        self.port.map_or(host.clone(), |port| format!("{host}:{port}"))
    }

    pub(super) fn address(&self) -> Result<IpAddr, Failure> {
        let unknown =
            |why: String| Failure::new(Exit::Unreachable, format!("find {}: {why}", self.host), "Check the name.");
        let mut found = (self.host.as_str(), 0).to_socket_addrs().map_err(|error| unknown(error.to_string()))?;
        found.next().map(|address| address.ip()).ok_or_else(|| unknown("it has no address".into()))
    }

    /// Directory and name.
    fn split(&self) -> Result<(&str, &str), Failure> {
        match self.path.trim_end_matches('/').rsplit_once('/') {
            Some((directory, name)) if !name.is_empty() => Ok((directory, name)),
            _ => Err(Failure::usage("the address names no file", "Write it as nfs://HOST[:PORT]/EXPORT/PATH.")),
        }
    }
}

fn settings(typed: &NfsOptions) -> Result<Options, Failure> {
    let retry = typed.retry.parse().map_err(|error| Failure::usage(error, ""))?;
    let block = match typed.bsize.as_str() {
        "auto" => Block::Auto,
        bytes => match bytes.parse() {
            Ok(bytes @ 512..=65_536) => Block::Fixed(bytes),
            _ => return Err(Failure::usage(format!("--bsize {bytes}"), "Give 512 to 65536, or auto.")),
        },
    };
    let interrupt = Arc::new(AtomicBool::new(false));
    let signals = crate::signals::catch().map_err(|error| Failure::io("catch signals", &error))?;
    let flag = Arc::clone(&interrupt);
    std::thread::spawn(move || {
        if signals.recv().is_ok() {
            flag.store(true, Ordering::Relaxed);
        }
    });
    let transport = match typed.proto {
        ProtoArg::Udp => Transport::Udp,
        ProtoArg::Tcp => Transport::Tcp,
    };
    let wait_policy = typed.soft.map_or(WaitPolicy::Hard, WaitPolicy::Soft);
    let in_flight_max = usize::from(typed.in_flight);
    Ok(Options { transport, retry, wait_policy, block, in_flight_max, interrupt, ..Options::default() })
}

/// Time without an answer after which a person is told what is waited for.
const SILENT_MAX: Duration = Duration::from_secs(3);

/// Says once, after a while, that a server is waited for; until it is dropped.
pub(super) struct Wait {
    _over: mpsc::Sender<()>,
}

impl Wait {
    pub(super) fn begin(server: &str, hint: &'static str) -> Self {
        let (over, is_over) = mpsc::channel::<()>();
        let text = format!("Waiting for {server}, which does not answer yet; {hint}.");
        std::thread::spawn(move || {
            if is_over.recv_timeout(SILENT_MAX) == Err(mpsc::RecvTimeoutError::Timeout) {
                let _ = writeln!(std::io::stderr(), "{text}");
            }
        });
        Self { _over: over }
    }
}

/// Mounts the export that a path is in; gives the rest of the path.
fn connect(url: &Url, path: &str, typed: &NfsOptions, options: &Options) -> Result<(Export, String), Failure> {
    let address = url.address()?;
    let _wait = Wait::begin(&url.authority(), "Ctrl-C ends it, and --soft TRIES gives up by itself");
    let exports = Export::exports(address, typed.mount_port, options).map_err(|error| failure(&error))?;
    let within = |export: &&String| {
        path.strip_prefix(export.trim_end_matches('/')).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let Some(export) = exports.iter().filter(within).max_by_key(|export| export.len()) else {
        let next = format!("It exports: {}.", exports.join(", "));
        return Err(Failure::new(Exit::NotFound, format!("{} exports nothing that holds {path}", url.host), next));
    };
    let ports = match url.port {
        Some(nfs) => Ports::Fixed { nfs, mount: typed.mount_port },
        None => Ports::Mapped,
    };
    let found = Export::connect(address, ports, export, options).map_err(|error| failure(&error))?;
    Ok((found, path[export.trim_end_matches('/').len()..].to_owned()))
}

fn get(output: Output, url: &Url, file: Option<&Path>, typed: &NfsOptions) -> Result<(), Failure> {
    let (_, name) = url.split()?;
    let options = settings(typed)?;
    let (mut export, inside) = connect(url, &url.path, typed, &options)?;
    let located = export.locate(&inside).map_err(|error| failure(&error))?;
    if located.attributes.kind != FileKind::Regular {
        return Err(Failure::usage(format!("{} is no regular file", url.path), "`wayfs nfs ls` shows directories."));
    }
    let target = file.map_or_else(|| PathBuf::from(name), Path::to_owned);
    let mut part = target.clone().into_os_string();
    part.push(format!(".part-{}", std::process::id()));
    let part = PathBuf::from(part);
    let bar = Bar::new(name, located.attributes.size);
    let began = Instant::now();
    let fetched = std::fs::File::create(&part).map_err(local_error("make the file")).and_then(|local| {
        let mut done = 0;
        let read = export.read_file(&located.handle, located.attributes.size, |offset, bytes| {
            done += bytes.len() as u64;
            bar.0.set_position(done);
            local.write_all_at(bytes, offset)
        })?;
        local.sync_all().and_then(|()| std::fs::rename(&part, &target)).map_err(local_error("keep the file"))?;
        Ok(read)
    });
    drop(bar);
    let read = fetched.map_err(|error| {
        // What came is of no use without the rest.
        let _ = std::fs::remove_file(&part);
        failure(&error)
    })?;
    tell(output, "got", read, began, &mut export)
}

fn put(output: Output, file: &Path, url: &Url, typed: &NfsOptions) -> Result<(), Failure> {
    let (directory, name) = url.split()?;
    let options = settings(typed)?;
    let local = std::fs::File::open(file).map_err(|error| Failure::io(format!("open {}", file.display()), &error))?;
    let size = local.metadata().map_err(|error| Failure::io("look at the file", &error))?.len();
    let (mut export, inside) = connect(url, directory, typed, &options)?;
    let bar = Bar::new(name, size);
    let began = Instant::now();
    let stored = export.locate(&inside).and_then(|located| {
        let place = Place { directory: &located.handle, name: name.as_bytes() };
        let made = export.create(place, 0o644)?;
        export.write_file(&made, &local, |done| bar.0.set_position(done))
    });
    drop(bar);
    let written = stored.map_err(|error| failure(&error))?;
    tell(output, "put", written, began, &mut export)
}

fn list(output: Output, url: &Url, typed: &NfsOptions) -> Result<(), Failure> {
    let options = settings(typed)?;
    if url.path.trim_end_matches('/').is_empty() {
        let exports = Export::exports(url.address()?, typed.mount_port, &options).map_err(|error| failure(&error))?;
        return match output {
            Output::Json => write_out(&format!("{}\n", json!(exports))),
            Output::Text => {
                write_out(&exports.iter().map(|export| format!("{}\n", show::clean(export))).collect::<String>())
            }
        };
    }
    let (mut export, inside) = connect(url, &url.path, typed, &options)?;
    let entries =
        export.locate(&inside).and_then(|located| export.list(&located.handle)).map_err(|error| failure(&error))?;
    let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    match output {
        Output::Json => {
            let entries: Vec<Value> = entries
                .iter()
                .map(|entry| {
                    let attributes = entry.attributes.map(|it| {
                        json!({ "kind": kind(it.kind), "size": it.size, "mode": it.mode, "uid": it.uid, "gid": it.gid, "mtime": it.mtime.seconds })
                    });
                    json!({ "name": name(&entry.name), "attributes": attributes })
                })
                .collect();
            write_out(&format!("{}\n", json!(entries)))
        }
        Output::Text => {
            let rows: Vec<Vec<String>> = entries
                .iter()
                .map(|entry| {
                    let attributes = entry.attributes;
                    let size = attributes.map(|it| it.size.to_string()).unwrap_or_default();
                    let mode = attributes.map(|it| format!("{:04o}", it.mode)).unwrap_or_default();
                    let kind = attributes.map(|it| kind(it.kind)).unwrap_or_default().to_owned();
                    vec![kind, mode, size, show::clean(name(&entry.name))]
                })
                .collect();
            write_out(&show::table(&["KIND", "MODE", "SIZE", "NAME"], &rows))
        }
    }
}

fn bench(output: Output, url: &Url, kib: u32, typed: &NfsOptions) -> Result<(), Failure> {
    let options = settings(typed)?;
    let (mut export, inside) = connect(url, &url.path, typed, &options)?;
    let name = format!(".wayfs-nfs-bench-{}", std::process::id());
    let zeros = vec![0; kib as usize * 1024];
    let mut found = Vec::new();
    let run = export.locate(&inside).and_then(|located| {
        let place = Place { directory: &located.handle, name: name.as_bytes() };
        let made = export.create(place, 0o600)?;
        let size = zeros.len() as u64;
        let mut timed = |what: &'static str, export: &mut Export| {
            export.take_statistics();
            let bar = Bar::new(what, size);
            let began = Instant::now();
            let done = match what {
                "write" => export.write_file(&made, &zeros[..], |done| bar.0.set_position(done)),
                _ => export.read_file(&made, size, |_, bytes| {
                    bar.0.inc(bytes.len() as u64);
                    Ok(())
                }),
            };
            found.push((what, began.elapsed().as_secs_f64(), export.take_statistics(), export.block_sizes()));
            done
        };
        let done = timed("write", &mut export).and_then(|_| timed("read", &mut export));
        let removed = export.remove(place);
        done.and(removed)
    });
    run.map_err(|error| failure(&error))?;
    match output {
        Output::Json => {
            let found: Vec<Value> = found
                .iter()
                .map(|(what, seconds, it, block)| {
                    let mut value = costs(it);
                    value["what"] = json!(what);
                    value["seconds"] = json!(seconds);
                    value["bytes"] = json!(zeros.len());
                    value["block"] = json!(if *what == "write" { block.write } else { block.read });
                    value
                })
                .collect();
            write_out(&format!("{}\n", json!(found)))
        }
        Output::Text => {
            let rows: Vec<Vec<String>> = found
                .iter()
                .map(|(what, seconds, it, block)| {
                    let megabits = zeros.len() as f64 * 8.0 / 1e6 / seconds;
                    let block = if *what == "write" { block.write } else { block.read };
                    let cells = [it.calls, it.resent, it.probes, it.strays].map(|number| number.to_string());
                    let mut row = vec![
                        (*what).to_owned(),
                        format!("{seconds:.2} s"),
                        format!("{megabits:.2} Mb/s"),
                        block.to_string(),
                    ];
                    row.extend(cells);
                    row
                })
                .collect();
            write_out(&show::table(&["", "TIME", "RATE", "BLOCK", "CALLS", "SENT AGAIN", "PROBES", "STRAYS"], &rows))
        }
    }
}

fn tell(output: Output, what: &str, bytes: u64, began: Instant, export: &mut Export) -> Result<(), Failure> {
    let seconds = began.elapsed().as_secs_f64();
    let statistics = export.take_statistics();
    match output {
        Output::Json => {
            let mut value = costs(&statistics);
            value["bytes"] = json!(bytes);
            value["seconds"] = json!(seconds);
            write_out(&format!("{value}\n"))
        }
        Output::Text => {
            write_out(&format!("{what} {bytes} bytes in {seconds:.2} s; {} calls sent again\n", statistics.resent))
        }
    }
}

fn costs(it: &Statistics) -> Value {
    json!({
        "calls": it.calls, "resent": it.resent, "overtaken": it.overtaken, "probes": it.probes, "strays": it.strays,
        "malformed": it.malformed, "given_up": it.given_up
    })
}

const fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::BlockDevice => "block device",
        FileKind::CharacterDevice => "character device",
        FileKind::Symlink => "link",
        FileKind::Socket => "socket",
        FileKind::Pipe => "pipe",
    }
}

fn local_error(doing: &str) -> impl FnOnce(std::io::Error) -> LiveError {
    let doing = doing.to_owned();
    |error| LiveError::Io { doing, error }
}

pub(super) fn failure(error: &LiveError) -> Failure {
    match error {
        LiveError::NoAnswer(_) => Failure::new(
            Exit::Unreachable,
            error,
            "Check that it runs, and that a firewall lets UDP pass; or take --proto tcp.",
        ),
        LiveError::Interrupted => Failure::new(Exit::Failed, error, ""),
        LiveError::Refused(_) => Failure::new(Exit::Refused, error, "It must serve NFS version 3 over this transport."),
        LiveError::Status { status: Status::NOENT | Status::NOTDIR, .. } => {
            Failure::new(Exit::NotFound, error, "`wayfs nfs ls` shows what is there.")
        }
        LiveError::Status { status: Status::ACCES | Status::PERM, .. } => {
            Failure::new(Exit::Refused, error, "The server checks the number of the calling user (AUTH_SYS).")
        }
        LiveError::Io { .. } | LiveError::Status { .. } | LiveError::Decode(_) => Failure::new(Exit::Failed, error, ""),
    }
}

/// A bar for bytes, drawn on a terminal only.
struct Bar(ProgressBar);

impl Bar {
    fn new(what: &str, len: u64) -> Self {
        let visible = std::io::stderr().is_terminal();
        let target = if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(len), target);
        let style = ProgressStyle::with_template("{prefix} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(show::clean(what).to_string());
        Self(bar)
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let url = |host: &str, port, path: &str| Url { host: host.into(), port, path: path.into() };
        assert_eq!(Url::parse("nfs://server/export/a/b").unwrap(), url("server", None, "/export/a/b"));
        assert_eq!(Url::parse("nfs://10.0.0.1:2049/e").unwrap(), url("10.0.0.1", Some(2049), "/e"));
        assert_eq!(Url::parse("nfs://[fe80::1]:2049").unwrap(), url("fe80::1", Some(2049), ""));
        assert_eq!(Url::parse("nfs://server/e/f").unwrap().split().unwrap(), ("/e", "f"));
        for text in ["server/e", "nfs://", "nfs:///e", "nfs://h:x/e", "http://h/e"] {
            assert_eq!(Url::parse(text).unwrap_err().exit, Exit::Usage, "{text}");
        }
    }
}
