//! A line of `strace -f -ttt -y`: one system call, its paths and its numbers.

use std::collections::BTreeMap;
use std::time::Duration;

/// Calls whose paths are relative to a directory that comes before each.
const RELATIVE: [&str; 13] = [
    "openat",
    "newfstatat",
    "statx",
    "faccessat",
    "faccessat2",
    "unlinkat",
    "mkdirat",
    "renameat",
    "renameat2",
    "linkat",
    "fchmodat",
    "utimensat",
    "readlinkat",
];
/// Calls about a descriptor; what they have in quotes are bytes.
const OF_DESCRIPTORS: [&str; 11] =
    ["read", "pread64", "write", "pwrite64", "fstat", "close", "getdents64", "ftruncate", "fchmod", "fstatfs", "fsync"];

/// A call that has ended.
#[derive(Debug)]
pub(super) struct SystemCall {
    /// Whose.
    pub(super) process: String,
    /// Since 1970.
    pub(super) at: Duration,
    /// Its name; `signal` and the like for lines that are no calls.
    pub(super) name: String,
    arguments: String,
    /// What came after the last ` = `.
    result: String,
}

/// Puts lines together: calls that were interrupted by those of other processes are in two parts.
#[derive(Default)]
pub(super) struct Lines {
    begun: BTreeMap<String, (Duration, String)>,
    /// Where each process is, as far as its calls tell.
    directories: BTreeMap<String, String>,
}

impl Lines {
    /// The next line; `None` if its call goes on.
    pub(super) fn take(&mut self, line: &str) -> Result<Option<SystemCall>, String> {
        let (process, at, rest) = split(line)?;
        if let Some(begun) = rest.strip_suffix(" <unfinished ...>") {
            self.begun.insert(process.to_owned(), (at, begun.to_owned()));
            return Ok(None);
        }
        let whole = match rest.strip_prefix("<... ").and_then(|rest| rest.split_once(" resumed>")) {
            None => (at, rest.to_owned()),
            Some((_, rest)) => match self.begun.remove(process) {
                Some((at, begun)) => (at, begun + rest),
                // The recording began within it.
                None => return Ok(None),
            },
        };
        let call = SystemCall::new(process, whole.0, &whole.1);
        if let Some(directory) = call.present_directory() {
            self.directories.insert(call.process.clone(), directory);
        }
        Ok(Some(call))
    }

    /// The paths that a call is about, absolute: none, one, or two.
    pub(super) fn paths(&self, call: &SystemCall) -> Vec<String> {
        let name = call.name.as_str();
        if OF_DESCRIPTORS.contains(&name) {
            return call.annotated(0).map(str::to_owned).into_iter().collect();
        }
        let quoted = (0..2).map_while(|number| call.quoted(number));
        let present = self.directories.get(&call.process).map(String::as_str);
        let base = |number| if RELATIVE.contains(&name) { call.annotated(number) } else { present };
        quoted.enumerate().filter_map(|(number, path)| join(base(number), path)).collect()
    }
}

/// Process, time and the rest of a line.
fn split(line: &str) -> Result<(&str, Duration, &str), String> {
    let wrong = || "not of the form `PROCESS TIME CALL(…) = RESULT`".to_owned();
    let (process, rest) = line.trim_start().split_once(' ').ok_or_else(wrong)?;
    let (time, rest) = rest.trim_start().split_once(' ').ok_or_else(wrong)?;
    let _: u32 = process.parse().map_err(|_| format!("`{process}` is no process"))?;
    let seconds: f64 = time.parse().map_err(|_| format!("`{time}` is no time"))?;
    let at = Duration::try_from_secs_f64(seconds).map_err(|_| format!("`{time}` is no time"))?;
    Ok((process, at, rest))
}

fn join(base: Option<&str>, path: &str) -> Option<String> {
    match (base, path) {
        (_, path) if path.starts_with('/') => Some(path.to_owned()),
        (Some(base), "" | ".") => Some(base.to_owned()),
        (Some(base), path) => Some(format!("{base}/{}", path.trim_start_matches("./"))),
        (None, _) => None,
    }
}

