//! NFS calls and their replies, put together into a trace: what both text forms of NFS traces share.

use super::trace::{Before, FileNumber, Operation, Step, Trace};
use std::collections::BTreeMap;
use std::time::Duration;

/// What a call asks.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// Since whenever.
    pub(super) at: Duration,
    /// NFS procedure, as its specification calls it, in small letters.
    pub(super) procedure: String,
    /// Handle of the file, if the call tells.
    pub(super) file: Option<String>,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// What a reply tells.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    /// Whether the server did it.
    pub(super) is_success: bool,
    /// Handle of the file, if the reply tells.
    pub(super) file: Option<String>,
    /// Size and kind after the call.
    pub(super) size: Option<u64>,
    pub(super) is_directory: bool,
}

/// Entries of a directory whose number no trace tells: what a page of a listing holds.
const DIRECTORY_LEN: u64 = 32;

/// Puts calls and replies together.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    trace: Trace,
    numbers: BTreeMap<String, FileNumber>,
    open: BTreeMap<String, Call>,
}

impl Conversation {
    /// A call; `id` names it and its reply. A call that was sent again counts once.
    pub(super) fn call(&mut self, id: String, call: Call) {
        self.open.entry(id).or_insert(call);
    }

    /// The reply to a call.
    pub(super) fn reply(&mut self, id: &str, reply: Reply) {
        let Some(call) = self.open.remove(id) else { return };
        let procedure = call.procedure.clone();
        if self.take(call, reply).is_none() {
            *self.trace.left_out.entry(procedure).or_default() += 1;
        }
    }

    /// `None` if it cannot be replayed.
    fn take(&mut self, call: Call, reply: Reply) -> Option<()> {
        let operation = match (call.procedure.as_str(), reply.is_success) {
            ("statfs" | "fsstat" | "fsinfo" | "pathconf", _) => Operation::StatFs,
            ("lookup", false) => Operation::Missing,
            (_, false) => return None,
            ("lookup", true) => Operation::Open,
            ("getattr", true) => Operation::Stat,
            ("access", true) => Operation::Access,
            ("readdir" | "readdirp" | "readdirplus", true) => Operation::List,
            ("read", true) => Operation::Read,
            ("write", true) => Operation::Write,
            ("setattr", true) => Operation::Attributes,
            ("create", true) => Operation::Create,
            _ => return None,
        };
        let file = match operation {
            Operation::StatFs | Operation::Missing => FileNumber(0),
            _ => self.number(operation, &call, &reply)?,
        };
        let (offset, len) = match operation {
            Operation::Read | Operation::Write => (call.offset, call.len),
            _ => (0, 0),
        };
        self.trace.steps.push(Step { at: call.at, operation, file, offset, len });
        Some(())
    }

    /// The number of the file that is meant, which is noted as there before.
    fn number(&mut self, operation: Operation, call: &Call, reply: &Reply) -> Option<FileNumber> {
        let handle = match operation {
            // The call names the directory.
            Operation::Open | Operation::Create => reply.file.as_ref()?,
            _ => call.file.as_ref().or(reply.file.as_ref())?,
        };
        let next = FileNumber(u32::try_from(self.numbers.len()).ok()?);
        let number = *self.numbers.entry(handle.clone()).or_insert(next);
        let is_new = number == next;
        let is_directory = reply.is_directory || operation == Operation::List;
        let end = if operation == Operation::Read { call.offset.checked_add(call.len)? } else { 0 };
        // A write's reply tells the size after it; only what is read must be there before.
        let size = if operation == Operation::Write { 0 } else { reply.size.unwrap_or(0).max(end) };
        let before = if is_directory { Before::Directory(DIRECTORY_LEN) } else { Before::File(size) };
        match self.trace.before.get_mut(&number) {
            Some(Before::File(_)) if is_directory => {
                self.trace.before.insert(number, before);
            }
            Some(Before::File(known)) => *known = (*known).max(size),
            Some(Before::Directory(_)) => {}
            None if is_new && operation == Operation::Create => {}
            None if is_new => {
                self.trace.before.insert(number, before);
            }
            // It was created in the trace.
            None => {}
        }
        Some(number)
    }

    /// The trace. Calls that nobody answered are left out.
    pub(super) fn finish(mut self) -> Trace {
        for call in self.open.into_values() {
            *self.trace.left_out.entry(format!("{} without a reply", call.procedure)).or_default() += 1;
        }
        self.trace.sort();
        self.trace.close_after_writes();
        self.trace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(procedure: &str, file: Option<&str>, len: u64) -> Call {
        let file = file.map(str::to_owned);
        Call { at: Duration::from_secs(5), procedure: procedure.into(), file, offset: 100, len }
    }

    const OK: Reply = Reply { is_success: true, file: None, size: None, is_directory: false };

    #[test]
    fn calls_meet_their_replies_and_files_are_as_long_as_they_must_be() {
        let mut conversation = Conversation::default();
        conversation.call("1".into(), call("lookup", Some("dir"), 0));
        conversation.call("1".into(), call("lookup", Some("dir"), 0));
        conversation.call("2".into(), call("read", Some("f"), 50));
        conversation.call("3".into(), call("lookup", Some("dir"), 0));
        conversation.call("4".into(), call("rename", Some("dir"), 0));
        conversation.call("5".into(), call("getattr", Some("f"), 0));
        conversation.reply("1", Reply { file: Some("f".into()), size: Some(20), ..OK });
        conversation.reply("1", OK);
        conversation.reply("2", OK);
        conversation.reply("3", Reply { is_success: false, ..OK });
        conversation.reply("4", OK);
        let trace = conversation.finish();
        let operations: Vec<Operation> = trace.steps.iter().map(|step| step.operation).collect();
        assert_eq!(operations, [Operation::Open, Operation::Read, Operation::Missing]);
        assert_eq!(trace.before[&FileNumber(0)], Before::File(150));
        let left: Vec<&str> = trace.left_out.keys().map(String::as_str).collect();
        assert_eq!(left, ["getattr without a reply", "rename"]);
        assert!(Trace::read(&trace.write()).is_ok());
    }

    #[test]
    fn created_files_are_not_there_before() {
        let mut conversation = Conversation::default();
        conversation.call("1".into(), call("create", Some("dir"), 0));
        conversation.call("2".into(), call("write", Some("f"), 50));
        conversation.reply("1", Reply { file: Some("f".into()), ..OK });
        conversation.reply("2", Reply { size: Some(150), ..OK });
        let trace = conversation.finish();
        assert!(trace.before.is_empty());
        assert_eq!(trace.steps.last().unwrap().operation, Operation::Close);
    }
}
