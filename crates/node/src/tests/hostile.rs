use crate::contents::message::{self, Ask, Form, Reply};
use crate::greet::{self, Attach};
use crate::handshake::{ChildRole, Greeting, PROTOCOL_VERSION};
use crate::servers::{Have, News};
use crate::testing::{Machine, PATIENCE, VOLUME, eventually, noise};
use bytes::Bytes;
use std::future::Future;
use wayfs_net::{Connection, Endpoint, NetConfig, NodeIdentity, Priority};
use wayfs_proto::GivenUp;
use wayfs_types::request::Level;
use wayfs_types::{Admitted, Content, Digest, FileId, OriginId, RecordId};

/// A peer that says what it likes.
pub(super) struct Liar {
    pub(super) runtime: tokio::runtime::Runtime,
    endpoint: Endpoint,
    pub(super) connection: Connection,
}

impl Liar {
    fn dial(home: &Machine) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let key = NodeIdentity::generate().unwrap();
        let endpoint = {
            let _inside = runtime.enter();
            Endpoint::bind("127.0.0.1:0".parse().unwrap(), &key, NetConfig::default()).unwrap()
        };
        let info = home.info();
        let connection = runtime.block_on(endpoint.connect(&info.addresses, info.node)).unwrap();
        Self { runtime, endpoint, connection }
    }

    /// A member that keeps to the handshake and to nothing else.
    pub(super) fn member(home: &Machine) -> (Self, greet::Frames, OriginId) {
        let liar = Self::dial(home);
        let origin = home.volume.grant_origin(liar.endpoint.id(), Admitted::Client, "liar@test", PATIENCE).unwrap();
        let attach = Attach { volume: VOLUME, origin, role: ChildRole::Client, have: Have::default(), admission: None };
        let (frames, _) = liar.run(greet::attach(&liar.connection, attach)).unwrap();
        (liar, frames, origin)
    }

    pub(super) fn run<T>(&self, what: impl Future<Output = T>) -> T {
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE, what).await }).expect("an end in time")
    }

    fn upload(&self, ask: &Ask, body: Bytes) -> Reply {
        self.run(async {
            let (mut sender, call) =
                self.connection.upload(message::encode(ask), body.len() as u64, Priority::Background).await.unwrap();
            // What is refused by its header is answered before the body is through: the answer counts.
            if sender.send(body).await.is_ok() {
                let _ = sender.finish().await;
            }
            let (header, _) = call.answer().await.unwrap();
            Reply::decode(&header).unwrap()
        })
    }
}

fn works(home: &Machine, dir: &std::path::Path) {
    let client = Machine::below(home, dir, ChildRole::Client, &[home]);
    client.write("works", b"still");
    client.wait(Level::Stable);
}

#[test]
fn garbage_instead_of_a_greeting_harms_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    for garbage in [&b""[..], b"\0\xff", b"{}", &noise(60_000, 1)] {
        let liar = Liar::dial(&home);
        let (sender, mut receiver) = liar.connection.control().unwrap();
        liar.run(async {
            sender.send(Bytes::copy_from_slice(garbage)).await.unwrap();
            assert!(matches!(receiver.recv().await, Err(_) | Ok(None)));
        });
    }
    works(&home, &dir.path().join("c"));
}

#[test]
fn strangers_other_versions_and_foreign_origins_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let member = Machine::below(&home, &dir.path().join("m"), ChildRole::Client, &[&home]);
    let attempts = [
        Greeting::Attach {
            version: PROTOCOL_VERSION,
            volume: VOLUME,
            origin: member.origin(),
            role: ChildRole::Client,
            have: Have::default(),
            admission: None,
        },
        Greeting::Attach {
            version: PROTOCOL_VERSION + 1,
            volume: VOLUME,
            origin: member.origin(),
            role: ChildRole::Client,
            have: Have::default(),
            admission: None,
        },
        Greeting::Attach {
            version: PROTOCOL_VERSION,
            volume: wayfs_types::VolumeId::from_bytes([9; 16]),
            origin: member.origin(),
            role: ChildRole::Client,
            have: Have::default(),
            admission: None,
        },
        Greeting::Join {
            version: PROTOCOL_VERSION,
            volume: VOLUME,
            ticket: [1; 16],
            proof: [2; 32],
            role: ChildRole::Client,
            label: "x".into(),
            former: None,
        },
    ];
    for greeting in attempts {
        let liar = Liar::dial(&home);
        let (_, reply) = liar.run(greet::greet(&liar.connection, &greeting)).unwrap();
        assert!(matches!(reply, crate::handshake::Reply::Refused(_)), "{reply:?}");
    }
    works(&home, &dir.path().join("c"));
}

#[test]
fn garbage_frames_end_the_session_only() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let (liar, frames, _) = Liar::member(&home);
    liar.run(async { frames.0.send(Bytes::from(noise(5000, 2))).await.unwrap() });
    eventually("the session is over", || home.volume.sessions().is_empty());
    works(&home, &dir.path().join("c"));
}