impl SystemCall {
    fn new(process: &str, at: Duration, text: &str) -> Self {
        let (call, result) = text.rsplit_once(" = ").unwrap_or((text, ""));
        let (name, arguments) = call.split_once('(').unwrap_or(("signal", call));
        let [process, name, arguments, result] = [process, name, arguments, result].map(str::to_owned);
        Self { process, at, name, arguments, result }
    }

    /// Whether it did what it was to.
    pub(super) fn is_success(&self) -> bool {
        !self.result.is_empty() && !self.result.starts_with(['-', '?'])
    }

    /// Whether the name was not there.
    pub(super) fn is_missing(&self) -> bool {
        self.result.starts_with("-1 ENOENT")
    }

    /// Whether a word is among its arguments.
    pub(super) fn has(&self, word: &str) -> bool {
        self.arguments.contains(word)
    }

    /// Its last argument, if that is a number.
    pub(super) fn last_number(&self) -> Option<u64> {
        self.arguments.trim_end_matches(')').rsplit(", ").next()?.trim().parse().ok()
    }

    /// How many bytes it moved.
    pub(super) fn moved(&self) -> u64 {
        self.result.split([' ', '<']).next().and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// The path behind a descriptor.
    fn annotated(&self, number: usize) -> Option<&str> {
        let path = self.arguments.split('<').nth(number + 1)?.split('>').next()?;
        path.starts_with('/').then_some(path)
    }

    /// A text in quotes.
    fn quoted(&self, number: usize) -> Option<&str> {
        self.arguments.split('"').nth(2 * number + 1)
    }

    /// Where its process is, if it tells.
    fn present_directory(&self) -> Option<String> {
        match self.name.as_str() {
            "chdir" | "getcwd" if self.is_success() => self.quoted(0).filter(|path| path.starts_with('/')),
            _ => self.arguments.split_once("AT_FDCWD<").and_then(|(_, rest)| rest.split('>').next()),
        }
        .map(str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(lines: &mut Lines, line: &str) -> Vec<String> {
        let call = lines.take(line).unwrap().unwrap();
        lines.paths(&call)
    }

    #[test]
    fn paths_are_absolute() {
        let mut lines = Lines::default();
        assert_eq!(paths(&mut lines, "7 1.0 unlink(\"x\") = 0"), Vec::<String>::new());
        assert_eq!(paths(&mut lines, "7 1.0 openat(AT_FDCWD</a>, \"b/c\", O_RDONLY) = 3</a/b/c>"), ["/a/b/c"]);
        assert_eq!(paths(&mut lines, "7 1.0 unlink(\"./x\") = 0"), ["/a/x"]);
        assert_eq!(paths(&mut lines, "7 1.0 rename(\"x\", \"/y\") = 0"), ["/a/x", "/y"]);
        assert_eq!(paths(&mut lines, "7 1.0 renameat2(3</p>, \"x\", 4</q>, \"y\", 0) = 0"), ["/p/x", "/q/y"]);
        assert_eq!(paths(&mut lines, "7 1.0 read(3</p/z>, \"/no\\\"path\", 10) = 9"), ["/p/z"]);
        assert_eq!(paths(&mut lines, "7 1.0 newfstatat(3</p/z>, \"\", {st_size=5}, AT_EMPTY_PATH) = 0"), ["/p/z"]);
        assert_eq!(paths(&mut lines, "7 1.0 read(3<pipe:[5]>, \"\", 10) = 0"), Vec::<String>::new());
    }

    #[test]
    fn interrupted_calls_are_put_together() {
        let mut lines = Lines::default();
        assert!(lines.take("7 1.5 read(3</p/z>,  <unfinished ...>").unwrap().is_none());
        let call = lines.take("7 1.7 <... read resumed>\"abc\", 10) = 3").unwrap().unwrap();
        assert_eq!((call.name.as_str(), call.at.as_millis(), call.moved()), ("read", 1500, 3));
        assert_eq!(lines.paths(&call), ["/p/z"]);
    }
}
