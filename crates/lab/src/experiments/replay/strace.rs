//! Traces of programs: what `strace -f -ttt -y -e trace=file,desc -o FILE PROGRAM` writes.
//!
//! ```text
//! 4711 1700000000.123456 openat(AT_FDCWD</home/ann>, "notes", O_RDONLY) = 3</home/ann/notes>
//! 4711 1700000000.123501 read(3</home/ann/notes>, "…", 4096) = 1200
//! ```
//! Where a `read` or `write` begins is counted along. Calls that are not about files below the wanted directory, or that failed other than for a
//! missing name, are left out.

use super::system_call::{Lines, SystemCall};
use super::trace::{Before, FileNumber, Operation, Step, Trace, TraceError};
use std::collections::{BTreeMap, BTreeSet};

/// Whether a text begins like such a trace.
pub(super) fn is_one(first: &str) -> bool {
    Lines::default().take(first).is_ok()
}

/// Takes what concerns files below a directory.
pub(super) fn read(text: &str, below: &str) -> Result<Trace, TraceError> {
    let mut lines = Lines::default();
    let mut reader = Reader::default();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
        let fail = |what| TraceError { line: number + 1, what };
        let Some(call) = lines.take(line).map_err(fail)? else { continue };
        let paths: Vec<String> = lines.paths(&call).into_iter().filter(|path| is_below(path, below)).collect();
        if !paths.is_empty() && reader.take(&call, &paths).is_none() {
            *reader.trace.left_out.entry(call.name).or_default() += 1;
        }
    }
    reader.trace.sort();
    Ok(reader.trace)
}

