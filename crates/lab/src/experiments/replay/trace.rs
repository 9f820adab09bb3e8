//! A trace of file operations, and the form in which traces are kept.
//!
//! ```text
//! time_us,operation,file,offset,length
//! ,file,0,,325880          is there before: a file of so many bytes
//! ,directory,3,,12         is there before: a directory with so many entries
//! 0,statfs,,,              at this time after the begin
//! 46,stat,0,,
//! 1502,read,0,8192,4096
//! ```
//! Files are numbers; their names are made up when the trace is replayed. Empty fields are zero. Lines that begin with
//! `#` are left out. Operations:
//!
//! | operation | does |
//! | --- | --- |
//! | `statfs` | asks for the room in the file system |
//! | `stat`, `access` | asks for the attributes, for the rights, by name |
//! | `missing` | asks for the attributes of a name that is not there |
//! | `open` | opens by name and closes |
//! | `list` | reads a directory to its end |
//! | `read`, `write` | at an offset, through a handle that stays open (opening it counts as `open`) |
//! | `close` | closes that handle |
//! | `truncate` | to a length |
//! | `attributes` | sets the mode that it has |
//! | `create`, `remove` | makes an empty file, removes a file |
//! | `mkdir`, `rmdir` | makes a directory, removes it |
//! | `rename`, `link` | to the file whose number is in the field `offset` |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::time::Duration;

/// First line of a trace.
pub(super) const HEADER: &str = "time_us,operation,file,offset,length";
/// Longest file that a trace may have: numbers beyond are damage, not files.
const FILE_LEN_MAX: u64 = 1 << 40;
/// A handle that wrote is closed when it has not written for so long: NFS, which has no close, does not tell.
const CLOSE_AFTER: Duration = Duration::from_millis(100);

/// A file of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileNumber(pub(super) u32);

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    StatFs,
    Stat,
    Access,
    Missing,
    Open,
    List,
    Read,
    Write,
    Close,
    Truncate,
    Attributes,
    Create,
    Remove,
    MakeDirectory,
    RemoveDirectory,
    Rename,
    Link,
}

impl Operation {
    /// All of them.
    pub(super) const ALL: [Self; 17] = [
        Self::StatFs,
        Self::Stat,
        Self::Access,
        Self::Missing,
        Self::Open,
        Self::List,
        Self::Read,
        Self::Write,
        Self::Close,
        Self::Truncate,
        Self::Attributes,
        Self::Create,
        Self::Remove,
        Self::MakeDirectory,
        Self::RemoveDirectory,
        Self::Rename,
        Self::Link,
    ];

    /// As traces and reports call it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::StatFs => "statfs",
            Self::Stat => "stat",
            Self::Access => "access",
            Self::Missing => "missing",
            Self::Open => "open",
            Self::List => "list",
            Self::Read => "read",
            Self::Write => "write",
            Self::Close => "close",
            Self::Truncate => "truncate",
            Self::Attributes => "attributes",
            Self::Create => "create",
            Self::Remove => "remove",
            Self::MakeDirectory => "mkdir",
            Self::RemoveDirectory => "rmdir",
            Self::Rename => "rename",
            Self::Link => "link",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Whether it makes the file under its number.
    const fn makes(self) -> bool {
        matches!(self, Self::Create | Self::MakeDirectory)
    }

    /// Whether it also concerns a second file, whose number is in place of the offset.
    pub(super) const fn has_target(self) -> bool {
        matches!(self, Self::Rename | Self::Link)
    }

    /// Whether names come or go by it, so that nothing on the same file may pass it.
    pub(super) const fn is_structural(self) -> bool {
        self.makes() || self.has_target() || matches!(self, Self::Remove | Self::RemoveDirectory | Self::Truncate)
    }

    /// Whether it is done to a file of the trace.
    pub(super) const fn has_file(self) -> bool {
        !matches!(self, Self::StatFs | Self::Missing)
    }
}

