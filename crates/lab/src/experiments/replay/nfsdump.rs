//! NFS traces in the text form of `nfsdump`: a line a message, numbers in hexadecimal.
//!
//! ```text
//! 999316802.627182 31.03f2 30.0801 U C3 b2dc4183 4 access fh 6189… acc U con = 82 len = 120
//! 999316802.627311 30.0801 31.03f2 U R3 b2dc4183 4 access OK ftype 1 mode 980 … size 402f8 …
//! ```

use super::conversation::{Call, Conversation, Reply};
use super::trace::{Trace, TraceError};
use std::time::Duration;

/// Whether a text begins like such a trace.
pub(super) fn is_one(first: &str) -> bool {
    let words: Vec<&str> = first.split_whitespace().take(8).collect();
    matches!(words[..], [time, _, _, "U" | "T", kind, ..] if time.parse::<f64>().is_ok() && is_kind(kind))
}

fn is_kind(word: &str) -> bool {
    matches!(word, "C2" | "C3" | "R2" | "R3")
}

pub(super) fn read(text: &str) -> Result<Trace, TraceError> {
    let mut conversation = Conversation::default();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        message(line, &mut conversation).map_err(|what| TraceError { line: number + 1, what })?;
    }
    Ok(conversation.finish())
}

fn message(line: &str, conversation: &mut Conversation) -> Result<(), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [time, from, to, _, kind, xid, _, procedure, ref rest @ ..] = words[..] else {
        return Err(format!("{} words, a message has at least 8", words.len()));
    };
    if !is_kind(kind) {
        return Err(format!("a message is C2, C3, R2 or R3, not `{kind}`"));
    }
    if kind.starts_with('C') {
        let seconds: f64 = time.parse().map_err(|_| format!("`{time}` is no time"))?;
        let at = Duration::try_from_secs_f64(seconds).map_err(|_| format!("`{time}` is no time"))?;
        let file = after(rest, "fh").map(str::to_owned);
        let (offset, len) = (hexadecimal(rest, "off")?.unwrap_or(0), hexadecimal(rest, "count")?.unwrap_or(0));
        conversation.call(format!("{from} {xid}"), Call { at, procedure: procedure.to_owned(), file, offset, len });
    } else {
        let file = after(rest, "fh").map(str::to_owned);
        let is_directory = after(rest, "ftype") == Some("2");
        let is_success = rest.first() == Some(&"OK");
        let reply = Reply { is_success, file, size: hexadecimal(rest, "size")?, is_directory };
        conversation.reply(&format!("{to} {xid}"), reply);
    }
    Ok(())
}

/// The word after another.
fn after<'a>(words: &[&'a str], name: &str) -> Option<&'a str> {
    let place = words.iter().position(|word| *word == name)?;
    words.get(place + 1).copied()
}

fn hexadecimal(words: &[&str], name: &str) -> Result<Option<u64>, String> {
    let parse = |word| u64::from_str_radix(word, 16).map_err(|_| format!("`{word}` is no {name}"));
    after(words, name).map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::super::trace::{Before, FileNumber, Operation};
    use super::*;

    const CALL: &str =
        "999316802.638172 31.03f8 30.0801 U C3 b6dc4183 6 read fh 6189ab off 3f0000 count 2000 con = 82 len = 120";
    const REPLY: &str = "999316802.638338 30.0801 31.03f8 U R3 b6dc4183 6 read OK ftype 1 mode 980 nlink 1 size 3efb59 used 3f1000 count 0 eof 1";

    #[test]
    fn messages_become_steps() {
        assert!(is_one(CALL) && !is_one("time,client"));
        let trace = read(&format!("{CALL}\n{REPLY}\n")).unwrap();
        let step = trace.steps[0];
        assert_eq!((step.operation, step.offset, step.len), (Operation::Read, 0x3f_0000, 0x2000));
        assert_eq!(trace.before[&FileNumber(0)], Before::File(0x3f_2000));
    }

    #[test]
    fn damage_is_told_with_its_line() {
        assert!(read(&format!("{CALL}\n999 a b\n")).unwrap_err().to_string().contains("line 2"));
        assert!(read(&CALL.replace("3f0000", "zz")).unwrap_err().to_string().contains("`zz` is no off"));
        assert!(read(&CALL.replace("C3", "C9")).unwrap_err().to_string().contains("not `C9`"));
    }
}
