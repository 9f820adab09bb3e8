//! `wayfs debug`: one JSON file with what a helper needs to see, and no secrets.
//!
//! Contents of files, tickets and keys never pass the control socket; what is copied from files here is looked through for tickets
//! and for keys whose name sounds like a secret.

use super::{Context, doctor, to_json, write_out};
use crate::args::DebugArgs;
use crate::failure::Failure;
use crate::show;
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use wayfs_control::{Command, ControlClient, Registration};

/// Bytes from the end of each log.
const LOG_TAIL: u64 = 64 * 1024;

/// Most items of a queue.
const QUEUE_LIMIT: usize = 200;

pub(crate) fn run(context: &Context, args: &DebugArgs) -> Result<(), Failure> {
    let text = format!("{:#}\n", bundle(context)?);
    let path = match &args.out {
        Some(dash) if dash == Path::new("-") => return write_out(&text),
        Some(path) => path.clone(),
        None => PathBuf::from(format!("wayfs-debug-{}.json", show::now_unix_ms() / 1000)),
    };
    let doing = || format!("write {}", path.display());
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .map_err(|e| Failure::io(doing(), &e))?;
    file.write_all(text.as_bytes()).map_err(|e| Failure::io(doing(), &e))?;
    write_out(&format!(
        "Wrote {}. It holds names of files and machines, but no contents, tickets or keys.\n",
        path.display()
    ))
}

fn bundle(context: &Context) -> Result<Value, Failure> {
    let running = context.registry.running();
    let daemons: Vec<Value> = running.iter().map(daemon).collect();
    let read = |path: &str| redact(&std::fs::read_to_string(path).unwrap_or_else(|e| e.to_string()));
    let mounts = read("/proc/self/mountinfo");
    Ok(json!({
        "made_unix_ms": show::now_unix_ms(),
        "version": env!("CARGO_PKG_VERSION"),
        "kernel": read("/proc/version").trim(),
        "doctor": to_json(&doctor::facts(context))?,
        "daemons": daemons,
        "mounts": mounts.lines().filter(|line| line.contains("fuse")).collect::<Vec<_>>(),
        "memory": read("/proc/meminfo").lines().take(3).collect::<Vec<_>>(),
        "configuration": format!("{:#?}", context.config.file),
        "logs": logs(&context.config.dirs.logs),
    }))
}

fn daemon(daemon: &Registration) -> Value {
    let ask = |command: Command| match ControlClient::connect(&daemon.socket).and_then(|client| client.ask(&command)) {
        Ok(done) => to_json(&done).unwrap_or(Value::Null),
        Err(error) => json!({ "error": error.to_string() }),
    };
    json!({
        "registration": to_json(daemon).unwrap_or(Value::Null),
        "status": ask(Command::Status),
        "queue": ask(Command::Queue { volume: None, limit: QUEUE_LIMIT }),
        "conflicts": ask(Command::ConflictsList { volume: None }),
        "stations": ask(Command::StationList { nearby: false }),
        "why": ask(Command::StationWhy),
        "metrics": ask(Command::Metrics),
        "process": redact(&std::fs::read_to_string(format!("/proc/{}/status", daemon.pid)).unwrap_or_default()),
    })
}

fn logs(directory: &Path) -> Value {
    let listing = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let tails = listing.map(|entry| {
        let tail = tail(&entry.path()).unwrap_or_else(|e| e.to_string());
        (entry.file_name().to_string_lossy().into_owned(), Value::String(redact(&tail)))
    });
    Value::Object(tails.collect())
}

fn tail(path: &Path) -> std::io::Result<String> {
    let mut file = std::fs::File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(LOG_TAIL)))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Takes out tickets, and whatever follows a word like `secret=`.
pub(crate) fn redact(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let lower = line.to_ascii_lowercase();
        let secret_word = ["secret", "password", "private_key", "token"].iter().any(|word| lower.contains(word));
        if secret_word {
            result.push_str("(a line that may hold a secret was left out)\n");
        } else {
            push_without_tickets(&mut result, line, &lower);
        }
    }
    result
}

fn push_without_tickets(result: &mut String, line: &str, lower: &str) {
    let mut from = 0;
    while let Some(at) = lower[from..].find("wayfs1-") {
        let start = from + at;
        let len = lower[start..].bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'-').count();
        result.push_str(&line[from..start]);
        result.push_str("(ticket)");
        from = start + len;
    }
    result.push_str(&line[from..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn secrets_are_taken_out() {
        let text = "joined with WAYFS1-ABC2 now\nsecret = x\nplain\n";
        assert_eq!(redact(text), "joined with (ticket) now\n(a line that may hold a secret was left out)\nplain\n");
    }

    #[test]
    fn a_long_log_is_cut_at_the_front() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.log");
        std::fs::write(&path, [vec![b'a'; 10], vec![b'b'; LOG_TAIL as usize]].concat()).unwrap();
        assert!(tail(&path).unwrap().starts_with('b'));
    }

    proptest! {
        #[test]
        fn no_ticket_stays(before in ".{0,20}", ticket in "[a-z2-7]{1,30}", after in "[ \n].{0,20}") {
            let redacted = redact(&format!("{before}wayfs1-{ticket}{after}"));
            prop_assert!(!redacted.to_ascii_lowercase().contains("wayfs1-"));
        }
    }
}
