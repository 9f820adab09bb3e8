//! What fuzzers and tests feed with bytes of nobody in particular.

use crate::calls::{Cookie, Place};
use crate::exchange::{Exchange, WaitPolicy};
use crate::operations::{self, Calls, IfTaken, Mark};
use crate::retry::Retry;
use crate::rpc::{self, Credentials};
use crate::toy::Toy;
use crate::xdr::{DecodeError, Reader, Writer};
use crate::{Handle, Notice, Records, SetAttributes, Timestamp};
use crate::{mount_protocol, portmap, results};
use wayfs_types::Time;

/// Every decoder of answers, one after the other.
pub fn decode(bytes: &[u8]) {
    let body = match rpc::decode_reply(bytes) {
        Ok((_, Ok(results))) => results,
        Ok((_, Err(_))) | Err(_) => bytes,
    };
    let _ = results::done(body);
    let _ = results::attributes(body);
    let _ = results::set_attributes(body);
    let _ = results::lookup(body);
    let _ = results::access(body);
    let _ = results::read_link(body);
    let _ = results::made(body);
    let _ = results::commit(body);
    let _ = results::file_system_statistics(body);
    let _ = results::file_system_info(body);
    let _ = mount_protocol::mount_results(body);
    let _ = mount_protocol::exports_results(body);
    let _ = portmap::port_results(body);
    if let Ok(Ok(read)) = results::read(body, 4096) {
        assert!(read.bytes.len() <= 4096, "no more than was asked for");
    }
    if let Ok(Ok(written)) = results::write(body, 4096) {
        assert!((1..=4096).contains(&written.count), "no more than was given");
    }
    for listing in [results::read_directory(body), results::read_directory_plus(body)].into_iter().flatten().flatten() {
        assert!(listing.entries.iter().all(|entry| !entry.name.is_empty() && !entry.name.contains(&b'/')));
    }
}

/// A stream, cut where `cut` says.
pub fn records(bytes: &[u8], cut: usize) {
    let mut records = Records::default();
    for part in bytes.chunks(cut.clamp(1, 4096)) {
        records.push(part);
        while let Ok(Some(message)) = records.poll() {
            assert!(message.len() <= crate::record::MESSAGE_LEN_MAX, "a message is bounded");
        }
    }
}

/// A call as a server sees it, and whatever the server in memory answers.
pub fn serve(bytes: &[u8]) {
    let mut toy = Toy::default();
    toy.put("file", b"text");
    if let Some(answer) = toy.handle(bytes) {
        decode(&answer);
    }
}

/// A client whose server's answers are changed as `bytes` say: it must come to an end, and nothing may grow.
pub fn drive(bytes: &[u8]) {
    let mut script = bytes.iter().copied();
    let policy = match script.next().unwrap_or(0) % 3 {
        0 => "ours",
        1 => "adaptive",
        _ => "exponential",
    };
    let policy = policy.parse::<Retry>().expect("the names are those of policies");
    let credentials = Credentials { machine: "fuzz".into(), uid: 1, gid: 1, groups: vec![] };
    let exchange = Exchange::new(policy.begin(), WaitPolicy::Soft(3), credentials, 0);
    let mut toy = Toy::default();
    toy.put("file", b"text");
    let root = root(&toy);
    let mut driven = Driven { exchange, toy, script, now: 0, steps: 0 };
    let mark = Mark(Timestamp { seconds: 1, nanoseconds: 2 });
    let with = SetAttributes::default();
    let at = |name: &'static [u8]| Place { directory: &root, name };
    let _ = operations::lookup(&mut driven, at(b"file"));
    let _ = operations::create(&mut driven, at(b"new"), IfTaken::Refuse, &with, mark);
    let _ = operations::create(&mut driven, at(b"new"), IfTaken::Use, &with, mark);
    let _ = operations::make_directory(&mut driven, at(b"d"), &with, mark);
    let _ = operations::symlink(&mut driven, at(b"s"), b"file", &with, mark);
    let _ = operations::rename(&mut driven, at(b"new"), at(b"d"), &root);
    let _ = operations::resize(&mut driven, &root, 3, &with);
    let _ = operations::list(&mut driven, &root, Cookie::default(), 4096, operations::Detail::Attributes);
    let _ = operations::remove(&mut driven, at(b"file"));
    assert!(driven.exchange.is_empty(), "every call came to an end");
}

fn root(toy: &Toy) -> Handle {
    let mut writer = Writer::new();
    writer.opaque(&toy.handle_at("").unwrap_or_default());
    Handle::read(&mut Reader::new(&writer.into_bytes())).expect("handles of the server in memory are short")
}

struct Driven<I> {
    exchange: Exchange,
    toy: Toy,
    script: I,
    now: u64,
    steps: u32,
}

/// Steps of one run; far more than calls, tries and probes can be.
const STEPS_MAX: u32 = 20_000;

impl<I: Iterator<Item = u8>> Driven<I> {
    fn spoil(&mut self, answer: &mut Vec<u8>) -> usize {
        let Some(what) = self.script.next() else { return 1 };
        let at = usize::from(self.script.next().unwrap_or(0)) % answer.len().max(1);
        match what % 8 {
            0 => return 0,
            1 => return 2,
            2 => answer.truncate(at),
            3 => answer[at] ^= what,
            4 => drop(answer.splice(at / 4 * 4..at / 4 * 4, [0xff; 4])),
            5 => self.toy.restart(),
            6 => {
                let notice = [Notice::HandOff, Notice::LinkUp, Notice::NewConnection][at % 3];
                self.exchange.handle_notice(Time::from_micros(self.now), notice);
            }
            _ => {}
        }
        1
    }
}

impl<I: Iterator<Item = u8>> Calls for Driven<I> {
    type Error = DecodeError;

    fn call(&mut self, call: &crate::calls::Call) -> Result<(Vec<u8>, u32), DecodeError> {
        self.exchange.submit(call);
        loop {
            self.steps += 1;
            assert!(self.steps < STEPS_MAX, "it does not end");
            let now = Time::from_micros(self.now);
            self.exchange.handle_timeout(now);
            while let Some(message) = self.exchange.poll_transmit(now) {
                let Some(mut answer) = self.toy.handle(&message) else { continue };
                for _ in 0..self.spoil(&mut answer) {
                    // What is no answer is counted there.
                    let _ = self.exchange.handle_message(now, &answer);
                }
            }
            if let Some(answer) = self.exchange.poll_answer() {
                return match answer.results {
                    Some(Ok(results)) => Ok((results, answer.sendings)),
                    Some(Err(_)) | None => Err(DecodeError::Impossible("no answer")),
                };
            }
            self.now = self.exchange.poll_timeout().map_or(self.now, Time::as_micros).max(self.now + 1);
        }
    }

    fn wait_for_jukebox(&mut self, times: u32) -> Result<bool, DecodeError> {
        Ok(times < 3)
    }
}