/// What is there before the first operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// A file of so many bytes.
    File(u64),
    /// A directory with so many entries.
    Directory(u64),
}

/// An operation at its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// Since the begin of the trace.
    pub(super) at: Duration,
    /// What is done.
    pub(super) operation: Operation,
    /// To which file; of no meaning where there is none.
    pub(super) file: FileNumber,
    /// From which byte.
    pub(super) offset: u64,
    /// How many bytes.
    pub(super) len: u64,
}

/// File operations with their times.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Trace {
    /// What is there before.
    pub(super) before: BTreeMap<FileNumber, Before>,
    /// In the order of their times.
    pub(super) steps: Vec<Step>,
    /// What its source has and a replay has not, by procedure.
    pub(super) left_out: BTreeMap<String, u64>,
}

/// What is wrong with a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the trace: {what}")]
pub(super) struct TraceError {
    /// Counted from 1.
    pub(super) line: usize,
    /// What.
    pub(super) what: String,
}

impl Step {
    /// The files that it concerns.
    pub(super) fn files(&self) -> impl Iterator<Item = FileNumber> {
        let own = self.operation.has_file().then_some(self.file);
        own.into_iter().chain(self.target().filter(|target| Some(*target) != own))
    }

    /// The second file of a step that has one.
    pub(super) fn target(&self) -> Option<FileNumber> {
        let number = u32::try_from(self.offset).ok()?;
        self.operation.has_target().then_some(FileNumber(number))
    }
}

impl Trace {
    /// Reads the form above.
    pub(super) fn read(text: &str) -> Result<Self, TraceError> {
        let mut trace = Self::default();
        let mut made = BTreeSet::new();
        for (number, line) in text.lines().enumerate().skip(1) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fail = |what: String| TraceError { line: number + 1, what };
            trace.read_line(line, &mut made).map_err(fail)?;
        }
        trace.sort();
        Ok(trace)
    }

    fn read_line(&mut self, line: &str, made: &mut BTreeSet<FileNumber>) -> Result<(), String> {
        let fields: Vec<&str> = line.split(',').collect();
        let [at, operation, file, offset, len] = fields[..] else {
            return Err(format!("{} fields instead of 5 ({HEADER})", fields.len()));
        };
        let file = FileNumber(number(file, "file")?);
        let (offset, len): (u64, u64) = (number(offset, "offset")?, number(len, "length")?);
        if offset.max(len) > FILE_LEN_MAX {
            return Err(format!("no file is longer than {FILE_LEN_MAX} bytes here"));
        }
        match operation {
            "file" => self.before.insert(file, Before::File(len)),
            "directory" => self.before.insert(file, Before::Directory(len)),
            _ => {
                let known =
                    Operation::named(operation).ok_or_else(|| format!("there is no operation `{operation}`"))?;
                if known.makes() {
                    made.insert(file);
                }
                if known.has_target() {
                    made.insert(FileNumber(u32::try_from(offset).map_err(|_| format!("`{offset}` is no file"))?));
                }
                if known.has_file() && !self.before.contains_key(&file) && !made.contains(&file) {
                    return Err(format!("file {} is neither there before nor created", file.0));
                }
                let at = Duration::from_micros(number(at, "time")?);
                self.steps.push(Step { at, operation: known, file, offset, len });
                None
            }
        };
        Ok(())
    }

    /// Writes the form above.
    pub(super) fn write(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for (file, before) in &self.before {
            let (kind, len) = match before {
                Before::File(len) => ("file", len),
                Before::Directory(len) => ("directory", len),
            };
            // Writing to a string does not fail.
            let _ = writeln!(text, ",{kind},{},,{len}", file.0);
        }
        for step in &self.steps {
            let (at, name) = (step.at.as_micros(), step.operation.name());
            let file = if step.operation.has_file() { step.file.0.to_string() } else { String::new() };
            let _ = match (step.offset, step.len) {
                (0, 0) => writeln!(text, "{at},{name},{file},,"),
                (offset, len) => writeln!(text, "{at},{name},{file},{offset},{len}"),
            };
        }
        text
    }

    /// Puts the steps into the order of their times; the first is at zero.
    pub(super) fn sort(&mut self) {
        self.steps.sort_by_key(|step| step.at);
        let begin = self.steps.first().map_or(Duration::ZERO, |step| step.at);
        self.steps.iter_mut().for_each(|step| step.at -= begin);
    }

    /// Closes handles that wrote, a moment after their last write of a run.
    pub(super) fn close_after_writes(&mut self) {
        let mut last: BTreeMap<FileNumber, Duration> = BTreeMap::new();
        let mut closes = Vec::new();
        let close = |file, at| Step { at: at + CLOSE_AFTER, operation: Operation::Close, file, offset: 0, len: 0 };
        for step in self.steps.iter().filter(|step| step.operation == Operation::Write) {
            let before = last.insert(step.file, step.at);
            closes.extend(before.filter(|at| *at + CLOSE_AFTER < step.at).map(|at| close(step.file, at)));
        }
        closes.extend(last.into_iter().map(|(file, at)| close(file, at)));
        self.steps.extend(closes);
        self.sort();
    }

    /// Only what begins within so long.
    pub(super) fn cut(mut self, length: Duration) -> Self {
        self.steps.retain(|step| step.at < length);
        let used: BTreeSet<FileNumber> = self.steps.iter().flat_map(Step::files).collect();
        self.before.retain(|file, _| used.contains(file));
        self
    }

    /// How long it lasts.
    pub(super) fn length(&self) -> Duration {
        self.steps.last().map_or(Duration::ZERO, |step| step.at)
    }
}

