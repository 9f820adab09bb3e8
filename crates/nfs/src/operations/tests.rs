//! Timelines in virtual time: a client, a path that loses what the test says, a server that forgets what the test says.

use super::*;
use crate::calls::Cookie;
use crate::retry::Retry;
use crate::rpc::Credentials;
use crate::toy::Toy;
use crate::{Exchange, Kind, WaitPolicy};
use std::collections::BTreeMap;
use wayfs_types::Time;

/// What becomes of the answer to the first calls of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Lost,
    /// Lost, and the server restarts.
    LostWithServer,
}

struct Line {
    exchange: Exchange,
    toy: Toy,
    now: u64,
    fates: BTreeMap<Kind, Vec<Fate>>,
    sent: Vec<Kind>,
    messages: Vec<(Kind, Vec<u8>)>,
}

fn mark() -> Mark {
    Mark(Timestamp { seconds: 1_600_000_000, nanoseconds: 123_456_789 })
}

impl Line {
    fn new() -> Self {
        let credentials = Credentials { machine: "test".into(), uid: 1000, gid: 1000, groups: vec![] };
        let policy = "constant:every=1s".parse::<Retry>().unwrap().begin();
        let exchange = Exchange::new(policy, WaitPolicy::Hard, credentials, 1);
        Self { exchange, toy: Toy::default(), now: 0, fates: BTreeMap::new(), sent: Vec::new(), messages: Vec::new() }
    }

    /// The server has done the first call of that kind, forgets so, and its answer is lost.
    fn forgetful(kind: Kind) -> Self {
        let mut line = Self::new();
        line.fates.insert(kind, vec![Fate::LostWithServer]);
        line
    }

    fn root(&self) -> Handle {
        handle(&self.toy, "")
    }

    fn count(&self, kind: Kind) -> usize {
        self.sent.iter().filter(|sent| **sent == kind).count()
    }
}

/// The handle of a path that exists, as the toy makes it.
fn handle(toy: &Toy, path: &str) -> Handle {
    let bytes = toy.handle_at(path).unwrap();
    let mut writer = crate::xdr::Writer::new();
    writer.opaque(&bytes);
    Handle::read(&mut crate::xdr::Reader::new(&writer.into_bytes())).unwrap()
}

impl Calls for Line {
    type Error = DecodeError;

    fn call(&mut self, call: &Call) -> Result<(Vec<u8>, u32), DecodeError> {
        self.exchange.submit(call);
        for _ in 0..1000 {
            let now = Time::from_micros(self.now);
            self.exchange.handle_timeout(now);
            while let Some(message) = self.exchange.poll_transmit(now) {
                self.sent.push(call.kind);
                self.messages.push((call.kind, message.clone()));
                let answer = self.toy.handle(&message).unwrap();
                let fates = self.fates.entry(call.kind).or_default();
                match if fates.is_empty() { None } else { Some(fates.remove(0)) } {
                    None => self.exchange.handle_message(now, &answer)?,
                    Some(Fate::Lost) => {}
                    Some(Fate::LostWithServer) => self.toy.restart(),
                }
            }
            if let Some(answer) = self.exchange.poll_answer() {
                return Ok((answer.results.unwrap().unwrap(), answer.sendings));
            }
            self.now = self.exchange.poll_timeout().unwrap().as_micros();
        }
        panic!("{:?} is never answered", call.kind);
    }

    fn wait_for_jukebox(&mut self, times: u32) -> Result<bool, DecodeError> {
        self.now += u64::try_from(jukebox_pause(times).as_micros()).unwrap();
        Ok(times < 100)
    }
}

fn at<'a>(directory: &'a Handle, name: &'a str) -> Place<'a> {
    Place { directory, name: name.as_bytes() }
}

#[test]
fn a_removal_whose_answer_was_lost_and_forgotten_is_done() {
    let mut line = Line::forgetful(Kind::Remove);
    line.toy.put("file", b"x");
    let root = line.root();
    assert_eq!(remove(&mut line, at(&root, "file")), Ok(Ok(())));
    assert_eq!((line.count(Kind::Remove), line.now), (2, 1_000_000));
    // Sent once, the same answer is the truth.
    assert_eq!(remove(&mut line, at(&root, "file")), Ok(Err(Status::NOENT)));
}

