//! NFS traces as a table: a line a message, as the converted DataSeries traces have it.
//!
//! Columns are found by their names: `time` (seconds), `client`, `server`, `call` (`C` or `R`), `xid`, `procedure`, `status`, `file`,
//! `offset`, `bytes`, `file_size`, `file_type`. Others are left out.

use super::conversation::{Call, Conversation, Reply};
use super::trace::{Trace, TraceError};
use std::collections::BTreeMap;
use std::time::Duration;

const COLUMNS: [&str; 12] = [
    "time",
    "client",
    "server",
    "call",
    "xid",
    "procedure",
    "status",
    "file",
    "offset",
    "bytes",
    "file_size",
    "file_type",
];

/// Whether a text begins like such a table.
pub(super) fn is_one(header: &str) -> bool {
    let names: Vec<&str> = header.split(',').collect();
    COLUMNS.iter().all(|column| names.contains(column))
}

pub(super) fn read(text: &str) -> Result<Trace, TraceError> {
    let names: Vec<&str> = text.lines().next().unwrap_or_default().split(',').collect();
    let mut conversation = Conversation::default();
    for (number, line) in text.lines().enumerate().skip(1).filter(|(_, line)| !line.is_empty()) {
        let fail = |what: String| TraceError { line: number + 1, what };
        let fields: Vec<&str> = line.split(',').collect();
        if fields.len() != names.len() {
            return Err(fail(format!("{} fields instead of {}", fields.len(), names.len())));
        }
        let row = Row(names.iter().copied().zip(fields).collect());
        row.take_in(&mut conversation).map_err(fail)?;
    }
    Ok(conversation.finish())
}

struct Row<'a>(BTreeMap<&'a str, &'a str>);

impl Row<'_> {
    fn take_in(&self, conversation: &mut Conversation) -> Result<(), String> {
        let id = format!("{} {} {}", self.field("client"), self.field("server"), self.field("xid"));
        let file = Some(self.field("file").to_owned()).filter(|file| !file.is_empty());
        match self.field("call") {
            "C" => {
                let seconds: f64 = self.number("time")?;
                let at = Duration::try_from_secs_f64(seconds).map_err(|_| format!("`{seconds}` is no time"))?;
                let (offset, len) = (self.number("offset")?, self.number("bytes")?);
                let call = Call { at, procedure: self.field("procedure").to_owned(), file, offset, len };
                conversation.call(id, call);
            }
            "R" => {
                let is_success = self.number::<u32>("status")? == 0;
                let is_directory = self.field("file_type") == "directory";
                let size = Some(self.number("file_size")?).filter(|_| !self.field("file_size").is_empty());
                conversation.reply(&id, Reply { is_success, file, size, is_directory });
            }
            other => return Err(format!("a message is a call (C) or a reply (R), not `{other}`")),
        }
        Ok(())
    }

    fn field(&self, name: &str) -> &str {
        self.0.get(name).copied().unwrap_or_default()
    }

    fn number<T: std::str::FromStr + Default>(&self, name: &str) -> Result<T, String> {
        match self.field(name) {
            "" => Ok(T::default()),
            field => field.parse().map_err(|_| format!("`{field}` is no {name}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trace::Operation;
    use super::*;

    const HEADER: &str = "time,client,server,transport,version,call,xid,procedure,status,payload_bytes,file,offset,bytes,file_size,file_type,mtime";

    #[test]
    fn messages_become_steps() {
        let text = format!(
            "{HEADER}\n1063931188.268758059,c,s,udp,2,C,d2bc606e,read,,44,1,0,129,,,\n\
             1063931188.268856168,c,s,udp,2,R,d2bc606e,read,0,208,1,,,129,file,1062619053.0\n\
             1063931188.269667983,c,s,udp,2,C,d3bc606e,getattr,,32,,,,,,\n\
             1063931188.269708157,c,s,udp,2,R,d3bc606e,getattr,0,72,3,,,4096,directory,1.0\n"
        );
        assert!(is_one(HEADER));
        let trace = read(&text).unwrap();
        assert_eq!((trace.steps[0].operation, trace.steps[0].len), (Operation::Read, 129));
        assert_eq!((trace.steps[1].operation, trace.steps[1].at.as_micros()), (Operation::Stat, 909));
    }

    #[test]
    fn damage_is_told_with_its_line() {
        let damaged = |line: &str| read(&format!("{HEADER}\n{line}\n")).unwrap_err().to_string();
        assert!(damaged("1,c,s").contains("line 2 of the trace: 3 fields instead of 16"));
        assert!(damaged("x,c,s,udp,2,C,1,read,,44,1,0,129,,,").contains("`x` is no time"));
        assert!(damaged("-1,c,s,udp,2,C,1,read,,44,1,0,129,,,").contains("`-1` is no time"));
        assert!(damaged("1,c,s,udp,2,Q,1,read,,44,1,0,129,,,").contains("not `Q`"));
    }
}