fn number<T: std::str::FromStr + Default>(field: &str, what: &str) -> Result<T, String> {
    match field {
        "" => Ok(T::default()),
        _ => field.parse().map_err(|_| format!("`{field}` is no {what}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "time_us,operation,file,offset,length\n,file,0,,325880\n,directory,3,,12\n0,statfs,,,\n46,stat,0,,\n\
                        1502,read,0,8192,4096\n1600,create,7,,\n1700,write,7,0,100\n";

    #[test]
    fn what_is_written_is_read_again() {
        let trace = Trace::read(TEXT).unwrap();
        assert_eq!(trace.steps.len(), 5);
        assert_eq!(trace.write(), TEXT);
        assert_eq!(trace.length(), Duration::from_micros(1700));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let wrong = |line: &str| Trace::read(&format!("{HEADER}\n,file,1,,5\n{line}\n")).unwrap_err().to_string();
        assert_eq!(wrong("0,reed,1,0,4"), "line 3 of the trace: there is no operation `reed`");
        assert!(wrong("0,read,2,0,4").contains("file 2 is neither there before nor created"));
        assert!(wrong("x,read,1,0,4").contains("`x` is no time"));
        assert!(wrong("0,read,1,-1,4").contains("`-1` is no offset"));
        assert!(wrong("0,read,1").contains("3 fields instead of 5"));
        assert!(wrong("0,read,1,0,99999999999999").contains("longer"));
    }

    #[test]
    fn handles_that_wrote_are_closed_once_a_run() {
        let text = format!("{HEADER}\n,file,1,,5\n0,write,1,0,4\n50000,write,1,4,4\n400000,write,1,0,4\n");
        let mut trace = Trace::read(&text).unwrap();
        trace.close_after_writes();
        let closes: Vec<u128> =
            trace.steps.iter().filter(|s| s.operation == Operation::Close).map(|s| s.at.as_millis()).collect();
        assert_eq!(closes, [150, 500]);
    }

    #[test]
    fn a_cut_trace_needs_only_its_own_files() {
        let trace = Trace::read(TEXT).unwrap().cut(Duration::from_micros(1000));
        assert_eq!((trace.steps.len(), trace.before.len()), (2, 1));
    }
}