#[test]
fn a_server_that_remembers_answers_a_second_copy_as_the_first() {
    let mut line = Line::new();
    line.toy.put("file", b"x");
    line.fates.insert(Kind::Remove, vec![Fate::Lost, Fate::Lost]);
    let root = line.root();
    assert_eq!(remove(&mut line, at(&root, "file")), Ok(Ok(())));
    assert_eq!((line.count(Kind::Remove), line.toy.done[&Kind::Remove]), (3, 1));
}

#[test]
fn a_directory_that_was_removed_or_made_by_the_lost_copy_is() {
    let mut line = Line::forgetful(Kind::MakeDirectory);
    let root = line.root();
    let made = make_directory(&mut line, at(&root, "d"), &SetAttributes::default(), mark()).unwrap().unwrap();
    assert_eq!(made.attributes.kind, FileKind::Directory);
    assert_eq!(line.count(Kind::MakeDirectory), 2);
    line.fates.insert(Kind::RemoveDirectory, vec![Fate::LostWithServer]);
    assert_eq!(remove_directory(&mut line, at(&root, "d")), Ok(Ok(())));
    assert!(line.toy.names("").is_empty());
}

/// [S-nfs-twice]
#[test]
fn a_directory_that_somebody_else_made_is_not_taken_for_ours() {
    // The first copy was lost on its way; another client was faster than the second.
    let mut line = Line::new();
    let root = line.root();
    let others = Mark(Timestamp { seconds: 1_600_000_000, nanoseconds: 1 });
    make_directory(&mut line, at(&root, "lock"), &SetAttributes::default(), others).unwrap().unwrap();
    line.fates.insert(Kind::MakeDirectory, vec![Fate::LostWithServer]);
    let ours = make_directory(&mut line, at(&root, "lock"), &SetAttributes::default(), mark()).unwrap();
    assert_eq!(ours, Err(Status::EXIST));
    assert_eq!(line.count(Kind::Lookup), 1);
    // A server that keeps no marks makes the failure stand: too careful is right, too bold is not.
    let mut line = Line::forgetful(Kind::MakeDirectory);
    line.toy.without_marks = true;
    let ours = make_directory(&mut line, at(&root, "lock"), &SetAttributes::default(), mark()).unwrap();
    assert_eq!(ours, Err(Status::EXIST));
}

#[test]
fn a_link_and_a_symbolic_link_that_the_lost_copy_made_are() {
    let mut line = Line::forgetful(Kind::Link);
    line.toy.put("file", b"x");
    line.toy.put("other", b"y");
    let (root, file) = (line.root(), handle(&line.toy, "file"));
    assert_eq!(link(&mut line, &file, at(&root, "second")).unwrap().unwrap().links, 2);
    line.fates.insert(Kind::Link, vec![Fate::LostWithServer]);
    assert_eq!(link(&mut line, &file, at(&root, "other")).unwrap(), Err(Status::EXIST));
    line.fates.insert(Kind::Symlink, vec![Fate::LostWithServer]);
    let made = symlink(&mut line, at(&root, "soft"), b"file", &SetAttributes::default(), mark()).unwrap().unwrap();
    assert_eq!(made.attributes.kind, FileKind::Symlink);
    assert_eq!(read_link(&mut line, &made.handle).unwrap().unwrap(), b"file");
    line.fates.insert(Kind::MakeNode, vec![Fate::LostWithServer]);
    let made = make_node(&mut line, at(&root, "pipe"), Node::Pipe, &SetAttributes::default(), mark()).unwrap().unwrap();
    assert_eq!(made.attributes.kind, FileKind::Pipe);
}

/// [S-nfs-twice]
#[test]
fn a_rename_that_the_lost_copy_did_is_done_and_another_is_not() {
    let mut line = Line::forgetful(Kind::Rename);
    line.toy.put("old", b"x");
    let (root, file) = (line.root(), handle(&line.toy, "old"));
    assert_eq!(rename(&mut line, at(&root, "old"), at(&root, "new"), &file), Ok(Ok(())));
    assert_eq!(line.toy.names(""), ["new"]);
    // Somebody took it away between the copies, and what has the new name is another file.
    line.fates.insert(Kind::Rename, vec![Fate::LostWithServer]);
    let gone = handle(&line.toy, "new");
    line.toy.put("target", b"y");
    line.toy.take_away("new");
    assert_eq!(rename(&mut line, at(&root, "new"), at(&root, "target"), &gone), Ok(Err(Status::NOENT)));
}

