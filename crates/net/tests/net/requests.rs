//! Requests and their bodies.

use crate::pair::{Pair, pair, pair_with, soon};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use wayfs_net::{Connection, HEADER_LEN_MAX, NetConfig, Priority, RequestError, SendBody, StreamCode};

const MIB: usize = 1 << 20;

async fn send_all(body: &mut SendBody, len: usize) {
    let piece = Bytes::from(vec![0x5a; MIB]);
    let mut left = len;
    while left > 0 {
        let now = left.min(MIB);
        body.send(piece.slice(..now)).await.unwrap();
        left -= now;
    }
}

/// Answers every request with its own header and body.
fn serve_echo(connection: Connection) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        while let Ok(request) = connection.accept_request().await {
            tokio::spawn(async move {
                let body = request.body.read_all(16 * MIB).await.unwrap();
                let responder = request.responder;
                let mut answer = responder.answer_with_body(request.header, body.len() as u64).await.unwrap();
                answer.send(body).await.unwrap();
                answer.finish().await.unwrap();
            });
        }
    })
}

#[tokio::test]
async fn bodies_of_all_lengths_go_both_ways() {
    let pair = pair().await;
    serve_echo(pair.far.clone());
    serve_echo(pair.near.clone());
    for connection in [&pair.near, &pair.far] {
        for len in [0, 1, 300, 16 << 10, (256 << 10) - 1, (256 << 10) + 1, 3 * MIB] {
            let body = Bytes::from((0..len).map(|n| n as u8).collect::<Vec<_>>());
            let header = Bytes::from(format!("{len} bytes"));
            let echoed = soon("an echo", async {
                let upload = connection.upload(header.clone(), len as u64, Priority::Foreground);
                let (mut out, call) = upload.await.unwrap();
                out.send(body.clone()).await.unwrap();
                out.finish().await.unwrap();
                let (answered, answer) = call.answer().await.unwrap();
                assert_eq!(answered, header);
                assert_eq!(answer.len(), len as u64);
                answer.read_all(16 * MIB).await.unwrap()
            })
            .await;
            assert_eq!(echoed, body);
        }
    }
    let traffic = pair.client.traffic();
    assert_eq!(traffic.requests_sent, 7);
    assert_eq!(traffic.requests_received, 7);
    assert_eq!(traffic.body_bytes_sent, traffic.body_bytes_received);
    assert!(traffic.wire_bytes_sent > traffic.body_bytes_sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_arrive_while_a_long_body_is_under_way() {
    let Pair { near, far, client: _c, server: _s } = pair().await;
    let (sender, _receiver) = near.control().unwrap();
    let (_sender, mut receiver) = far.control().unwrap();
    let (mut body, call) = near.upload("long".into(), 64 * MIB as u64, Priority::Background).await.unwrap();
    let upload = tokio::spawn(async move {
        send_all(&mut body, 64 * MIB).await;
        body.finish().await.unwrap();
        call.answer().await.unwrap();
    });
    let mut request = soon("the request", far.accept_request()).await.unwrap();
    assert_eq!(request.priority, Priority::Background);
    // Nobody reads the body yet, so it fills all that it may fill and is still under way.
    tokio::time::sleep(Duration::from_millis(200)).await;
    for number in 0..100u8 {
        sender.send(Bytes::from(vec![number; 1000])).await.unwrap();
        let frame = soon("a frame beside a body", receiver.recv()).await.unwrap().unwrap();
        assert_eq!(frame, vec![number; 1000]);
    }
    assert!(!upload.is_finished() && request.body.left() > 0);
    while let Some(piece) = soon("a piece", request.body.next_piece()).await.unwrap() {
        assert!(piece.len() <= wayfs_net::BODY_PIECE_MAX);
    }
    soon("the answer", request.responder.answer("done".into())).await.unwrap();
    soon("the upload", upload).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_one_priority_come_one_after_the_other() {
    const BODIES: usize = 8;
    let pair = pair().await;
    let mut uploads = Vec::new();
    for _ in 0..BODIES {
        let near = pair.near.clone();
        uploads.push(tokio::spawn(async move {
            let (mut body, call) = near.upload("chunk".into(), MIB as u64, Priority::Foreground).await.unwrap();
            send_all(&mut body, MIB).await;
            body.finish().await.unwrap();
            call.answer().await.unwrap();
        }));
    }
    let came: Arc<[AtomicUsize]> = (0..BODIES).map(|_| AtomicUsize::new(0)).collect();
    let (ended, mut first) = tokio::sync::mpsc::channel(BODIES);
    for number in 0..BODIES {
        let mut request = soon("a request", pair.far.accept_request()).await.unwrap();
        let (came, ended) = (Arc::clone(&came), ended.clone());
        tokio::spawn(async move {
            while let Some(piece) = request.body.next_piece().await.unwrap() {
                came[number].fetch_add(piece.len(), Ordering::SeqCst);
            }
            let all: usize = came.iter().map(|bytes| bytes.load(Ordering::SeqCst)).sum();
            ended.send(all - MIB).await.unwrap();
            request.responder.answer("done".into()).await.unwrap();
        });
    }
    let others = soon("the first end", first.recv()).await.unwrap();
    for upload in uploads {
        soon("an upload", upload).await.unwrap();
    }
    // In turns of a packet, the others would be nearly there when the first is.
    assert!(others < (BODIES - 1) * MIB * 3 / 4, "{others} bytes of the others came before the first was there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_requests_and_frames_pass_many_stuck_bodies() {
    let small = NetConfig { path_capacity: 256 << 10, ..NetConfig::default() };
    let pair = pair_with(small.clone(), small).await;
    let (sender, _receiver) = pair.near.control().unwrap();
    let (_sender, mut receiver) = pair.far.control().unwrap();
    let mut uploads = Vec::new();
    for _ in 0..8 {
        let near = pair.near.clone();
        uploads.push(tokio::spawn(async move {
            let (mut body, _call) = near.upload("big".into(), 8 * MIB as u64, Priority::Foreground).await.unwrap();
            send_all(&mut body, 8 * MIB).await;
        }));
    }
    let mut stuck = Vec::new();
    for _ in 0..4 {
        stuck.push(soon("a big request", pair.far.accept_request()).await.unwrap());
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    sender.send("knowledge".into()).await.unwrap();
    assert_eq!(soon("a frame", receiver.recv()).await.unwrap().unwrap(), "knowledge");
    let far = pair.far.clone();
    let answering = async {
        let request = far.accept_request().await.unwrap();
        assert_eq!(request.header, "small");
        let mut body = request.responder.answer_with_body("here".into(), 100_000).await.unwrap();
        body.send(Bytes::from(vec![1; 100_000])).await.unwrap();
        body.finish().await.unwrap();
    };
    let asking = async {
        let (_, body) = pair.near.request("small".into()).await.unwrap();
        assert_eq!(body.read_all(MIB).await.unwrap().len(), 100_000);
    };
    soon("a small answer", async { tokio::join!(answering, asking) }).await;
    for upload in uploads {
        upload.abort();
    }
}

#[tokio::test]
async fn an_answer_that_waits_for_its_turn_is_not_taken_for_dead() {
    let quick = NetConfig {
        path_capacity: 256 << 10,
        request_idle_timeout: Duration::from_millis(600),
        ..NetConfig::default()
    };
    // The server's own patience with unread bodies must outlast the test.
    let patient = NetConfig { path_capacity: 256 << 10, ..NetConfig::default() };
    let pair = pair_with(quick.clone(), NetConfig { request_idle_timeout: Duration::from_secs(1), ..patient }).await;
    let far = pair.far.clone();
    tokio::spawn(async move {
        let mut hogs = Vec::new();
        for _ in 0..4 {
            let request = far.accept_request().await.unwrap();
            hogs.push(request.responder.answer_with_body(Bytes::new(), 2 * MIB as u64).await.unwrap());
        }
        let request = far.accept_request().await.unwrap();
        let late = tokio::spawn(async move {
            let mut body = request.responder.answer_with_body(Bytes::new(), 2 * MIB as u64).await.unwrap();
            send_all(&mut body, 2 * MIB).await;
            body.finish().await.unwrap();
        });
        // The hogs give signs of life, but nothing else, for twice the client's patience.
        for _ in 0..6 {
            tokio::time::sleep(Duration::from_millis(200)).await;
            for hog in &mut hogs {
                hog.still_here().await.unwrap();
            }
        }
        drop(hogs);
        late.await.unwrap();
    });
    let mut hogs = Vec::new();
    for _ in 0..4 {
        let (_, mut body) = soon("a header", pair.near.request("hog".into())).await.unwrap();
        hogs.push(tokio::spawn(async move { body.next_piece().await }));
    }
    let (_, body) = soon("the fifth header", pair.near.request("fifth".into())).await.unwrap();
    let all = soon("the fifth body", body.read_all(2 * MIB)).await.unwrap();
    assert_eq!(all.len(), 2 * MIB);
    for hog in hogs {
        let gone = soon("the hog's end", hog).await.unwrap();
        assert_eq!(gone, Err(RequestError::Refused(StreamCode::ABANDONED)));
    }
}

#[tokio::test]
async fn silence_ends_a_request_and_signs_of_life_keep_it() {
    let quick = NetConfig { request_idle_timeout: Duration::from_millis(300), ..NetConfig::default() };
    let pair = pair_with(quick, NetConfig::default()).await;
    let silent = async {
        let request = pair.far.accept_request().await.unwrap();
        tokio::time::sleep(Duration::from_millis(900)).await;
        drop(request);
    };
    let (error, ()) = soon("the end", async { tokio::join!(pair.near.request("a".into()), silent) }).await;
    assert!(matches!(error, Err(RequestError::Idle(_))), "{error:?}");
    let slow = async {
        let mut request = pair.far.accept_request().await.unwrap();
        for _ in 0..6 {
            tokio::time::sleep(Duration::from_millis(150)).await;
            request.responder.still_here().await.unwrap();
        }
        request.responder.answer("at last".into()).await.unwrap();
    };
    let (answer, ()) = soon("the answer", async { tokio::join!(pair.near.request("b".into()), slow) }).await;
    assert_eq!(answer.unwrap().0, "at last");
}

#[tokio::test]
async fn refusals_carry_their_number_and_the_connection_lives() {
    let pair = pair().await;
    let refusing = async {
        let request = pair.far.accept_request().await.unwrap();
        request.responder.refuse(StreamCode::application(7));
        drop(pair.far.accept_request().await.unwrap());
    };
    let asking = async {
        let refused = pair.near.request("a".into()).await.unwrap_err();
        assert_eq!(refused, RequestError::Refused(StreamCode::application(7)));
        let dropped = pair.near.request("b".into()).await.unwrap_err();
        assert_eq!(dropped, RequestError::Refused(StreamCode::NO_ANSWER));
    };
    soon("both refusals", async { tokio::join!(refusing, asking) }).await;
    assert_eq!(pair.near.close_reason(), None);
}

#[tokio::test]
async fn limits_are_kept_by_the_sender_and_its_own_mistakes_are_named() {
    let pair = pair().await;
    let long = Bytes::from(vec![0; HEADER_LEN_MAX + 1]);
    let len = long.len() as u64;
    let error = pair.near.request(long).await.unwrap_err();
    assert_eq!(error, RequestError::HeaderTooLong { len });
    let (mut body, _call) = pair.near.upload("a".into(), 3, Priority::Foreground).await.unwrap();
    assert_eq!(body.send("four".into()).await, Err(RequestError::WrongLength));
    body.send("fo".into()).await.unwrap();
    assert_eq!(body.left(), 1);
    let request = soon("the request", pair.far.accept_request()).await.unwrap();
    assert_eq!(body.finish().await, Err(RequestError::WrongLength));
    let error = soon("its end", request.body.read_all(10)).await.unwrap_err();
    assert_eq!(error, RequestError::Refused(StreamCode::ABANDONED));
}

#[tokio::test]
async fn a_body_longer_than_allowed_is_refused_by_the_receiver() {
    let strict = NetConfig { body_len_max: 1000, ..NetConfig::default() };
    let pair = pair_with(NetConfig::default(), strict).await;
    let (_body, call) = pair.near.upload("a".into(), 1001, Priority::Foreground).await.unwrap();
    let error = soon("a refusal", call.answer()).await.unwrap_err();
    assert_eq!(error, RequestError::Refused(StreamCode::BODY_TOO_LONG));
    let (body, _call) = pair.near.upload("b".into(), 900, Priority::Foreground).await.unwrap();
    let request = soon("the request", pair.far.accept_request()).await.unwrap();
    let error = request.body.read_all(899).await.unwrap_err();
    assert_eq!(error, RequestError::BodyTooLong { len: 900, max: 899 });
    drop(body);
}

#[tokio::test]
async fn a_request_taken_back_reaches_the_responder() {
    let pair = pair().await;
    let near = pair.near.clone();
    let asking = tokio::spawn(async move { near.request("a".into()).await });
    let request = soon("the request", pair.far.accept_request()).await.unwrap();
    asking.abort();
    let mut body = soon("an answer's start", request.responder.answer_with_body("x".into(), 1 << 30)).await.unwrap();
    let stopped = soon("the stop", async {
        loop {
            if let Err(error) = body.send(Bytes::from(vec![0; MIB])).await {
                return error;
            }
        }
    })
    .await;
    assert!(matches!(stopped, RequestError::Refused(_)), "{stopped}");
    assert_eq!(pair.near.close_reason(), None);
}

#[tokio::test]
async fn an_early_answer_to_an_unread_upload_is_heard() {
    let pair = pair().await;
    let (mut body, call) = pair.near.upload("have it".into(), 64 * MIB as u64, Priority::Foreground).await.unwrap();
    let uploading = tokio::spawn(async move {
        loop {
            if let Err(error) = body.send(Bytes::from(vec![0; MIB])).await {
                return error;
            }
        }
    });
    let request = soon("the request", pair.far.accept_request()).await.unwrap();
    drop(request.body);
    soon("answering", request.responder.answer("not needed".into())).await.unwrap();
    assert_eq!(soon("the answer", call.answer()).await.unwrap().0, "not needed");
    let error = soon("the stop", uploading).await.unwrap();
    assert!(matches!(error, RequestError::Refused(_)), "{error}");
}

#[tokio::test]
async fn more_requests_than_allowed_wait_their_turn() {
    let strict = NetConfig { requests_max: 2, ..NetConfig::default() };
    let pair = pair_with(NetConfig::default(), strict).await;
    serve_echo(pair.far.clone());
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..20u8 {
        let near = pair.near.clone();
        asking.spawn(async move { near.request(Bytes::from(vec![number])).await.unwrap().0[0] });
    }
    let mut answers: Vec<u8> = soon("all answers", asking.join_all()).await;
    answers.sort_unstable();
    assert_eq!(answers, (0..20).collect::<Vec<_>>());
}
