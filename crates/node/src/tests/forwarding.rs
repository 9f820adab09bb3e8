//! What comes for somebody goes on while it comes.

use super::hostile::Liar;
use crate::contents::message::{self, Ask, Form, Reply};
use crate::testing::{Machine, PATIENCE, eventually, noise};
use bytes::Bytes;
use wayfs_net::{IncomingRequest, Priority, RecvBody, SendBody};
use wayfs_types::{Digest, FileId, RecordId};

/// A home that lacks a chunk, a member that gives it piece by piece, and another one that asks for it.
struct Stage {
    _dir: tempfile::TempDir,
    home: Machine,
    giver: Liar,
    asker: Liar,
    version: (FileId, RecordId),
    chunk: Bytes,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = Machine::home(&dir.path().join("home"));
        let (file, inode) = home.write("photo", b"a version to ask for");
        let [giver, asker] = ["giver", "asker"].map(|_| {
            let (liar, frames, _) = Liar::member(&home);
            // It says nothing, and goes on.
            std::mem::forget(frames);
            liar
        });
        eventually("both are there", || home.volume.sessions().len() == 2);
        let version = (file, inode.version);
        Self { _dir: dir, home, giver, asker, version, chunk: Bytes::from(noise(200_000, 71)) }
    }

    fn question(&self) -> Bytes {
        let (file, version) = self.version;
        let patience_ms = u32::try_from(PATIENCE.as_millis()).unwrap();
        let digest = Digest::of(&self.chunk);
        message::encode(&Ask::Give { file, version, digest, patience_ms, number: 0, bases: Vec::new() })
    }

    /// The asker asks, and the giver begins to give so many bytes.
    fn begin(&self, len: usize) -> (tokio::task::JoinHandle<(Reply, RecvBody)>, SendBody) {
        let (connection, question) = (self.asker.connection.clone(), self.question());
        let asking = self.asker.runtime.spawn(async move {
            let (header, body) = connection.request_at(question, Priority::Foreground).await.unwrap();
            (Reply::decode(&header).unwrap(), body)
        });
        let body = self.giver.run(async {
            loop {
                let IncomingRequest { header, responder, .. } = self.giver.connection.accept_request().await.unwrap();
                if let Ok(Ask::Give { .. }) = Ask::decode(&header) {
                    let found = message::encode(&Reply::Found(Form::Plain));
                    break responder.answer_with_body(found, len as u64).await.unwrap();
                }
                responder.answer(message::encode(&Reply::Absent)).await.unwrap();
            }
        });
        (asking, body)
    }
}

async fn read(body: &mut RecvBody, len: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < len {
        all.extend_from_slice(&body.next_piece().await.unwrap().unwrap());
    }
    all
}

#[test]
fn a_chunk_goes_on_before_it_is_whole() {
    let stage = Stage::new();
    let (first, second) = (stage.chunk.slice(..120_000), stage.chunk.slice(120_000..));
    let (asking, mut giving) = stage.begin(stage.chunk.len());
    stage.giver.run(giving.send(first.clone())).unwrap();
    let (reply, mut body) = stage.asker.run(asking).unwrap();
    assert_eq!(reply, Reply::Found(Form::Plain));
    assert!(stage.asker.run(read(&mut body, first.len())) == first, "the rest has not been sent");
    stage.giver.run(async {
        giving.send(second.clone()).await.unwrap();
        giving.finish().await.unwrap();
    });
    assert!(stage.asker.run(read(&mut body, second.len())) == second);
    assert_eq!(stage.asker.run(body.next_piece()), Ok(None));
    eventually("the home has it, too", || stage.home.volume.contents().has(&Digest::of(&stage.chunk)));
    eventually("it is counted", || stage.home.volume.metrics().chunks_passed_on.value() == 1);
}

#[test]
fn whoever_asked_hears_that_it_broke_off() {
    let stage = Stage::new();
    let (asking, mut giving) = stage.begin(stage.chunk.len());
    stage.giver.run(giving.send(stage.chunk.slice(..120_000))).unwrap();
    let (_, mut body) = stage.asker.run(asking).unwrap();
    drop(giving);
    let end = stage.asker.run(async {
        loop {
            match body.next_piece().await {
                Ok(Some(_)) => {}
                end => break end,
            }
        }
    });
    assert!(end.is_err(), "{end:?}");
}

/// It goes on before anybody could check it. Whoever asks afterwards hears of nothing that is not checked.
#[test]
fn what_was_found_to_be_something_else_does_not_go_on_again() {
    let stage = Stage::new();
    let wrong = Bytes::from(noise(200_000, 72));
    for round in 0..2 {
        let (asking, mut giving) = stage.begin(wrong.len());
        stage.giver.run(async {
            // The home may stop reading.
            if giving.send(wrong.clone()).await.is_ok() {
                let _ = giving.finish().await;
            }
        });
        // It asks again and again, and hears no more.
        let answering = stage.giver.connection.clone();
        let refusing = stage.giver.runtime.spawn(async move {
            while let Ok(IncomingRequest { responder, .. }) = answering.accept_request().await {
                let _ = responder.answer(message::encode(&Reply::Absent)).await;
            }
        });
        let (reply, _) = stage.asker.run(asking).unwrap();
        assert_eq!(matches!(reply, Reply::Found(_)), round == 0, "round {round}: {reply:?}");
        eventually("it was checked", || stage.home.volume.fetches_under_way() == 0);
        refusing.abort();
    }
    assert!(!stage.home.volume.contents().has(&Digest::of(&stage.chunk)));
}