/// [S-nfs-twice]
#[test]
fn an_exclusive_creation_is_ours_or_anothers_never_both() {
    for without_exclusive in [false, true] {
        let mut line = Line::forgetful(Kind::Create);
        line.toy.without_exclusive = without_exclusive;
        if without_exclusive {
            // The refusal arrives; the creation of the other kind is answered into nothing.
            line.fates.insert(Kind::Create, vec![]);
        }
        let root = line.root();
        let with = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
        let made = create(&mut line, at(&root, "lock"), IfTaken::Refuse, &with, mark()).unwrap().unwrap();
        assert_eq!(made.attributes.mode, 0o600);
        let other = Mark(Timestamp { seconds: 9, nanoseconds: 9 });
        line.fates.insert(Kind::Create, vec![Fate::LostWithServer; 2]);
        let refused = create(&mut line, at(&root, "lock"), IfTaken::Refuse, &with, other).unwrap();
        assert_eq!(refused, Err(Status::EXIST), "without exclusive: {without_exclusive}");
        let found = create(&mut line, at(&root, "lock"), IfTaken::Use, &with, other).unwrap().unwrap();
        assert_eq!(found.handle, made.handle);
    }
}

#[test]
fn a_guarded_creation_that_the_lost_copy_did_is_known_by_its_mark() {
    let mut line = Line::new();
    line.toy.without_exclusive = true;
    let root = line.root();
    // First the refusal of the exclusive kind, then the other kind, whose answer is lost.
    let call = calls::create(at(&root, "f"), &Create::Guarded(mark().on(&SetAttributes::default())));
    line.fates.insert(Kind::Create, vec![Fate::LostWithServer]);
    let made = make(&mut line, at(&root, "f"), &call, (FileKind::Regular, mark())).unwrap();
    assert!(made.is_ok());
    assert_eq!(line.count(Kind::Create), 2);
}

#[test]
fn a_truncation_is_guarded_against_its_own_late_copy() {
    let mut line = Line::forgetful(Kind::SetAttributes);
    line.toy.put("file", b"hello");
    let file = handle(&line.toy, "file");
    let after = resize(&mut line, &file, 2, &SetAttributes::default()).unwrap().unwrap();
    assert_eq!((after.size, line.toy.contents("file").unwrap()), (2, b"he".to_vec()));
    // The network kept a copy of the call, and delivers it after more was written.
    let late = line.messages.iter().rfind(|(kind, _)| *kind == Kind::SetAttributes).unwrap().1.clone();
    line.toy.put("file", b"more");
    line.toy.forget_answers();
    line.toy.handle(&late).unwrap();
    assert_eq!(line.toy.contents("file").unwrap(), b"more");
}

#[test]
fn a_server_that_asks_for_patience_gets_it_but_not_for_ever() {
    let mut line = Line::new();
    line.toy.put("file", b"x");
    line.toy.jukebox = 3;
    let root = line.root();
    assert!(lookup(&mut line, at(&root, "file")).unwrap().is_ok());
    assert_eq!(line.now, 7_000_000);
    line.toy.jukebox = 1000;
    assert_eq!(lookup(&mut line, at(&root, "file")).unwrap(), Err(Status::JUKEBOX));
}

#[test]
fn listings_come_in_parts_with_and_without_attributes() {
    let mut line = Line::new();
    for number in 0..100 {
        line.toy.put(&format!("file-{number}"), b"x");
    }
    let root = line.root();
    for detail in [Detail::Attributes, Detail::Names] {
        let (mut cookie, mut names, mut parts) = (Some(Cookie::default()), Vec::new(), 0);
        while let Some(from) = cookie {
            let part = list(&mut line, &root, from, 2048, detail).unwrap().unwrap();
            cookie = part.next();
            names.extend(part.entries.into_iter().map(|entry| entry.name));
            parts += 1;
        }
        names.sort();
        names.dedup();
        assert_eq!((names.len(), parts > 1), (102, true));
    }
}