#[test]
fn chunks_that_lie_about_name_length_or_compression_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let (liar, _frames, origin) = Liar::member(&home);
    let right = Bytes::from(noise(50_000, 3));
    let digest = Digest::of(&right);
    let wrong = Bytes::from(noise(50_000, 4));
    for form in [Form::Plain, Form::Zstd { len: 50_000 }, Form::Zstd { len: u32::MAX }] {
        let reply = liar.upload(&Ask::Take { digest, form, bases: vec![] }, wrong.clone());
        assert!(matches!(reply, Reply::Invalid(_)), "{reply:?}");
    }
    assert!(!home.volume.contents().has(&digest));
    let version = RecordId::new(origin, 1).unwrap();
    let claim = |size, depth| Ask::Complete {
        file: FileId::ROOT,
        version,
        content: Content::Tree { size, root: digest, depth, holes: 0 },
    };
    assert!(matches!(liar.upload(&claim(50_000, 0), Bytes::new()), Reply::Missing(_)));
    assert_eq!(liar.upload(&Ask::Take { digest, form: Form::Plain, bases: vec![] }, right), Reply::Taken);
    // The chunk is there, but shorter than the content claims, and it is no list node.
    assert!(matches!(liar.upload(&claim(60_000, 0), Bytes::new()), Reply::Invalid(_)));
    assert!(matches!(liar.upload(&claim(60_000, 2), Bytes::new()), Reply::Invalid(_)));
    assert_eq!(liar.upload(&claim(50_000, 0), Bytes::new()), Reply::Durable);
    works(&home, &dir.path().join("c"));
}

#[test]
fn differences_to_nothing_to_others_and_to_too_much_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let (liar, _frames, _) = Liar::member(&home);
    let (base, chunk) = (Bytes::from(noise(50_000, 5)), Bytes::from(noise(50_000, 6)));
    let (here, digest) = (Digest::of(&base), Digest::of(&chunk));
    assert_eq!(liar.upload(&Ask::Take { digest: here, form: Form::Plain, bases: vec![] }, base), Reply::Taken);
    let take = |named, before, bases: Vec<Digest>, len| {
        let form = Form::Difference { len, named, before };
        liar.upload(&Ask::Take { digest, form, bases }, Bytes::from(noise(3000, 7)))
    };
    assert_eq!(take(1, 0, vec![Digest::of(b"nowhere")], 50_000), Reply::BaseGone);
    let refused = [
        take(1, 0, vec![here], 50_000),
        take(1, 0, vec![here], u32::MAX),
        take(0, 0, vec![], 50_000),
        take(2, 0, vec![here], 50_000),
        take(1, 1, vec![here], 50_000),
        take(1, 0, vec![here; 9], 50_000),
    ];
    for reply in refused {
        assert!(matches!(reply, Reply::Invalid(_)), "{reply:?}");
    }
    assert_eq!(take(0xff, 0, vec![home.keep(&noise(200_000, 8)).root().unwrap(); 8], 50_000), Reply::BaseGone);
    assert!(!home.volume.contents().has(&digest));
    works(&home, &dir.path().join("c"));
}

#[test]
fn garbage_requests_are_answered_or_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let (liar, _frames, _) = Liar::member(&home);
    for seed in 0..20 {
        let header = Bytes::from(noise(1 + seed as usize * 37, seed));
        let reply = liar.run(async {
            let (header, _) = liar.connection.request(header).await.unwrap();
            Reply::decode(&header).unwrap()
        });
        assert!(matches!(reply, Reply::Invalid(_)), "{reply:?}");
    }
    works(&home, &dir.path().join("c"));
}

#[test]
fn a_stranger_who_was_not_welcomed_gets_no_contents() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let liar = Liar::dial(&home);
    let asked = liar.runtime.block_on(async {
        let asking =
            liar.connection.request(message::encode(&Ask::Servers { have: Have::default(), news: News::default() }));
        tokio::time::timeout(std::time::Duration::from_millis(500), asking).await
    });
    assert!(!matches!(asked, Ok(Ok(_))), "a stranger was answered");
}

/// What is nowhere is given up by somebody's word. Of what a member does not answer for nobody knows that.
#[test]
fn contents_that_a_silent_or_failing_member_may_have_are_not_looked_for_in_vain() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let (film, inode) = home.write("film", b"of yesterday");
    let content = Content::Tree { root: Digest::of(&noise(50_000, 9)), size: 50_000, depth: 0, holes: 0 };
    let away = GivenUp {
        version: inode.version,
        file: film,
        path: None,
        content,
        waits_for: Vec::new(),
        has_older: false,
        instead: None,
    };
    let look = || home.volume.look_in_vain(std::slice::from_ref(&away), 6 * PATIENCE);
    let honest = Machine::below(&home, &dir.path().join("c"), ChildRole::Client, &[&home]);
    honest.write("works", b"still");
    honest.wait(Level::Stable);
    assert_eq!(look().len(), 1, "who is there said no");

    let (liar, _frames, _) = Liar::member(&home);
    let connection = liar.connection.clone();
    let answering = liar.runtime.spawn(async move {
        while let Ok(request) = connection.accept_request().await {
            let failed = Reply::Failed("a disk that cannot be read".to_owned());
            let _ = request.responder.answer(message::encode(&failed)).await;
        }
    });
    assert!(look().is_empty(), "one could not read its disk");
    answering.abort();
    assert!(look().is_empty(), "one does not answer");
    drop((liar, _frames));
    eventually("it is away", || look().len() == 1);
}