/// What the kernel makes up is no file.
fn is_below(path: &str, below: &str) -> bool {
    let is_made_up = ["/proc/", "/sys/", "/dev/"].iter().any(|made_up| path.starts_with(made_up));
    !is_made_up
        && path.strip_prefix(below.trim_end_matches('/')).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[derive(Default)]
struct Reader {
    trace: Trace,
    numbers: BTreeMap<String, FileNumber>,
    /// Removed, or renamed to another number.
    gone: BTreeSet<FileNumber>,
    /// Where each process is in each file.
    places: BTreeMap<(String, FileNumber), u64>,
}

impl Reader {
    /// `None` if the call cannot be replayed.
    fn take(&mut self, call: &SystemCall, paths: &[String]) -> Option<()> {
        if call.is_missing() {
            return self.step(Step {
                at: call.at,
                operation: Operation::Missing,
                file: FileNumber(0),
                offset: 0,
                len: 0,
            });
        }
        let path = paths.first().filter(|_| call.is_success())?;
        let operation = match call.name.as_str() {
            "open" | "openat" | "creat" => return self.open(call, path),
            "close" => return self.close(call, path),
            _ => operation(call)?,
        };
        let file = self.number(path, operation)?;
        if self.gone.contains(&file) {
            // It came back by a call that is left out, or is only held open.
            return None;
        }
        let (offset, len) = match operation {
            Operation::Read | Operation::Write => (self.offset(call, file), call.moved()),
            Operation::Truncate => (0, call.last_number()?),
            Operation::Rename | Operation::Link => (u64::from(self.number(paths.get(1)?, Operation::Create)?.0), 0),
            _ => (0, 0),
        };
        if operation == Operation::Read
            && let Some(Before::File(known)) = self.trace.before.get_mut(&file)
        {
            *known = (*known).max(offset + len);
        }
        if matches!(operation, Operation::Remove | Operation::RemoveDirectory | Operation::Rename) {
            self.gone.insert(file);
        }
        self.step(Step { at: call.at, operation, file, offset, len })
    }

    /// Adds a step; never `None`.
    fn step(&mut self, step: Step) -> Option<()> {
        self.trace.steps.push(step);
        Some(())
    }

    /// Opening with `O_CREAT` makes a file unless it is known to be there.
    fn open(&mut self, call: &SystemCall, path: &str) -> Option<()> {
        let may_create = call.name == "creat" || call.has("O_CREAT");
        let is_there = self.numbers.get(path).is_some_and(|file| !self.gone.contains(file));
        let operation = if may_create && !is_there { Operation::Create } else { Operation::Open };
        let file = self.number(path, operation)?;
        self.step(Step { at: call.at, operation, file, offset: 0, len: 0 })?;
        if operation == Operation::Open && call.has("O_TRUNC") {
            self.step(Step { at: call.at, operation: Operation::Truncate, file, offset: 0, len: 0 })?;
        }
        Some(())
    }

    fn close(&mut self, call: &SystemCall, path: &str) -> Option<()> {
        let file = *self.numbers.get(path)?;
        self.places.remove(&(call.process.clone(), file));
        self.step(Step { at: call.at, operation: Operation::Close, file, offset: 0, len: 0 })
    }

    /// What was not made is there before.
    fn number(&mut self, path: &str, operation: Operation) -> Option<FileNumber> {
        let next = FileNumber(u32::try_from(self.numbers.len()).ok()?);
        let file = *self.numbers.entry(path.to_owned()).or_insert(next);
        let is_made = matches!(operation, Operation::Create | Operation::MakeDirectory);
        if file == next && !is_made {
            self.trace.before.insert(file, Before::File(0));
        }
        let is_directory = matches!(operation, Operation::List | Operation::RemoveDirectory);
        if is_directory && self.trace.before.contains_key(&file) {
            self.trace.before.insert(file, Before::Directory(0));
        }
        if is_made {
            self.gone.remove(&file);
        }
        Some(file)
    }

    fn offset(&mut self, call: &SystemCall, file: FileNumber) -> u64 {
        if matches!(call.name.as_str(), "pread64" | "pwrite64") {
            return call.last_number().unwrap_or(0);
        }
        let place = self.places.entry((call.process.clone(), file)).or_default();
        let begin = *place;
        *place += call.moved();
        begin
    }
}

/// What a call is in a replay, but for opening and closing.
fn operation(call: &SystemCall) -> Option<Operation> {
    Some(match call.name.as_str() {
        "stat" | "lstat" | "newfstatat" | "statx" | "fstat" => Operation::Stat,
        "access" | "faccessat" | "faccessat2" => Operation::Access,
        "read" | "pread64" => Operation::Read,
        "write" | "pwrite64" => Operation::Write,
        "getdents64" if call.moved() > 0 => Operation::List,
        "ftruncate" | "truncate" => Operation::Truncate,
        "chmod" | "fchmod" | "fchmodat" | "utimensat" => Operation::Attributes,
        "rmdir" => Operation::RemoveDirectory,
        "unlinkat" if call.has("AT_REMOVEDIR") => Operation::RemoveDirectory,
        "unlink" | "unlinkat" => Operation::Remove,
        "mkdir" | "mkdirat" => Operation::MakeDirectory,
        "rename" | "renameat" | "renameat2" => Operation::Rename,
        "link" | "linkat" => Operation::Link,
        "statfs" | "fstatfs" => Operation::StatFs,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"4711 1700000000.100000 openat(AT_FDCWD</home/ann>, "notes", O_RDONLY) = 3</home/ann/notes>
4711 1700000000.110000 read(3</home/ann/notes>, "abc"..., 4096) = 1200
4711 1700000000.120000 read(3</home/ann/notes>, "def"..., 4096) = 800
4711 1700000000.125000 pread64(3</home/ann/notes>, "x", 10, 5000) = 10
4711 1700000000.130000 close(3</home/ann/notes>) = 0
4711 1700000000.140000 openat(AT_FDCWD</home/ann>, "new", O_WRONLY|O_CREAT, 0666) = 3</home/ann/new>
4711 1700000000.150000 write(3</home/ann/new>, "hello = 1", 9) = 9
4711 1700000000.160000 access("none", R_OK) = -1 ENOENT (No such file or directory)
4711 1700000000.165000 rename("new", "newer") = 0
4711 1700000000.166000 openat(AT_FDCWD</home/ann>, "new", O_WRONLY|O_CREAT, 0666) = 3</home/ann/new>
4711 1700000000.167000 unlink("newer") = 0
4711 1700000000.167500 fstat(3</home/ann/newer>, {st_size=9}) = 0
4711 1700000000.168000 readlink("new", 0x7ffd, 100) = -1 EINVAL (Invalid argument)
4711 1700000000.169000 openat(AT_FDCWD</home/ann>, "/lib/libc.so.6", O_RDONLY) = 3</lib/libc.so.6>
4711 1700000000.170000 socket(AF_INET, SOCK_STREAM, 0) = 4
4711 1700000000.180000 +++ exited with 0 +++
"#;

    #[test]
    fn calls_become_steps() {
        assert!(is_one(TEXT.lines().next().unwrap()) && !is_one("time_us,operation"));
        let trace = read(TEXT, "/home").unwrap();
        let steps: Vec<(Operation, u64, u64)> = trace.steps.iter().map(|s| (s.operation, s.offset, s.len)).collect();
        assert_eq!(
            steps,
            [
                (Operation::Open, 0, 0),
                (Operation::Read, 0, 1200),
                (Operation::Read, 1200, 800),
                (Operation::Read, 5000, 10),
                (Operation::Close, 0, 0),
                (Operation::Create, 0, 0),
                (Operation::Write, 0, 9),
                (Operation::Missing, 0, 0),
                (Operation::Rename, 2, 0),
                (Operation::Create, 0, 0),
                (Operation::Remove, 0, 0),
            ]
        );
        assert_eq!(trace.before[&FileNumber(0)], Before::File(5010));
        assert_eq!(trace.left_out.keys().collect::<Vec<_>>(), ["fstat", "readlink"]);
        assert!(Trace::read(&trace.write()).is_ok());
    }

    #[test]
    fn damage_is_told_with_its_line() {
        let damaged = format!("{TEXT}once upon a time\n");
        assert!(read(&damaged, "/").unwrap_err().to_string().contains("line 17"));
    }
}
